"""A claim that names several profiles: what it asks for, what it reserves, and what it settles on."""

import pytest
from django.db import IntegrityError, connection, transaction
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from claims.approvals import decide
from claims.delivery.tasks import reconcile_objects
from claims.models import Approval, Claim, ClaimCharge, Quota
from claims.quotas import quota_usage
from claims.states import ClaimState
from core.errors import Forbidden, Invalid, QuotaExceeded
from dra.validation import problems
from tests.claims.mirror import Mirror, result
from tests.factories import make_profile, make_quota, make_team

pytestmark = pytest.mark.django_db

PART = "mig.nvidia.com"


def partition(slug="slice-10", **limits):
    """A profile of one partition, in a class of its own."""
    exactly = {"deviceClassName": PART, "allocationMode": "ExactCount", "count": 1}
    return make_profile(
        slug, spec={"devices": {"requests": [{"name": "part", "exactly": exactly}]}}, **limits
    )


@pytest.fixture
def slice_10(db):
    return partition(scalable="")


@pytest.fixture
def parts(vision):
    return make_quota(vision, 4, device_class=PART)


@pytest.fixture
def told(fra, monkeypatch):
    """Tell of what the mirror shows, at once."""
    mirror = Mirror(fra)

    def tell(name):
        reconcile_objects(str(fra.pk), [f"vision/{name}"])

    monkeypatch.setattr(mirror, "tell", tell)
    return mirror


def used():
    return {row.label: (row.held, row.reserved) for row in quota_usage.quota_usage(Quota.objects.all())}


def test_it_asks_for_the_first_that_fits(ask, train, slice_10, parts):
    claim = ask(devices=2, alternatives=[slice_10])
    (request,) = claim.spec["devices"]["requests"]
    assert [one["name"] for one in request["firstAvailable"]] == ["train-80", "slice-10"]
    assert [one["count"] for one in request["firstAvailable"]] == [2, 1]
    assert problems(claim.spec) == []
    options = claim.alternatives.values_list("position", "name", "profile_version__profile__slug", "devices")
    assert list(options) == [(0, "gpu/train-80", "train-80", 2), (1, "gpu/slice-10", "slice-10", 1)]
    assert claim.devices == 2


def test_the_worst_is_reserved_in_every_quota_that_one_of_them_counts_against(
    ask, vision, train, slice_10, parts
):
    make_quota(vision, 6, profile=train)
    make_quota(vision, 3, profile=slice_10)
    ask(devices=2, alternatives=[slice_10])
    assert used() == {
        "gpu.nvidia.com": (0, 2),
        PART: (0, 1),
        str(train): (0, 2),
        str(slice_10): (0, 1),
    }


def test_every_quota_has_to_have_room(ask, vision, train, slice_10):
    with pytest.raises(QuotaExceeded, match=r"vision has no quota for mig\.nvidia\.com devices"):
        ask(alternatives=[slice_10])
    make_quota(vision, 4, device_class=PART)
    make_quota(vision, 0, profile=slice_10)
    with pytest.raises(QuotaExceeded, match="0 of 0 devices of profile"):
        ask(alternatives=[slice_10])
    assert not Claim.objects.exists()


def test_it_counts_as_what_it_was_given_and_as_the_worst_again_when_that_goes_back(
    ask, lena, vision, train, slice_10, parts, told
):
    make_quota(vision, 6, profile=train)
    make_quota(vision, 3, profile=slice_10)
    claim = ask(devices=2, alternatives=[slice_10], name="mine")
    decide.approve(claim=claim, by=lena, spec_hash=claim.spec_hash)
    told.claim("mine", claim)
    worst = {"gpu.nvidia.com": (0, 2), PART: (0, 1), str(train): (0, 2), str(slice_10): (0, 1)}
    assert used() == worst
    told.claim("mine", claim, result("gpu-0-mig-1", request="gpu/slice-10"))
    claim.refresh_from_db()
    assert claim.state == ClaimState.ALLOCATED
    assert used() == {"gpu.nvidia.com": (0, 0), PART: (1, 0), str(train): (0, 0), str(slice_10): (1, 0)}
    by_class = Quota.objects.get(device_class="gpu.nvidia.com")
    by_profile = Quota.objects.get(profile=slice_10)
    assert quota_usage.contributions(by_class) == []
    assert [(one.claim, one.devices) for one in quota_usage.contributions(by_profile)] == [(claim, 1)]
    told.claim("mine", claim)
    assert used() == worst
    assert [one.devices for one in quota_usage.contributions(by_class)] == [2]


def test_page_and_api_say_which_was_asked_for_first_and_which_is_held(
    client, ask, alice, lena, slice_10, parts, told
):
    claim = ask(devices=2, alternatives=[slice_10], name="mine")
    decide.approve(claim=claim, by=lena, spec_hash=claim.spec_hash)
    told.claim("mine", claim, result("gpu-0-mig-1", request="gpu/slice-10"))
    client.force_login(alice)
    listed = client.get(f"/api/v1/claims/{claim.pk}/").json()["alternatives"]
    assert [(one["profile"], one["request"], one["devices"], one["held"]) for one in listed] == [
        ("train-80", "gpu/train-80", 2, 0),
        ("slice-10", "gpu/slice-10", 1, 1),
    ]
    page = client.get(reverse("claims:detail", args=[claim.pk])).text
    _, first, second = page.partition("Requested:")[2].partition("</div>")[0].split('<a class="dg-link"')
    assert "allocated" in second
    assert "allocated" not in first
    assert "&amp;alternatives=slice-10&amp;" in page  # asking again asks for the same


def test_a_claim_of_one_profile_has_no_alternatives(client, ask, alice):
    claim = ask()
    client.force_login(alice)
    assert client.get(f"/api/v1/claims/{claim.pk}/").json()["alternatives"] == []
    assert "Requested:" not in client.get(reverse("claims:detail", args=[claim.pk])).text


@pytest.mark.parametrize("address", ["/api/v1/claims/{}/", "/claims/{}/"])
def test_a_claim_costs_the_same_for_one_alternative_and_for_many(client, ask, alice, parts, address):
    few = ask(alternatives=[partition("a", scalable="")])
    many = ask(alternatives=[partition(name, scalable="") for name in ("b", "c", "d")])
    client.force_login(alice)
    costs = []
    for claim in (few, many):
        client.get(address.format(claim.pk))
        with CaptureQueriesContext(connection) as seen:
            assert client.get(address.format(claim.pk)).status_code == 200
        costs.append(len(seen))
    assert costs[0] == costs[1]


def test_what_is_settled_is_free_for_others(ask, lena, quota, slice_10, parts, told):
    claim = ask(devices=8, alternatives=[slice_10], name="mine")
    decide.approve(claim=claim, by=lena, spec_hash=claim.spec_hash)
    with pytest.raises(QuotaExceeded):
        ask(devices=8)
    told.claim("mine", claim, result("gpu-0-mig-1", request="gpu/slice-10"))
    assert ask(devices=8).devices == 8
    told.claim("mine", claim)  # the devices went back while another took the room: shown as over
    (usage,) = quota_usage.quota_usage([quota])
    assert usage.over == 8


def test_claims_of_a_template_settle_one_by_one(ask, lena, slice_10, parts, told):
    claim = ask(devices=2, parallel=2, delivery="template", alternatives=[slice_10], name="mine")
    decide.approve(claim=claim, by=lena, spec_hash=claim.spec_hash)
    told.template(claim)
    taken = {"origin": "template"}
    told.claim("pod-1", claim, result("gpu-0-mig-1", request="gpu/slice-10"), uid="u1", **taken)
    assert used() == {"gpu.nvidia.com": (2, 0), PART: (2, 0)}
    both = [result("gpu-1", request="gpu/train-80"), result("gpu-2", request="gpu/train-80")]
    told.claim("pod-2", claim, *both, uid="u2", **taken)
    assert used() == {"gpu.nvidia.com": (2, 0), PART: (1, 0)}
    more = [result("gpu-3", request="gpu/train-80"), result("gpu-4", request="gpu/train-80")]
    told.claim("pod-3", claim, *more, uid="u3", **taken)  # more than was asked for is told, never charged
    assert used() == {"gpu.nvidia.com": (4, 0), PART: (1, 0)}
    still = [result("gpu-5", request="gpu/train-80"), result("gpu-6", request="gpu/train-80")]
    told.claim("pod-4", claim, *still, uid="u4", **taken)  # of one alternative alone more than all
    assert used() == {"gpu.nvidia.com": (4, 0), PART: (1, 0)}


def test_counting_more_again_takes_the_lock_of_the_quotas(ask, lena, quota, slice_10, parts, told):
    claim = ask(devices=2, alternatives=[slice_10], name="mine")
    decide.approve(claim=claim, by=lena, spec_hash=claim.spec_hash)

    def locks():
        return [
            query["sql"]
            for query in seen
            if 'FROM "claims_quota"' in query["sql"] and "FOR NO KEY" in query["sql"]
        ]

    with CaptureQueriesContext(connection) as seen:
        told.claim("mine", claim, result("gpu-0-mig-1", request="gpu/slice-10"))
    assert not locks()
    with CaptureQueriesContext(connection) as seen:
        told.claim("mine", claim)
    assert len(locks()) == 1


def test_a_settled_charge_is_never_more_than_the_worst(ask):
    charge = ask(devices=2).charges.get()
    with pytest.raises(IntegrityError, match="claimcharge_settles_below"), transaction.atomic():
        ClaimCharge.objects.filter(pk=charge.pk).update(settled=3)


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        ({"deliveries": ["template"]}, "is not available as a"),
    ],
)
def test_an_alternative_obeys_its_own_limits(ask, parts, limits, said):
    with pytest.raises(Invalid, match=said):
        ask(alternatives=[partition(scalable="", **limits)])


def test_an_alternative_that_cannot_be_one_is_named(ask, parts):
    spec = {"devices": {"requests": [{"name": name, "exactly": {"deviceClassName": PART}} for name in "ab"]}}
    with pytest.raises(Invalid, match="pair has 2 requests"):
        ask(alternatives=[make_profile("pair", spec=spec)])


def test_a_profile_that_is_not_open_to_the_team_is_no_alternative(ask, parts):
    other = partition("theirs")
    other.teams.add(make_team("nlp"))
    with pytest.raises(Forbidden, match="is not open to vision"):
        ask(alternatives=[other])


def test_a_rule_approves_only_what_each_of_them_allows(ask, train, parts):
    automatic = make_profile("quick", approval=Approval.AUTOMATIC)
    assert ask(profile=automatic).state == ClaimState.APPROVED
    also = partition("also", approval=Approval.AUTOMATIC)
    assert ask(profile=automatic, alternatives=[also]).state == ClaimState.APPROVED
    assert ask(profile=train, alternatives=[also]).state == ClaimState.REQUESTED
