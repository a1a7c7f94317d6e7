"""A claim of several profiles is shown with all of them, and found by each, wherever claims are listed."""

import csv
import io

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from claims.approvals.decide import approve
from claims.models import Approval, Claim, Quota
from claims.plans.changes import claim_size
from claims.plans.plan import PROFILE_LABEL, claim_manifest
from claims.requests.services import save_draft
from core.errors import Forbidden
from notify.models import Notice
from tests.factories import make_profile, make_quota, make_spec

pytestmark = pytest.mark.django_db

PART = "mig.nvidia.com"
SEEN_BY_ALICE = (reverse("claims:list"), reverse("home"), "/api/v1/claims/")
SEEN_BY_LENA = (
    reverse("claims:approvals"),
    reverse("claims:approvals") + "?format=csv",
    "/api/v1/approvals/",
)


@pytest.fixture
def slice_10(vision):
    make_quota(vision, 40, device_class=PART)
    return make_profile("slice-10", spec=make_spec(device_class=PART))


@pytest.fixture
def both(ask, slice_10):
    return ask(devices=2, together=[(slice_10, 3)], name="both")


@pytest.fixture
def either(ask, slice_10):
    return ask(devices=2, alternatives=[slice_10], name="either")


def rows_of(answer):
    return list(csv.DictReader(io.StringIO(answer.getvalue().decode())))


def test_all_profiles_are_named_with_what_becomes_of_them(both, either, ask):
    assert (both.titles, both.slugs) == ("Train 80 + Slice 10", "train-80 + slice-10")
    assert (either.titles, either.slugs) == ("Train 80 or else Slice 10", "train-80 or else slice-10")
    assert claim_size(both) == "2 × Train 80 + 3 × Slice 10, 1 d"
    assert claim_size(either) == "2 × Train 80 or else 2 × Slice 10, 1 d"
    assert claim_size(ask(devices=2)) == "2 × Train 80, 1 d"


def test_a_template_says_what_one_claim_takes(ask, slice_10):
    claim = ask(devices=1, parallel=3, delivery="template", together=[(slice_10, 2)])
    assert claim_size(claim) == "1 × Train 80 + 2 × Slice 10, 1 d · 3 pods"


@pytest.mark.parametrize("address", [reverse("claims:list"), reverse("home")])
def test_lists_show_all_of_them(client, alice, both, either, address):
    client.force_login(alice)
    page = client.get(address).text
    assert "Train 80 + Slice 10" in page
    assert "Train 80 or else Slice 10" in page


def test_the_csv_has_all_of_them_with_their_versions(client, alice, both):
    client.force_login(alice)
    (row,) = rows_of(client.get(reverse("claims:list") + "?format=csv"))
    assert row["Profile"] == "train-80 v1 + slice-10 v1"


def test_the_api_lists_all_of_them(client, alice, both, either):
    client.force_login(alice)
    found = {one["name"]: one for one in client.get("/api/v1/claims/").json()["results"]}
    assert found["both"]["profiles"] == found["either"]["profiles"] == ["train-80", "slice-10"]
    assert (found["both"]["together"], found["either"]["together"]) == (True, False)


@pytest.mark.parametrize("slug", ["train-80", "slice-10"])
def test_each_of_its_profiles_finds_it_once(client, alice, lena, both, slug):
    make_profile("other")
    word = slug.partition("-")[0]
    for person, address in (
        (alice, reverse("claims:list") + "?format=csv&{}"),
        (lena, reverse("claims:approvals") + "?format=csv&{}"),
    ):
        client.force_login(person)
        for query, count in ((f"profile={slug}", 1), ("profile=other", 0), (f"q={word}", 1), ("q=other", 0)):
            assert len(rows_of(client.get(address.format(query)))) == count, (address, query)
    client.force_login(alice)
    assert len(client.get(f"/api/v1/claims/?profile={slug}").json()["results"]) == 1
    assert client.get("/api/v1/claims/?profile=other").json()["results"] == []


def test_approvers_see_all_of_them_in_list_card_and_notice(client, lena, both):
    client.force_login(lena)
    said = "2 × Train 80 + 3 × Slice 10, 1 d"
    page = client.get(reverse("claims:approval", args=[both.pk])).text
    assert said in page
    assert "from the profile" not in page
    assert said in Notice.objects.get(user=lena).body
    (found,) = client.get("/api/v1/approvals/").json()["results"]
    assert found["summary"] == said
    assert found["claim"]["profiles"] == ["train-80", "slice-10"]
    asked_for = "2 × Train 80 + 3 × Slice 10 for 1 d"
    assert asked_for in client.get(reverse("claims:change", args=[both.pk])).text


def test_approval_page_suggests_no_single_profile_for_a_combination(client, lena, ask, both, monkeypatch):
    chosen = []
    monkeypatch.setattr(
        "claims.inbox.impact.fitting_profiles", lambda **fields: chosen.append(fields["chosen"]) or []
    )
    client.force_login(lena)
    single = ask(name="single")
    for claim in (both, single):
        assert client.get(reverse("claims:approval_impact", args=[claim.pk])).status_code == 200
    assert chosen == [[single.profile_version.profile]]


def test_who_may_not_decide_reads_which_profiles_ask_for_an_admin(ask, lena, slice_10):
    strict = make_profile("strict", spec=make_spec(device_class=PART), approval=Approval.ADMIN)
    claim = ask(together=[(strict, 1)])
    with pytest.raises(Forbidden, match=r"requests for train-80 \+ strict"):
        approve(claim=claim, by=lena, spec_hash=claim.spec_hash)


def test_what_counts_against_a_quota_names_all_of_them(client, alice, both):
    client.force_login(alice)
    quota = Quota.objects.get(device_class=PART)
    assert "Train 80 + Slice 10" in client.get(reverse("claims:quota", args=[quota.pk])).text
    (part,) = client.get(f"/api/v1/quotas/{quota.pk}/").json()["contributions"]
    assert part["claim"]["profiles"] == ["train-80", "slice-10"]


def test_the_page_of_the_claim_counts_what_one_claim_takes(client, alice, ask, slice_10):
    claim = ask(devices=1, parallel=3, delivery="template", together=[(slice_10, 2)])
    client.force_login(alice)
    page = client.get(reverse("claims:detail", args=[claim.pk])).text
    asked = page.partition("Requested:")[2].partition("</div>")[0]
    assert ">Train 80</a>" in asked
    assert "2 × <a" in asked


def test_a_draft_shows_all_of_them(client, alice, vision, fra, train, slice_10):
    typed = {"profile": ["train-80"], "together": ["slice-10"], "together_devices": ["2"]}
    save_draft(by=alice, key="k-1", fields=typed)
    client.force_login(alice)
    address = reverse("claims:drafts")
    assert "Train 80 + slice-10" in client.get(address).text
    assert rows_of(client.get(address + "?format=csv"))[0]["Profile"] == "Train 80 + slice-10"


def test_objects_are_labelled_with_the_profile_named_first(both):
    assert claim_manifest(both)["metadata"]["labels"][PROFILE_LABEL] == "train-80"


@pytest.mark.parametrize("address", [*SEEN_BY_ALICE, *SEEN_BY_LENA])
def test_a_list_costs_the_same_for_one_claim_and_for_many(client, ask, alice, lena, slice_10, address):
    client.force_login(lena if address in SEEN_BY_LENA else alice)
    ask(together=[(slice_10, 1)])
    client.get(address)
    costs = []
    for more in (0, 2):
        for _number in range(more):
            ask(together=[(slice_10, 1)])
        with CaptureQueriesContext(connection) as seen:
            client.get(address).getvalue() if "csv" in address else client.get(address)
        costs.append(len(seen))
    assert costs[0] == costs[1]
    assert Claim.objects.count() == 3
