"""What a request would come to before it is sent, and the room of a claim that pods share."""

import pytest
from django.core.exceptions import PermissionDenied
from django.http import Http404

from claims.access import may_request
from claims.lifecycle.consumers import MAX_CONSUMERS, SharingSlots, sharing_slots
from claims.models import Approval, Claim, Delivery
from claims.observation.observations import observe
from claims.requests.preview import preview
from claims.states import ClaimState
from core.errors import Conflict
from inventory.models import Pod, ResourceClaim
from tests.claims.requests.test_match_pages import mirrored
from tests.dra.clusters import gpu
from tests.factories import make_claim, make_profile, make_quota, make_spec, make_team

pytestmark = pytest.mark.django_db


@pytest.fixture
def seen(alice, vision, fra, train, quota):
    mirrored(fra, [gpu(number) for number in range(4)])

    def seen(**fields):
        return preview(**{"by": alice, "team": vision, "cluster": fra, "profile": train, **fields})

    return seen


def lines(found):
    return [(one.label, one.before, one.needs, one.after, one.limit, one.fits) for one in found.quota_lines]


def test_a_preview_counts_all_claims_against_each_quota_and_writes_nothing(seen, alice, vision, fra, train):
    make_quota(vision, 4, profile=train)
    make_claim(vision, by=alice, cluster=fra, profile=train, devices=1)
    found = seen(devices=2, parallel=2, delivery="template")
    assert [row[1:] for row in lines(found)] == [(1, 4, 5, 8, True), (1, 4, 5, 4, False)]
    assert (found.fits_quota, Claim.objects.count()) == (False, 1)
    assert seen(devices=3).fits_quota is True


def test_a_preview_of_a_replacement_counts_what_is_more(seen, alice, vision, fra, train):
    old = make_claim(vision, by=alice, cluster=fra, profile=train, devices=3, state=ClaimState.PROVISIONED)
    assert [row[1:4] for row in lines(seen(devices=4, replaces=old))] == [(3, 1, 4)]
    assert [row[1:4] for row in lines(seen(devices=4))] == [(3, 4, 7)]
    Claim.objects.filter(pk=old.pk).update(state=ClaimState.RELEASING)
    with pytest.raises(Conflict, match="only a running claim"):
        seen(replaces=Claim.objects.get(pk=old.pk))


def test_a_preview_says_who_decides_and_what_is_wrong(seen, lena, lars):
    found = seen(devices=9)
    assert found.problems == ("train-80 allows 8 devices per claim; this request needs 9.",)
    assert (found.approval.automatic, {person.username for person in found.approval.deciders}) == (
        False,
        {"lars", "lena"},
    )
    quick = seen(profile=make_profile("quick", approval=Approval.AUTOMATIC))
    assert (quick.approval.automatic, quick.problems) == (True, ())


def test_help_comes_where_it_does_not_fit_or_on_demand(seen):
    make_profile("other")
    fits = seen(devices=2)
    assert (fits.match.fits, fits.help, fits.suggestions) == (True, (), ())
    asked = seen(devices=2, with_help=True)
    assert [offer.profile.slug for offer in asked.suggestions] == ["other"]
    assert seen(devices=5).help != ()
    together = make_profile("nic", spec=make_spec())
    assert seen(devices=2, together=[(together, 1)], with_help=True).suggestions == ()


def test_a_preview_prices_each_profile_of_several_for_all_claims(seen, vision, train):
    nic = make_profile("nic", spec=make_spec())
    found = seen(devices=2, parallel=3, delivery="template", together=[(nic, 1)])
    assert [(part.profile, part.devices) for part in found.parts] == [(train, 6), (nic, 3)]
    assert seen(devices=2).parts == ()


@pytest.mark.parametrize(("who", "refused"), [("bob", PermissionDenied), ("eve", Http404)])
def test_who_may_not_ask_sees_no_preview(request, seen, who, refused):
    with pytest.raises(refused):
        seen(by=request.getfixturevalue(who))


def test_who_is_a_member_somewhere_may_ask(rf, alice, bob, eve, root, vision):
    def asks(person):
        request = rf.get("/")
        request.user = person
        return may_request(request)

    assert [asks(person) for person in (alice, bob, eve)] == [True, False, False]
    make_team("nlp", members=(bob,))
    assert asks(bob) is True


# The room of a claim that pods share.

FULL = (
    "All 256 pod slots are in use, the limit of Kubernetes for one claim. "
    "The next pod waits until one of them ends."
)


@pytest.mark.parametrize(
    ("used", "free", "sentence"),
    [
        (0, 256, "0 of 256 pod slots in use; 256 more pods can use the claim."),
        (1, 255, "1 of 256 pod slots in use; 255 more pods can use the claim."),
        (255, 1, "255 of 256 pod slots in use; 1 more pod can use the claim."),
        (
            256,
            0,
            FULL,
        ),
        (
            257,
            0,
            FULL,
        ),
    ],
)
def test_sharing_slots_show_their_numbers(used, free, sentence):
    slots = SharingSlots(used=used, nodes=(), snippet="", reserved=frozenset())
    assert (slots.free, slots.sentence, slots.limit) == (free, sentence, MAX_CONSUMERS)


def written(claim, fra):
    row = {
        "cluster": fra, "uid": claim.object_uid, "namespace": "vision", "name": claim.name,
        "owner": str(claim.pk), "raw": {"status": {"reservedFor": [{"uid": "u-1"}, {"uid": "u-2"}]}},
    }  # fmt: skip
    ResourceClaim.objects.create(**row)


@pytest.mark.parametrize("state", list(ClaimState))
def test_only_a_claim_in_the_cluster_has_sharing_slots(vision, fra, train, alice, state):
    claim = make_claim(vision, by=alice, cluster=fra, profile=train, name="sam", state=state, held=False)
    Claim.objects.filter(pk=claim.pk).update(object_uid="uid-1")
    claim.refresh_from_db()
    written(claim, fra)
    has_slots = sharing_slots(claim, observe([claim])[claim.pk]) is not None
    assert has_slots is (state in (ClaimState.PROVISIONED, ClaimState.ALLOCATED))


def test_sharing_slots_name_nodes_and_reserved_pods(vision, fra, train, alice):
    claim = make_claim(vision, by=alice, cluster=fra, profile=train, name="sam", state=ClaimState.PROVISIONED)
    written(claim, fra)
    for number, node in enumerate(("n-2", "n-1", "n-2", "")):
        where = {"cluster": fra, "namespace": "vision", "name": f"p-{number}", "uid": f"u-{number}"}
        Pod.objects.create(**where, phase="Running", claims=["sam"], node_name=node)
    slots = sharing_slots(claim, observe([claim])[claim.pk])
    assert (slots.used, slots.free, slots.nodes, slots.reserved) == (
        2,
        254,
        ("n-1", "n-2"),
        frozenset({"u-1", "u-2"}),
    )
    claim.delivery = Delivery.TEMPLATE
    assert sharing_slots(claim, observe([claim])[claim.pk]) is None
