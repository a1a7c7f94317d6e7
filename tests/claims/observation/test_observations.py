"""
What counts as seen of a claim: which objects, pods and devices of the mirror; and when it is looked at again.
"""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
import time_machine
from django.utils import timezone

from claims.models import Claim
from claims.observation.observations import Observation, device_holdings, observe, owner_labels
from claims.states import FINAL, ClaimState
from core.inputs import valid_ids
from inventory.models import (
    Device,
    Freshness,
    Pod,
    PodEvent,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourceSlice,
)
from tests.claims.mirror import NINE, result
from tests.factories import make_allocation, make_claim, make_cluster

pytestmark = pytest.mark.django_db
S = ClaimState
NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)


@pytest.fixture
def claim_in(vision, fra, train, alice):
    def make(name="sam", state=S.PROVISIONED, **columns):
        return make_claim(
            vision, **{"cluster": fra, **columns}, by=alice, profile=train, state=state, name=name, held=False
        )

    return make


@pytest.fixture
def claim(claim_in):
    return claim_in(object_uid="uid-1")


@pytest.fixture
def template(claim_in):
    return claim_in("batch", object_uid="uid-t", delivery="template", parallel=2)


def mirrored(claim, model=ResourceClaim, **columns):
    values = {
        "cluster": claim.cluster, "namespace": "vision", "name": claim.name, "owner": str(claim.pk),
        "uid": claim.object_uid, "resource_version": "1", **columns,
    }  # fmt: skip
    return model.objects.create(**values)


def pod(cluster, name="train", **columns):
    values = {"namespace": "vision", "uid": f"uid-{name}-{cluster}", "phase": "Running", **columns}
    return Pod.objects.create(cluster=cluster, name=name, **values)


def device(cluster, name="gpu-0", **columns):
    part, _ = ResourceSlice.objects.get_or_create(
        cluster=cluster, uid="s", defaults={"name": "s", "generation": 1, "pool_slices": 1}
    )
    values = {"slice": part, "driver": "d", "pool": "p", "name": name, **columns}
    return Device.objects.create(cluster=cluster, **values)


def say(pod, reason, message):
    return PodEvent.objects.create(
        pod=pod, reason=reason, message=message, count=1, first_at=NINE, last_at=NINE
    )


def seen_of(claim) -> Observation:
    claim = Claim.objects.get(pk=claim.pk)
    return observe([claim])[claim.pk]


# Objects.


ELSEWHERE = [
    {"namespace": "audio"},
    {"name": "copy"},
    {"cluster": "osl-1"},
    {"owner": "", "uid": "another"},
    {"owner": "00000000-0000-0000-0000-000000000000", "uid": "another"},
    {"gone_at": NINE, "uid": "another"},
]


def placed(columns):
    return columns | ({"cluster": make_cluster("osl-1")} if "cluster" in columns else {})


@pytest.mark.parametrize("columns", [{}, {"owner": ""}, {"uid": "another"}, {"origin": "template"}])
def test_a_named_claim_is_known_by_its_uid_or_its_label_in_its_own_place(claim, columns):
    row = mirrored(claim, **columns)
    seen = seen_of(claim)
    assert (seen.written, seen.holders, seen.known) == (row, [row], {row.uid: row})
    assert (seen.there(), seen.vanished(), seen.missed) == (True, False, False)


@pytest.mark.parametrize("columns", ELSEWHERE)
def test_what_stands_elsewhere_or_is_anothers_is_not_seen(claim, columns):
    mirrored(claim, **placed(columns))
    seen = seen_of(claim)
    assert (seen.written, seen.holders, seen.known) == (None, [], {})
    assert (seen.there(), seen.vanished()) == (False, False)


def test_what_is_gone_is_written_and_known_and_holds_nothing(claim):
    row = mirrored(claim, gone_at=NINE)
    seen = seen_of(claim)
    assert (seen.written, seen.holders, seen.known) == (row, [], {"uid-1": row})
    assert (seen.there(), seen.vanished()) == (False, True)


@pytest.mark.parametrize("model", [ResourceClaim, ResourceClaimTemplate])
@pytest.mark.parametrize("gone_first", [True, False])
def test_of_two_of_one_name_the_one_that_is_there_stands(claim, template, model, gone_first):
    one = claim if model is ResourceClaim else template
    if gone_first:
        mirrored(one, model, gone_at=NINE)
    new = mirrored(one, model, uid="new")
    if not gone_first:
        mirrored(one, model, gone_at=NINE)
    seen = seen_of(one)
    assert seen.written == new
    assert seen.holders == ([new] if model is ResourceClaim else [])


def test_of_two_that_are_gone_the_last_that_went_stands(claim):
    rows = [mirrored(claim, gone_at=NINE + timedelta(hours=1)), mirrored(claim, uid="open", gone_at=NINE)]
    make_allocation(claim, NINE, object_uid="open")
    seen = seen_of(claim)
    assert seen.written == rows[0]
    assert seen.known == {"uid-1": rows[0], "open": rows[1]}


def test_a_template_has_its_generated_claims_and_its_own_row_alone(template):
    written = mirrored(template, ResourceClaimTemplate)
    a = mirrored(template, name="batch-a", uid="a", origin="template")
    mirrored(template, name="batch-b", uid="b", origin="foreign")
    mirrored(template, name="batch", uid="c", origin="portal")
    mirrored(template, name="batch-d", uid="d", origin="template", gone_at=NINE)
    mirrored(template, name="batch-e", uid="e", origin="template", namespace="audio")
    mirrored(template, name="batch-f", uid="f", origin="template", cluster=make_cluster("osl-1"))
    seen = seen_of(template)
    assert (seen.written, seen.holders, seen.known) == (written, [a], {"a": a})


@pytest.mark.parametrize("columns", ELSEWHERE)
def test_a_template_that_stands_elsewhere_or_is_anothers_is_not_seen(template, columns):
    mirrored(template, ResourceClaimTemplate, **placed(columns))
    assert seen_of(template).written is None


def test_what_was_generated_and_is_gone_is_known_while_its_allocation_is_open(template):
    gone = mirrored(template, name="batch-a", uid="a", owner="", origin="template", gone_at=NINE)
    opened = make_allocation(template, NINE, object_uid="a")
    make_allocation(template, NINE - timedelta(hours=2), NINE, object_uid="b")
    seen = seen_of(template)
    assert (seen.known, seen.holders, seen.open) == ({"a": gone}, [], [opened])


def test_what_others_hold_is_not_looked_at(claim_in, claim, fra):
    other = claim_in("tom", object_uid="uid-2")
    make_allocation(other, NINE, object_uid="uid-2")
    device(fra, held_by=mirrored(other))
    row = mirrored(claim)
    mine = [make_allocation(claim, NINE, object_uid="uid-1") for _ in range(2)]
    seen = seen_of(claim)
    mine.sort(key=lambda allocation: allocation.pk)  # made within one millisecond
    assert (seen.written, seen.open, seen.devices) == (row, mine, [])


def test_what_pods_made_is_of_no_named_claim_though_it_has_its_label(claim):
    mirrored(claim, name="pod-made", uid="another", origin="template")
    assert seen_of(claim).known == {}


def test_what_is_gone_holds_nothing_whatever_its_status_says():
    status = {"allocation": {"devices": {"results": [result("gpu-0")]}}}
    row = ResourceClaim(uid="u", name="sam", allocated_at=NINE, raw={"status": status})
    assert len(device_holdings(row)) == 1
    row.gone_at = NOON
    assert device_holdings(row) == []


def test_each_of_several_claims_has_its_own(claim_in, claim, template):
    other = claim_in("tom", object_uid="uid-2")
    rows = {
        claim.pk: mirrored(claim),
        other.pk: mirrored(other),
        template.pk: mirrored(template, ResourceClaimTemplate),
    }
    opened = {one.pk: [make_allocation(one, NINE, object_uid=one.object_uid)] for one in (claim, other)}
    seen = observe(list(Claim.objects.all()))
    assert {pk: one.written for pk, one in seen.items()} == rows
    assert {pk: one.open for pk, one in seen.items()} == opened | {template.pk: []}


# Gone, or never there.


@pytest.mark.parametrize(("seconds", "given_up"), [(19, False), (20, False), (20.001, True), (60, True)])
def test_what_is_gone_is_given_up_after_twenty_seconds(claim, seconds, given_up):
    mirrored(claim, gone_at=NOON)
    with time_machine.travel(NOON + timedelta(seconds=seconds), tick=False):
        assert seen_of(claim).given_up() is given_up


def test_what_is_there_or_was_never_seen_is_not_given_up(claim):
    assert seen_of(claim).given_up() is False
    mirrored(claim)
    assert seen_of(claim).given_up() is False


@pytest.mark.parametrize(
    ("listing", "missed"),
    [
        ({"minutes": 5}, False),
        ({"minutes": 5, "microseconds": 1}, True),
        ({"hours": -1}, False),
    ],
)
@pytest.mark.parametrize("kind", ["resourceclaims", "resourceclaimtemplates"])
def test_an_object_is_missed_by_a_listing_of_its_kind_five_minutes_after_it_was_written(
    claim, template, fra, kind, listing, missed
):
    one, other = (claim, template) if kind == "resourceclaims" else (template, claim)
    at = one.state_since + timedelta(**listing)
    Freshness.objects.create(cluster=fra, resource=kind, listed_at=at)
    Freshness.objects.create(cluster=make_cluster("osl-1"), resource=kind, listed_at=at + timedelta(days=1))
    seen = observe([one, other])
    assert (seen[one.pk].missed, seen[other.pk].missed) == (missed, False)
    assert seen[one.pk].vanished() is seen[one.pk].given_up() is missed


def test_all_that_a_listing_missed_are_missed(claim_in, claim, fra):
    other = claim_in("tom", object_uid="uid-2")
    late = timezone.now() + timedelta(days=1)
    Freshness.objects.create(cluster=fra, resource="resourceclaims", listed_at=late)
    seen = observe([claim, other])
    assert [seen[one.pk].missed for one in (claim, other)] == [True, True]


@pytest.mark.parametrize("why", ["never listed", "no uid", "seen"])
def test_an_object_is_not_missed(claim, fra, why):
    late = claim.state_since + timedelta(days=1)
    listed = None if why == "never listed" else late
    Freshness.objects.create(cluster=fra, resource="resourceclaims", listed_at=listed)
    if why == "no uid":
        Claim.objects.filter(pk=claim.pk).update(object_uid="")
    if why == "seen":
        mirrored(claim)
    assert seen_of(claim).missed is False


# Pods and devices.


def test_pods_use_a_claim_by_its_name_or_by_those_of_generated_ones(claim, template, fra):
    mirrored(template, ResourceClaimTemplate)
    mirrored(template, name="batch-a", uid="a", origin="template")
    pods = [
        pod(fra, "b-both", claims=["sam", "batch-a"]),
        pod(fra, "a-named", claims=["sam"]),
        pod(fra, "c-waits", templates=["batch"]),
        pod(fra, "d-has", claims=["batch-a"], templates=["batch"]),
    ]
    pod(fra, "gone", claims=["sam"], templates=["batch"], gone_at=NINE)
    pod(fra, "audio", claims=["sam"], templates=["batch"], namespace="audio")
    pod(fra, "other", claims=["sam-2"], templates=["batch-2"])
    pod(make_cluster("osl-1"), "abroad", claims=["sam"], templates=["batch"])
    seen = observe([claim, template])
    assert seen[claim.pk].pods == [pods[1], pods[0]]
    assert seen[template.pk].pods == [pods[0], pods[2], pods[3]]


def test_pods_of_two_clusters_are_those_of_their_own(claim_in, claim):
    abroad = claim_in("sam", cluster=make_cluster("osl-1"), object_uid="uid-2")
    pods = {one.pk: [pod(one.cluster, claims=["sam"])] for one in (claim, abroad)}
    seen = observe([claim, abroad])
    assert {pk: one.pods for pk, one in seen.items()} == pods


def test_users_are_pods_that_have_not_ended(claim, fra):
    for phase in ("Running", "Pending", "", "Unknown", "Succeeded", "Failed"):
        pod(fra, f"pod-{phase.lower()}", claims=["sam"], phase=phase)
    assert [one.phase for one in seen_of(claim).users] == ["", "Pending", "Running", "Unknown"]
    assert len(seen_of(claim).pods) == 6


def test_devices_are_those_that_its_objects_hold_now(claim_in, claim, fra):
    other = claim_in("tom", object_uid="uid-2")
    row, theirs = mirrored(claim), mirrored(other)
    mine = [device(fra, f"gpu-{number}", held_by=row) for number in range(2)]
    hers = device(fra, "gpu-2", held_by=theirs)
    device(fra, "gpu-3", held_by=row, gone_at=NINE)
    device(fra, "gpu-4")
    seen = observe([claim, other])
    assert (set(seen[claim.pk].devices), seen[other.pk].devices) == (set(mine), [hers])


# Looking again.


def test_every_change_that_the_page_or_the_settling_depends_on_is_news(claim, fra):
    row = mirrored(claim)
    gpu = device(fra, held_by=row)
    user = pod(fra, claims=["sam"], resource_version="1")
    event = say(user, "Failed", "No room.")

    def digest():
        found = Claim.objects.get(pk=claim.pk)
        return observe([found])[found.pk].digest(found)

    def write(what, **columns):
        type(what)._default_manager.filter(pk=what.pk).update(**columns)

    known = [digest()]
    changed = [
        lambda: write(claim, state=S.ALLOCATED),
        lambda: write(row, resource_version="2"),
        lambda: write(user, resource_version="2"),
        lambda: write(user, phase="Pending"),
        lambda: write(user, node_name="node-2"),
        lambda: write(user, message="Waits."),
        lambda: write(user, uid="made anew"),
        lambda: write(user, name="renamed"),
        lambda: write(event, message="Still no room."),
        lambda: write(event, reason="FailedScheduling"),
        lambda: say(user, "Scheduled", ""),
        lambda: write(gpu, condition="unhealthy"),
        lambda: write(gpu, uuid="GPU-2"),
        lambda: device(fra, "gpu-1", held_by=row),
        lambda: pod(fra, "second", claims=["sam"]),
        lambda: make_allocation(claim, NINE, object_uid="uid-1"),
        lambda: write(row, gone_at=timezone.now()),
        lambda: write(row, gone_at=timezone.now() - timedelta(minutes=1)),
        lambda: ResourceClaim.objects.all().delete(),
    ]
    for change in changed:
        change()
        known.append(digest())
    assert len(set(known)) == len(changed) + 1


def test_what_grows_old_and_what_is_said_again_is_no_news(claim, fra):
    """Else every claim with a waiting pod would be settled anew every few seconds."""
    row = mirrored(claim)
    user = pod(fra, claims=["sam"])
    event = say(user, "Failed", "No room.")
    before = seen_of(claim).digest(claim)
    PodEvent.objects.filter(pk=event.pk).update(count=2)
    ResourceClaim.objects.filter(pk=row.pk).update(seen_at=timezone.now())
    assert seen_of(claim).digest(claim) == before


def test_that_a_moment_has_passed_since_it_is_gone_is_news(claim):
    mirrored(claim, gone_at=NOON)
    digests = []
    for seconds in (10, 15, 21, 30):
        with time_machine.travel(NOON + timedelta(seconds=seconds), tick=False):
            digests.append(seen_of(claim).digest(claim))
    assert digests[0] == digests[1] != digests[2] == digests[3]


def test_a_digest_does_not_depend_on_the_order_of_rows():
    claim = Claim(state=S.PROVISIONED)
    rows = [ResourceClaim(uid=name, resource_version="1") for name in "ab"]
    gpus = [Device(uuid=name) for name in "ab"]
    one, other = Observation(holders=rows, devices=gpus), Observation(holders=rows[::-1], devices=gpus[::-1])
    assert one.digest(claim) == other.digest(claim)


# Whose objects these are.


def owned(cluster, *names):
    return owner_labels(cluster.pk, names)


def test_an_object_leads_to_its_owner_by_label_and_by_uid(claim, template, fra):
    mirrored(claim, owner="")
    mirrored(template, ResourceClaimTemplate, owner="")
    mirrored(claim, name="labeled", uid="x", owner="any text")
    assert owned(fra, "vision/sam") == {str(claim.pk)}
    assert owned(fra, "vision/batch") == {str(template.pk)}
    assert owned(fra, "vision/labeled", "vision/sam") == {"any text", str(claim.pk)}
    assert owned(fra, "vision/nothing") == owned(fra, "sam") == owned(fra) == set()
    assert owned(fra, "audio/sam") == owned(make_cluster("osl-1"), "vision/sam") == set()


def test_a_pod_leads_to_the_owners_of_all_that_it_names(claim, template, fra):
    mirrored(claim)
    mirrored(template, ResourceClaimTemplate)
    pod(fra, "both", claims=["sam"], templates=["batch"])
    pod(fra, "one", templates=["batch"])
    pod(fra, "audio", claims=["sam"], namespace="audio")
    assert owned(fra, "vision/both") == {str(claim.pk), str(template.pk)}
    assert owned(fra, "vision/one") == {str(template.pk)}
    assert owned(fra, "vision/audio") == set()
    pod(fra, "another", claims=["sam"])
    assert owned(fra, "vision/one", "vision/another") == {str(claim.pk), str(template.pk)}


@pytest.mark.parametrize("state", S)
def test_by_its_uid_only_a_claim_that_lives_is_found(claim, fra, state):
    mirrored(claim, owner="")
    Claim.objects.filter(pk=claim.pk).update(state=state)
    assert owned(fra, "vision/sam") == (set() if state in FINAL else {str(claim.pk)})


def test_a_uid_of_another_cluster_leads_to_nobody(claim, fra):
    abroad = make_cluster("osl-1")
    mirrored(claim, owner="", cluster=abroad)
    assert owned(abroad, "vision/sam") == set()


def test_ids_passes_over_what_is_none_and_keeps_the_order():
    first, second = "0190f5d4-0000-7000-8000-000000000002", "0190f5d4-0000-7000-8000-000000000001"
    assert valid_ids([first, "nonsense", "", second]) == [UUID(first), UUID(second)]
