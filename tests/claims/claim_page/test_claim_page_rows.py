"""One claim on its page and by API: figures, offers by role and state, its steps, its pods, what moves it."""

from datetime import UTC, datetime, timedelta

import pytest
import time_machine
from django.urls import reverse
from rest_framework.test import APIClient

from claims.claim_page.explain import STEP_KEYS, explain
from claims.claim_page.pods import PodStage, agrees_with_scheduler, group_pods, lost_pods, pod_names, pod_view
from claims.claim_page.scheduler import parse_message
from claims.claim_page.views import key_figures, lifecycle_context
from claims.lifecycle.facts import claim_facts
from claims.models import Claim
from claims.states import ClaimState
from core.times import ago, at_short
from dra.match import Preview
from inventory.models import Device, Pod, PodEvent, ResourceClaim, ResourceSlice
from tests.factories import make_allocation, make_claim, make_cluster, make_extension, make_profile, make_team

pytestmark = pytest.mark.django_db
NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)
END = NOON + timedelta(hours=18)
MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
MOMENT = timedelta(microseconds=1)


@pytest.fixture
def noon():
    with time_machine.travel(NOON, tick=False) as clock:
        yield clock


@pytest.fixture
def make(noon, vision, fra, alice):
    """Return a function that makes a claim of alice; one that runs ends on Mon 2 Nov 2026, 06:00 UTC."""
    profile = make_profile("steady", extension=DAY, max_duration=14 * DAY)

    def make(state=ClaimState.PROVISIONED, name="sam", **fields):
        if state in (ClaimState.APPROVED, ClaimState.PROVISIONED, ClaimState.ALLOCATED):
            fields = {"decided_at": END - DAY, "expires_at": END, "duration": DAY, **fields}
        values = {"by": alice, "cluster": fra, "profile": profile, "held": False, **fields}
        return make_claim(vision, name=name, state=state, **values)

    return make


def pod(fra, name, *, claims=("sam",), phase="Running", **columns):
    where = {"cluster": fra, "namespace": "vision", "name": name}
    return Pod.objects.create(**{**where, "uid": name, "phase": phase, "claims": list(claims), **columns})


# Figures.


def figures(claim, user):
    return [(one.label, str(one.value), str(one.sub)) for one in key_figures(claim_facts(claim, user))]


def test_key_figures_of_running_claim(make, alice, noon):
    claim = make(devices=2)
    noon.shift(2 * HOUR)
    Claim.objects.filter(pk=claim.pk).update(state_since=NOON)
    claim.refresh_from_db()
    make_allocation(claim, NOON, product="H100", device="b")
    make_allocation(claim, NOON, product="A100", device="a")
    make_allocation(claim, NOON, product="H100", device="c")
    make_allocation(claim, NOON, NOON + HOUR, product="L40")
    found = figures(claim, alice)
    assert found[0][0] == "Waiting for a pod"
    assert "2 h" in found[0][1]
    assert found[1:] == [
        ("Ends", str(ago(END)), str(at_short(END))),
        ("Devices", "2", "3 held now: A100, H100"),
    ]


@pytest.mark.parametrize(("parallel", "sub"), [(1, "up to 1 pod at once"), (3, "up to 3 pods at once")])
def test_size_of_template_is_per_pod(make, alice, parallel, sub):
    claim = make(devices=2, parallel=parallel, delivery="template")
    assert figures(claim, alice)[2:] == [("Devices", "2 per pod", f"{sub}, none held, nothing is billed")]


def test_end_figure_depends_on_state(make, alice, noon, vision, fra):
    waits = make(ClaimState.REQUESTED, "waits", duration=5 * HOUR)
    label, value, sub = figures(waits, alice)[1]
    assert (label, value) == ("Duration", "5 h")
    assert str(at_short(waits.decide_by)) in sub
    Claim.objects.filter(pk=waits.pk).update(decide_by=None)
    waits.refresh_from_db()
    assert figures(waits, alice)[1] == ("Duration", "5 h", "from approval")
    over = make(ClaimState.RELEASED, "over", created_at=NOON - 7 * HOUR, state_since=NOON - HOUR)
    assert figures(over, alice)[1] == ("Ended", "6 h", "after the request")
    graced = make(name="graced", profile=make_profile("graced", grace=3 * HOUR))
    assert figures(graced, alice)[1][0] == "Ends"
    noon.move_to(END)
    label, value, sub = figures(graced, alice)[1]
    assert (label, value) == ("Grace ends", str(ago(END + 3 * HOUR)))
    assert str(at_short(END)) in sub


def test_claim_that_is_being_released_has_no_end_by_the_clock(make, alice, noon):
    held = make(ClaimState.RELEASING, "held")
    assert figures(held, alice)[1] == ("Ends", "with its last pod", "billed until then")
    evicts = make_profile("evicts", end_policy="evict")
    label, value, sub = figures(make(ClaimState.RELEASING, "leaves", profile=evicts, evict_at=END), alice)[1]
    assert (label, value, sub) == ("Ends", "with its last pod", f"pods are evicted {at_short(END)}")


# Offers.


def offers(claim, user):
    found = lifecycle_context(claim_facts(Claim.objects.get(pk=claim.pk), user), user)
    return {name for name in ("can_extend", "can_shorten", "can_transfer", "can_change") if found[name]}


EVERY = {"can_extend", "can_shorten", "can_transfer", "can_change"}


@pytest.mark.parametrize("state", list(ClaimState))
def test_owner_and_leads_can_change_running_claims_only(make, alice, lena, bob, root, state):
    claim = make(state)
    runs = state in (ClaimState.APPROVED, ClaimState.PROVISIONED, ClaimState.ALLOCATED)
    for person in (alice, lena, root):
        assert offers(claim, person) == (EVERY if runs else set()), person
    assert offers(claim, bob) == set()


def test_claim_in_grace_or_without_expiry_has_fewer_actions(make, alice, noon):
    claim = make()
    noon.move_to(END)
    assert offers(claim, alice) == EVERY - {"can_shorten"}
    Claim.objects.update(expires_at=None)
    assert offers(claim, alice) == {"can_transfer", "can_change"}


def test_claim_being_replaced_cannot_be_extended_or_replaced(make, alice):
    claim = make()
    new = make(ClaimState.REQUESTED, "new", replaces=claim)
    assert offers(claim, alice) == {"can_shorten", "can_transfer"}
    page = lifecycle_context(claim_facts(claim, alice), alice)
    assert (page["successor"], page["replaced_by"], page["free_extension"]) == (new, None, None)
    Claim.objects.filter(pk=new.pk).update(state=ClaimState.DENIED)
    assert offers(claim, alice) == EVERY
    page = lifecycle_context(claim_facts(Claim.objects.get(pk=claim.pk), alice), alice)
    assert (page["successor"], page["free_extension"]) == (None, DAY)


@pytest.mark.parametrize(
    ("old_state", "new_state", "crowded", "may_release", "changes"),
    [
        (ClaimState.ALLOCATED, ClaimState.PROVISIONED, True, True, False),
        (ClaimState.PROVISIONED, ClaimState.PROVISIONED, False, True, False),
        (ClaimState.ALLOCATED, ClaimState.ALLOCATED, False, True, False),
        (ClaimState.RELEASING, ClaimState.PROVISIONED, False, False, False),
        (ClaimState.RELEASED, ClaimState.PROVISIONED, False, False, True),
    ],
)
def test_successor_offers_release_of_predecessor(
    make, alice, bob, old_state, new_state, crowded, may_release, changes
):
    old = make(old_state, "old")
    new = make(new_state, "new", replaces=old)
    new = Claim.objects.select_related("replaces").get(pk=new.pk)
    page = lifecycle_context(claim_facts(new, alice), alice)
    assert (page["predecessor"], page["is_crowded"], page["may_release_predecessor"], page["can_change"]) == (
        old,
        crowded,
        may_release,
        changes,
    )
    assert lifecycle_context(claim_facts(new, bob), bob)["may_release_predecessor"] is False


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        ((ClaimState.DENIED, ClaimState.WITHDRAWN, ClaimState.EXPIRED), None),
        ((ClaimState.RELEASED, ClaimState.DENIED), 0),
        ((ClaimState.FAILED, ClaimState.RELEASED), 1),
        ((ClaimState.REQUESTED,), 0),
    ],
)
def test_successor_is_latest_approved_replacement(make, alice, noon, states, expected):
    old = make(name="old")
    later = []
    for number, state in enumerate(states):
        noon.shift(MINUTE)
        later.append(make(state, f"new-{number}", replaces=old))
    found = claim_facts(old, alice).successor
    assert found == (None if expected is None else later[expected])
    Claim.objects.filter(pk=old.pk).update(state=ClaimState.RELEASED)
    page = lifecycle_context(claim_facts(Claim.objects.get(pk=old.pk), alice), alice)
    assert (page["successor"], page["replaced_by"]) == (None, found)


def test_pending_extension_is_shown_while_claim_runs(make, alice):
    claim = make()
    requested = make_extension(claim)
    assert lifecycle_context(claim_facts(claim, alice), alice)["extension"] == requested
    Claim.objects.update(state=ClaimState.RELEASING)
    assert lifecycle_context(claim_facts(Claim.objects.get(pk=claim.pk), alice), alice)["extension"] is None


def test_held_devices_are_sorted_by_node_and_name_with_mirror_data(make, alice, fra):
    claim = make(ClaimState.ALLOCATED)
    taint = {"key": "broken", "effect": "NoExecute"}
    where = {"cluster": fra, "driver": "gpu.nvidia.com", "pool": "node-1", "node_name": "node-1"}
    published = ResourceSlice.objects.create(
        **where, uid="s", name="s", generation=1, pool_slices=1, raw={}, revision=1
    )
    own = ResourceClaim.objects.create(
        cluster=fra, uid=claim.object_uid, namespace="vision", name="sam", owner=str(claim.pk), raw={}
    )
    known = Device.objects.create(**where, slice=published, name="b", taints=[taint], held_by=own)
    for device, node in (("c", "node-2"), ("b", "node-1"), ("a", "node-2")):
        make_allocation(claim, NOON, device=device, node_name=node)
    make_allocation(claim, NOON, NOON + HOUR, device="gone")
    held = claim_facts(claim, alice).held
    assert [(row.allocation.device, row.device, row.taints, bool(row.url)) for row in held] == [
        ("b", known, [taint], True),
        ("a", None, [], False),
        ("c", None, [], False),
    ]


# What moves the page.


def test_live_part_is_304_until_claim_changes(client, make, alice, lena):
    claim = make()
    url = reverse("claims:detail_live", args=[claim.pk])
    client.force_login(alice)
    first = client.get(f"{url}?seen=provisioned")
    assert (first.status_code, first.get("HX-Trigger")) == (200, None)
    tag = {"If-None-Match": first["ETag"]}
    assert client.get(url, headers=tag).status_code == 304
    assert client.get(f"{url}?seen=approved")["HX-Trigger"] == "claim-changed"
    for change in ({"version": 99}, {"problem": "Something."}):
        Claim.objects.filter(pk=claim.pk).update(**change)
        moved = client.get(url, headers=tag)
        assert moved.status_code == 200, change
        tag = {"If-None-Match": moved["ETag"]}
    make(ClaimState.REQUESTED, "new", replaces=claim)
    assert client.get(url, headers=tag).status_code == 200
    client.force_login(lena)
    assert client.get(url, headers=tag).status_code == 200


def test_live_part_changes_when_grace_begins(client, make, alice, noon):
    claim = make()
    url = reverse("claims:detail_live", args=[claim.pk])
    noon.move_to(END - MOMENT)
    client.force_login(alice)  # sessions end after some hours without a request
    tag = {"If-None-Match": client.get(url)["ETag"]}
    assert client.get(url, headers=tag).status_code == 304
    noon.move_to(END)
    assert client.get(url, headers=tag).status_code == 200


@pytest.mark.parametrize(
    ("who", "state", "expected"),
    [
        ("alice", ClaimState.REQUESTED, (True, False, False, True)),
        ("lena", ClaimState.REQUESTED, (True, False, True, True)),
        ("bob", ClaimState.REQUESTED, (False, False, False, False)),
        ("alice", ClaimState.ALLOCATED, (False, True, False, True)),
        ("lena", ClaimState.APPROVED, (False, True, False, True)),
        ("bob", ClaimState.ALLOCATED, (False, False, False, False)),
        ("alice", ClaimState.RELEASING, (False, False, False, True)),
        ("alice", ClaimState.RELEASED, (False, False, False, True)),
    ],
)
def test_page_offers_actions_of_reader(request, client, make, who, state, expected):
    claim = make(state)
    client.force_login(request.getfixturevalue(who))
    page = client.get(reverse("claims:detail", args=[claim.pk])).context
    found = (page["can_withdraw"], page["can_release"], page["may_decide"], bool(page["again_url"]))
    assert found == expected
    assert page["polls"] is (state != ClaimState.RELEASED)
    assert page["has_use"] is (state != ClaimState.REQUESTED)


# Steps.

LETTERS = {"done": "d", "now": "N", "ahead": "-", "skipped": "s", "bad": "B"}


@pytest.mark.parametrize(
    ("state", "fields", "statuses"),
    [
        (ClaimState.REQUESTED, {}, "ddN-------"),
        (ClaimState.APPROVED, {}, "dddN------"),
        (ClaimState.PROVISIONED, {}, "ddddN-----"),
        (ClaimState.ALLOCATED, {}, "dddddddN--"),
        (ClaimState.RELEASING, {}, "ddddssssN-"),
        (ClaimState.RELEASED, {}, "ddddssssdd"),
        (ClaimState.DENIED, {}, "ddB"),
        (ClaimState.WITHDRAWN, {}, "ddd"),
        (ClaimState.EXPIRED, {}, "ddd"),
        (ClaimState.FAILED, {}, "dddB"),
    ],
)
def test_timeline_in_each_state(make, state, fields, statuses):
    steps = explain(make(state, **fields)).steps
    assert "".join(LETTERS[step.status] for step in steps) == statuses
    assert [step.key for step in steps] == list(STEP_KEYS[: len(steps)])


@pytest.mark.parametrize(
    ("state", "actor", "headline", "sentence"),
    [
        (
            ClaimState.REQUESTED,
            "person",
            "lars or lena decides next.",
            "The request expires on Sun 8 Nov 2026, 12:00 if nobody decides; it reserves quota.",
        ),
        (
            ClaimState.APPROVED,
            "portal",
            "The portal acts next.",
            "It is creating the ResourceClaim in fra-1. This takes seconds.",
        ),
        (
            ClaimState.PROVISIONED,
            "you",
            "You act next.",
            "Start a pod that uses the ResourceClaim sam. "
            "No device is held and nothing is billed until then.",
        ),
        (
            ClaimState.ALLOCATED,
            "nobody",
            "Nobody has to act.",
            "The claim is in use. Release it when its work is done. It expires on Mon 2 Nov 2026, 06:00. "
            "The portal then deletes it; running pods keep their devices until they end.",
        ),
        (
            ClaimState.RELEASING,
            "cluster",
            "Kubernetes acts next.",
            "It is deleting the object. No pod uses the claim any more.",
        ),
        (ClaimState.DENIED, "nobody", "Nobody has to act.", "Smaller devices do."),
        (
            ClaimState.RELEASED,
            "nobody",
            "Nobody has to act.",
            "ResourceClaim sam was deleted from namespace vision of fra-1.",
        ),
        (ClaimState.WITHDRAWN, "nobody", "Nobody has to act.", "Withdrawn."),
        (ClaimState.EXPIRED, "nobody", "Nobody has to act.", "Nobody decided within 7 d."),
        (
            ClaimState.FAILED,
            "nobody",
            "Nobody has to act.",
            "fra-1 refused it: spec.devices.requests: Invalid value",
        ),
    ],
)
def test_who_acts_next_in_each_state(make, state, actor, headline, sentence):
    action = explain(make(state)).next_action
    assert (action.actor, action.headline, action.sentence) == (actor, headline, sentence)


def test_grace_period_is_named_before_and_after_expiry(make, noon):
    claim = make(ClaimState.ALLOCATED, profile=make_profile("graced", grace=3 * HOUR))
    action = explain(claim).next_action
    assert action.actor == "nobody"
    assert action.sentence.endswith(
        "It expires on Mon 2 Nov 2026, 06:00. After a grace period of 3 h, on Mon 2 Nov 2026, 09:00, the "
        "portal deletes it; running pods keep their devices until they end."
    )
    noon.move_to(END)
    action = explain(claim).next_action
    assert (action.actor, action.who) == ("you", "alice")
    assert action.sentence.startswith("Extend the claim or release it. It expired on Mon 2 Nov 2026, 06:00.")


@pytest.mark.parametrize(("reader", "headline"), [("alice", "You act next."), ("lena", "alice acts next.")])
def test_headline_names_the_owner_to_other_readers(request, client, make, reader, headline):
    claim = make()
    user = request.getfixturevalue(reader)
    client.force_login(user)
    page = client.get(reverse("claims:detail", args=[claim.pk]))
    assert page.context["headline"] == headline
    assert api(user).get(f"/api/v1/claims/{claim.pk}/explain/").json()["headline"] == headline


@pytest.mark.parametrize(
    ("leaving", "actor", "sentence"),
    [
        ((True,), "cluster", "The pod a still holds the devices. They are freed when it ends."),
        ((False,), "pod-owner", "The pod a still holds the devices. They are freed when it ends."),
        (
            (True, False),
            "pod-owner",
            "The pods a, b still hold the devices. They are freed when all of them have ended.",
        ),
        (
            (True, True),
            "cluster",
            "The pods a, b still hold the devices. They are freed when all of them have ended.",
        ),
    ],
)
def test_releasing_claim_with_terminating_pods_needs_no_owner(make, fra, leaving, actor, sentence):
    claim = make(ClaimState.RELEASING)
    for name, gone in zip("ab", leaving, strict=False):
        pod(fra, name, deleting_since=NOON if gone else None)
    action = explain(claim).next_action
    assert (action.actor, action.sentence) == (actor, sentence)


def test_owner_of_the_pod_that_holds_the_device_acts_next(make, fra):
    claim = make(ClaimState.RELEASING)
    pod(fra, "queued", phase="Pending")  # names the claim and holds nothing
    assert explain(claim).next_action.who == "Kubernetes"
    job = {"metadata": {"ownerReferences": [{"kind": "Job", "name": "train", "controller": True}]}}
    pod(fra, "train-0", raw=job)
    pod(fra, "leaving", deleting_since=NOON)
    action = explain(claim).next_action
    who = "The owner of the pod train-0 (Job train)"
    assert (action.who, action.headline) == (who, "You act next.")
    assert action.headline_for_others == f"{who} acts next."
    assert action.sentence.startswith("The pods leaving, train-0 still hold the devices.")
    pod(fra, "notebook")
    assert explain(claim).next_action.who == "The owner of the pods notebook, train-0"


def test_pods_may_be_evicted_by_owner_or_lead_where_the_policy_asks(make, fra):
    claim = make(ClaimState.RELEASING, profile=make_profile("asks", end_policy="ask"))
    pod(fra, "train")
    action = explain(claim).next_action
    assert action.headline_for_others == "The owner of the pod train acts next."
    assert action.sentence.endswith("The owner of the claim or a lead of vision can evict it here.")
    evicts = make(
        ClaimState.RELEASING, "evicts", profile=make_profile("evicts", end_policy="evict"), evict_at=END
    )
    pod(fra, "other", claims=["evicts"])
    action = explain(evicts).next_action
    assert action.headline_for_others == "The portal acts next."
    assert action.sentence.endswith("The portal evicts it on Mon 2 Nov 2026, 06:00.")


@pytest.mark.parametrize("state", [ClaimState.APPROVED, ClaimState.RELEASING])
def test_who_acts_next_while_the_portal_cannot_write(make, fra, state):
    claim = make(state, problem="fra-1 cannot be reached: timeout. The portal keeps trying.")
    action = explain(claim).next_action
    assert action.headline_for_others == "The portal acts next."
    assert action.sentence.endswith("yet and keeps trying.")
    fra.read_only = True
    claim.cluster = fra
    action = explain(claim).next_action
    assert action.headline_for_others == "A platform admin acts next."
    assert action.sentence.startswith("The portal may not write to fra-1.")
    fra.halt_reason = "Its credentials lead to another cluster."
    assert explain(claim).next_action.sentence.startswith("Its credentials lead to another cluster.")


# Pods.


def state_of(*, claims=None, templates=(), conditions=(), **columns):
    raw = {
        "spec": columns.pop("spec", {}),
        "status": {"conditions": list(conditions), **columns.pop("status", {})},
    }
    made = Pod(name="p", created_at=NOON, raw=raw, **{"phase": "Pending", **columns})
    view = pod_view(made, {"sam": ""} if claims is None else claims, templates)
    return view.stage, view.since, view.missing


SCHEDULED = {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-11-01T13:00:00Z"}
READY = {"type": "PodReadyToStartContainers", "status": "True"}
FROM_TEMPLATE = {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "t"}]}
ONE = NOON + HOUR


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ({"claims": {}}, (PodStage.SCHEDULER, NOON, ())),
        ({}, (PodStage.SCHEDULER, NOON, ())),
        ({"conditions": [{"type": "PodScheduled", "reason": "SchedulingGated"}]}, (PodStage.GATED, NOON, ())),
        ({"deleting_since": ONE, "phase": "Running"}, (PodStage.ENDING, ONE, ())),
        ({"phase": "Running"}, (PodStage.RUNNING, NOON, ())),
        ({"node_name": "n"}, (PodStage.PREPARING, NOON, ())),
        ({"node_name": "n", "conditions": [SCHEDULED]}, (PodStage.PREPARING, ONE, ())),
        ({"node_name": "n", "conditions": [SCHEDULED, READY]}, (PodStage.STARTING, ONE, ())),
        (
            {"node_name": "n", "conditions": [SCHEDULED, {**READY, "status": "False"}]},
            (PodStage.PREPARING, ONE, ()),
        ),
        ({"spec": FROM_TEMPLATE, "templates": {"t"}}, (PodStage.NO_CLAIM, NOON, ())),
        (
            {"spec": FROM_TEMPLATE, "status": {"resourceClaimStatuses": [{"name": "gpu"}]}},
            (PodStage.SCHEDULER, NOON, ()),
        ),
    ],
)
def test_stage_of_pod_follows_from_its_columns(columns, expected):
    assert state_of(**columns) == expected


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        ({"sam": "", "data": ""}, (PodStage.SCHEDULER, NOON, ())),
        ({"sam": ""}, (PodStage.MISSING_CLAIM, NOON, ("data",))),
        ({}, (PodStage.MISSING_CLAIM, NOON, ("sam", "data"))),
        ({"sam": "", "data": "deleting"}, (PodStage.CLAIM_BEING_DELETED, NOON, ("data",))),
        ({"data": "deleting"}, (PodStage.MISSING_CLAIM, NOON, ("sam",))),
    ],
)
def test_pod_names_missing_and_deleting_claims(known, expected):
    made = Pod(name="p", created_at=NOON, raw={}, phase="Pending", claims=["sam", "data"])
    view = pod_view(made, known, ())
    assert (view.stage, view.since, view.missing) == expected


@pytest.mark.parametrize(
    ("columns", "is_lost"),
    [
        ({}, True),
        ({"gone_at": NOON - HOUR}, True),
        ({"gone_at": NOON - HOUR - MOMENT}, False),
        ({"gone_at": None}, False),
        ({"namespace": "other"}, False),
        ({"cluster": "lab-2"}, False),
        ({"claims": ["sam2"]}, False),
        ({"claims": [], "templates": ["sam"]}, True),
        ({"reason": "Killing"}, False),
        ({"reason": "Evicted"}, True),
        ({"reason": "TaintManagerEviction"}, True),
        ({"reason": "DeviceTaintManagerEviction"}, True),
    ],
)
def test_pod_evicted_within_the_hour_is_lost(make, fra, columns, is_lost):
    claim, columns = make(), dict(columns)
    reason = columns.pop("reason", "Preempted")
    if "cluster" in columns:
        columns["cluster"] = make_cluster(columns["cluster"])
    row = pod(fra, "p", **{"gone_at": NOON - MINUTE, **columns})
    for number in range(2):
        PodEvent.objects.create(
            pod=row, reason=reason, message=f"m{number}", source="s", first_at=NOON, last_at=NOON
        )
    assert [view.pod.name for view in lost_pods(claim)] == (["p"] if is_lost else [])


def test_three_newest_lost_pods_are_returned(make, fra):
    claim = make()
    for minutes, name in ((4, "d"), (1, "a"), (3, "c"), (2, "b")):
        row = pod(fra, name, gone_at=NOON - minutes * MINUTE)
        PodEvent.objects.create(
            pod=row, reason="Evicted", message="m", source="s", first_at=NOON, last_at=NOON
        )
    assert [(view.pod.name, view.since) for view in lost_pods(claim)] == [
        ("a", NOON - MINUTE),
        ("b", NOON - 2 * MINUTE),
        ("c", NOON - 3 * MINUTE),
    ]


@pytest.mark.parametrize(
    ("count", "names"),
    [(1, "p0"), (3, "p0, p1, p2"), (4, "p0, p1, p2 and 1 more"), (7, "p0, p1, p2 and 4 more")],
)
def test_three_pods_are_named_and_others_counted(make, fra, count, names):
    claim = make()
    for number in range(count):
        pod(fra, f"p{number}", node_name="n-2" if number % 2 else "n-1")
    found = explain(claim)
    assert pod_names(found.pods) == names
    (group,) = group_pods(found.pods)
    assert (group.count, group.names) == (count, names)
    assert group.nodes == (["n-1", "n-2"] if count > 1 else ["n-1"])


TWO_OUT = "0/3 nodes are available: 2 cannot allocate all claims, 1 node(s) were unschedulable."
NONE_OUT = "0/3 nodes are available: 3 node(s) were unschedulable."


@pytest.mark.parametrize(
    ("fit", "problem", "message", "expected"),
    [
        (0, "", None, None),
        (0, "", TWO_OUT, True),
        (1, "", TWO_OUT, True),
        (2, "", TWO_OUT, False),
        (None, "", TWO_OUT, None),
        (0, "", NONE_OUT, None),
    ],
)
def test_snapshot_agrees_up_to_nodes_excluded_for_other_reasons(fit, problem, message, expected):
    parsed = parse_message(message) if message else None
    assert agrees_with_scheduler(Preview(nodes_that_fit=fit, problem=problem), parsed) is expected


# The API.


def api(user):
    made = APIClient()
    made.force_authenticate(user)
    return made


def test_api_request_stores_every_field(alice, vision, fra, train, quota, gateway):
    other = make_profile("other")
    body = {
        "team": "vision", "cluster": "fra-1", "profile": "train-80", "alternatives": ["other"], "devices": 2,
        "parallel": 3, "delivery": "template", "duration": "5h", "name": "sam", "reason": "More.",
    }  # fmt: skip
    headers = {"Idempotency-Key": "k-1"}
    answer = api(alice).post("/api/v1/claims/", body, format="json", headers=headers)
    assert answer.status_code == 201, answer.json()
    claim = Claim.objects.get()
    assert str(claim.pk) == answer.json()["id"]
    assert (claim.team, claim.cluster, claim.profile_version, claim.devices, claim.parallel) == (
        vision, fra, train.current, 2, 3,
    )  # fmt: skip
    assert (claim.delivery, claim.duration, claim.name, claim.reason, claim.key) == (
        "template", 5 * HOUR, "sam", "More.", "k-1",
    )  # fmt: skip
    assert [one.profile_version for one in claim.alternatives.all()] == [train.current, other.current]


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("", ["c", "b", "a"]),
        ("?state=requested", ["b"]),
        ("?state=requested&state=released", ["c", "b"]),
        ("?team=vision", ["c", "b", "a"]),
        ("?cluster=fra-1", ["b", "a"]),
        ("?cluster=lab-2", ["c"]),
        ("?profile=fast", ["b"]),
        ("?mine=true", ["c", "a"]),
        ("?mine=false", ["c", "b", "a"]),
    ],
)
def test_api_list_filters_claims(make, noon, alice, lena, vision, query, names):
    make(name="a")
    noon.shift(MINUTE)
    make(ClaimState.REQUESTED, "b", by=lena, profile=make_profile("fast"))
    noon.shift(MINUTE)
    make(ClaimState.RELEASED, "c", cluster=make_cluster("lab-2", teams=(vision,)))
    make_claim(make_team("nlp"), name="theirs")
    found = api(alice).get(f"/api/v1/claims/{query}").json()["results"]
    assert sorted(row["name"] for row in found) == sorted(names)
    assert [row["name"] for row in found if row["name"] in "bc"] == [one for one in names if one in "bc"]


@pytest.mark.parametrize(
    ("action", "state", "after"),
    [("withdraw", ClaimState.REQUESTED, "withdrawn"), ("release", ClaimState.PROVISIONED, "releasing")],
)
def test_api_withdraw_and_release_store_reason(make, alice, action, state, after, monkeypatch):
    monkeypatch.setattr("claims.delivery.tasks.remove.delay", lambda _id: None)
    claim = make(state)
    answer = api(alice).post(f"/api/v1/claims/{claim.pk}/{action}/", {"reason": "Done."}, format="json")
    assert (answer.status_code, answer.json()["state"]) == (200, after)
    line = claim.history.latest("pk")
    assert (line.new, line.reason, line.by) == (after, "Done.", alice)
