"""Every column of a claim that delivery writes, every state in which it writes nothing, and what it says."""

from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest
import time_machine
from django.utils import timezone

from claims.delivery import deliver, tasks, transitions
from claims.models import ApprovalStep, Claim, TeamNamespace
from claims.plans.plan import CLAIM_LABEL, claim_manifest
from claims.quotas import resource_quota_rounds
from claims.states import DELIVERED, FINAL, ClaimState
from cluster.protocol import (
    NAMESPACE,
    RESOURCE_CLAIM,
    RESOURCE_CLAIM_TEMPLATE,
    ClusterConflict,
    ClusterInvalid,
    Refused,
    Unreachable,
)
from inventory.models import Cluster
from notify.models import Notice
from tests.claims.rows import changes, last_step, row_of
from tests.factories import make_claim, make_spec, make_team

pytestmark = pytest.mark.django_db
S = ClaimState
NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
FULL = Refused("exceeded quota: gpus, requested: 1, used: 4, limited: 4", quota=True)
PROVISIONING = "ResourceClaim sam was created in namespace vision of fra-1."
UNREACHABLE = "fra-1 cannot be reached: The connection timed out. The portal keeps trying."


@pytest.fixture
def claim_in(vision, fra, train, alice, quota, gateway):
    def make(state, **columns):
        return make_claim(vision, by=alice, cluster=fra, profile=train, state=state, name="sam", **columns)

    return make


@pytest.fixture
def approved(claim_in):
    return claim_in(S.APPROVED, problem="fra-1 cannot be reached.")


@pytest.fixture
def releasing(claim_in, gateway):
    """A claim on its way out, whose object stands in the cluster, and which could not be reached before."""
    claim = claim_in(S.RELEASING, problem="fra-1 cannot be reached.", object_uid="")
    made = gateway.create(RESOURCE_CLAIM, claim_manifest(claim))
    Claim.objects.filter(pk=claim.pk).update(object_uid=made["metadata"]["uid"])
    gateway.calls.clear()
    return row_of(claim)


def object_of_others(name="sam", **metadata):
    return {"metadata": {"name": name, "namespace": "vision", **metadata}, "spec": make_spec()}


def standing(gateway, kind=RESOURCE_CLAIM):
    return gateway.get(kind, "sam", namespace="vision")


def verbs(gateway):
    return [verb for verb, *_ in gateway.calls]


def refuse(error):
    def refuse_it(*_args, **_more):
        raise error

    return refuse_it


# Deliver.


def test_delivery_writes_the_uid_and_clears_the_problem_and_nothing_else(approved, gateway):
    tasks.deliver(str(approved.pk))
    assert changes(approved) == {
        "state": S.PROVISIONED,
        "state_since": "now",
        "version": 1,
        "object_uid": standing(gateway)["metadata"]["uid"],
        "problem": "",
    }
    assert last_step(approved) == (S.APPROVED, S.PROVISIONED, PROVISIONING, None)


@pytest.mark.parametrize("state", [state for state in S if state != S.APPROVED])
def test_only_an_approved_claim_is_written(claim_in, gateway, state):
    claim = claim_in(state)
    deliver.deliver(str(claim.pk))
    assert gateway.calls == []
    assert changes(claim) == {}


@pytest.mark.parametrize("work", [deliver.deliver, deliver.remove, deliver.label])
def test_a_message_of_a_claim_that_is_not_there_does_nothing(gateway, work):
    work(str(uuid4()))
    assert gateway.calls == []


@pytest.mark.parametrize(
    ("state", "work"),
    [(S.APPROVED, deliver.deliver), (S.RELEASING, deliver.remove), (S.PROVISIONED, deliver.label)],
)
@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"enabled": False}, "The portal may not write to fra-1."),
        ({"read_only": True}, "The portal may not write to fra-1."),
        ({"halt_reason": "It is another cluster."}, "It is another cluster."),
        ({"halt_reason": "It is another cluster.", "read_only": True}, "It is another cluster."),
    ],
)
def test_a_cluster_that_may_not_be_written_is_not_asked_and_the_claim_says_why_once(
    claim_in, gateway, fra, state, work, columns, said
):
    claim = claim_in(state)
    Cluster.objects.filter(pk=fra.pk).update(**columns)
    for _ in range(2):
        work(str(claim.pk))
    assert gateway.calls == []
    assert changes(claim) == {"problem": said, "version": 1}


def test_a_note_is_of_one_claim_alone_and_another_sentence_replaces_it(claim_in, vision, fra):
    claim, other = claim_in(S.APPROVED), make_claim(vision, cluster=fra, state=S.APPROVED)
    for sentence in ("First.", "Second.", "Second."):
        deliver.note_problem(claim, sentence)
    assert changes(claim) == {"problem": "Second.", "version": 2}
    assert changes(other) == {}


@pytest.mark.parametrize("state", FINAL)
def test_nothing_is_noted_on_a_claim_that_is_over(claim_in, state):
    claim = claim_in(state, problem="")
    deliver.note_problem(claim, "Too late.")
    assert changes(claim) == {}


SENT_BACK = {
    "stranger": (
        "vision of fra-1 already has a ResourceClaim named sam that is not of this claim. The portal did not "
        "change it. Request again under another name."
    ),
    "full": f"fra-1 refused it: {FULL}",
    "full beside a stranger": f"fra-1 refused it: {FULL}",
    "moved": "Namespace vision of fra-1 no longer belongs to vision. Request it again.",
}


@pytest.mark.parametrize("why", SENT_BACK)
def test_what_goes_back_to_people_has_no_decision_left_and_its_whole_time_again(
    claim_in, gateway, lena, settings, monkeypatch, why
):
    claim = claim_in(S.APPROVED, decision_note="Fine.")
    Claim.objects.filter(pk=claim.pk).update(decide_by=NOON)
    claim = row_of(claim)
    ApprovalStep.objects.create(claim=claim, role="lead", by=lena, spec_hash=claim.spec_hash)
    assert None not in (claim.decided_by, claim.decided_at, claim.expires_at)
    assert claim.approved_hash == claim.spec_hash
    if why == "stranger":
        gateway.create(RESOURCE_CLAIM, object_of_others())
    elif why == "full":
        monkeypatch.setattr(gateway, "create", refuse(FULL))
    elif why == "full beside a stranger":  # who came between the look and the refusal
        create = gateway.create

        def come_between(kind, _manifest):
            create(kind, object_of_others())
            raise FULL

        monkeypatch.setattr(gateway, "create", come_between)
    else:
        TeamNamespace.objects.update(namespace="other")
    with time_machine.travel(NOON, tick=False):
        tasks.deliver(str(claim.pk))
    assert changes(claim) == {
        "state": S.REQUESTED,
        "state_since": "now",
        "version": 1,
        "problem": SENT_BACK[why],
        "decided_by_id": None,
        "decided_at": None,
        "approved_hash": "",
        "expires_at": None,
        "decide_by": NOON + settings.REQUEST_TTL,
    }
    assert last_step(claim) == (S.APPROVED, S.REQUESTED, SENT_BACK[why], None)
    assert not claim.steps.exists()


def test_only_who_moves_a_claim_back_to_people_has_them_asked(approved, lena):
    late = row_of(approved)
    transitions.return_to_approvers(row_of(approved), "First.")
    told = Notice.objects.filter(user=lena)
    assert told.count() == 1
    transitions.return_to_approvers(late, "Late.")
    assert told.count() == 1
    assert row_of(approved).problem == "First."


@pytest.mark.parametrize(
    "error", [ClusterInvalid("spec.devices is wrong."), Refused("Admission webhook says no.")]
)
def test_what_the_cluster_refuses_for_good_fails_with_its_sentence_alone(
    approved, gateway, monkeypatch, error
):
    monkeypatch.setattr(gateway, "create", refuse(error))
    tasks.deliver(str(approved.pk))
    said = f"fra-1 refused it: {error}"
    assert changes(approved) == {"state": S.FAILED, "state_since": "now", "version": 1, "problem": said}
    assert last_step(approved) == (S.APPROVED, S.FAILED, said, None)


@pytest.mark.parametrize("state", [S.APPROVED, S.RELEASING])
def test_credentials_that_are_refused_are_a_note_and_end_no_claim(claim_in, monkeypatch, state):
    claim = claim_in(state)

    @contextmanager
    def refused(_cluster):
        raise Refused("The credentials are not valid.")
        yield

    monkeypatch.setattr(deliver, "gateway_for", refused)
    (tasks.deliver if state == S.APPROVED else tasks.remove)(str(claim.pk))
    assert changes(claim) == {"problem": "The credentials are not valid.", "version": 1}


@pytest.mark.parametrize(("state", "work"), [(S.APPROVED, deliver.deliver), (S.RELEASING, deliver.remove)])
def test_an_unreachable_cluster_is_noted_once_and_raised_each_time(claim_in, gateway, state, work):
    claim = claim_in(state)
    gateway.fail(Unreachable("The connection timed out."), times=2)
    for _ in range(2):
        with pytest.raises(Unreachable):
            work(str(claim.pk))
    assert changes(claim) == {"problem": UNREACHABLE, "version": 1}


def test_a_cluster_that_counts_by_a_quota_of_a_moment_ago_is_tried_again_without_a_word(
    claim_in, gateway, monkeypatch
):
    claim, asked = claim_in(S.APPROVED), []

    def is_behind(*args):
        asked.append(args)
        return True

    monkeypatch.setattr(resource_quota_rounds, "may_count_old_limit", is_behind)
    monkeypatch.setattr(gateway, "create", refuse(FULL))
    with pytest.raises(
        resource_quota_rounds.QuotaNotYetWritten, match="still counts by the quota of a moment ago"
    ):
        deliver.deliver(str(claim.pk))
    assert asked == [(claim, gateway, FULL)]
    assert changes(claim) == {}


def test_only_a_full_quota_is_held_to_the_one_of_a_moment_ago(claim_in, gateway, monkeypatch):
    claim = claim_in(S.APPROVED)
    monkeypatch.setattr(
        resource_quota_rounds, "may_count_old_limit", lambda *_: pytest.fail("It is no quota.")
    )
    monkeypatch.setattr(gateway, "create", refuse(Refused("No.")))
    deliver.deliver(str(claim.pk))
    assert row_of(claim).state == S.FAILED


def test_the_quota_of_the_cluster_is_written_before_the_object(approved, gateway, monkeypatch):
    told = []
    monkeypatch.setattr(
        resource_quota_rounds, "before_delivery", lambda *args: told.append((args, verbs(gateway)))
    )
    tasks.deliver(str(approved.pk))
    assert told == [((approved, gateway), [])]


@pytest.mark.parametrize(
    ("comes", "state"), [("ours", S.PROVISIONED), ("a stranger's", S.REQUESTED), ("nothing", S.APPROVED)]
)
def test_of_an_object_that_came_between_look_and_creation_its_label_decides(
    claim_in, gateway, monkeypatch, comes, state
):
    claim, create = claim_in(S.APPROVED), gateway.create

    def conflict(kind, manifest):
        if comes != "nothing":  # which was made and deleted at this moment: the sweep looks again
            create(kind, manifest if comes == "ours" else object_of_others())
        raise ClusterConflict("resourceclaims “sam” exists already.")

    monkeypatch.setattr(gateway, "create", conflict)
    tasks.deliver(str(claim.pk))
    now = row_of(claim)
    assert now.state == state
    if comes == "ours":
        assert now.object_uid == standing(gateway)["metadata"]["uid"]
    if comes == "nothing":
        assert changes(claim) == {}


@pytest.mark.parametrize("delivery", ["claim", "template"])
@pytest.mark.parametrize("state", [state for state in S if state != S.APPROVED])
def test_what_was_written_of_a_claim_that_moved_on_stays_only_where_it_is_to_stand(
    claim_in, gateway, monkeypatch, state, delivery
):
    """Somebody else moves the claim while the object is being written."""
    claim, create = claim_in(S.APPROVED, delivery=delivery), gateway.create

    def create_late(kind, manifest):
        made = create(kind, manifest)
        Claim.objects.filter(pk=claim.pk).update(state=state)
        return made

    monkeypatch.setattr(gateway, "create", create_late)
    tasks.deliver(str(claim.pk))
    kind = RESOURCE_CLAIM if delivery == "claim" else RESOURCE_CLAIM_TEMPLATE
    assert (standing(gateway, kind) is not None) is (state in (S.PROVISIONED, S.ALLOCATED))
    assert changes(claim) == {"state": state}


def test_what_was_written_too_late_is_deleted_by_its_uid(claim_in, gateway, monkeypatch):
    claim, create, asked = claim_in(S.APPROVED), gateway.create, []

    def create_late(kind, manifest):
        made = create(kind, manifest)
        Claim.objects.filter(pk=claim.pk).update(state=S.RELEASED)
        return made

    monkeypatch.setattr(gateway, "create", create_late)
    monkeypatch.setattr(gateway, "delete", lambda *args, **more: asked.append((args, more)))
    tasks.deliver(str(claim.pk))
    uid = standing(gateway)["metadata"]["uid"]
    assert asked == [((RESOURCE_CLAIM, "sam"), {"namespace": "vision", "uid": uid})]


# Remove.


def test_removal_ends_the_claim_with_a_line_and_without_a_problem(releasing, gateway):
    tasks.remove(str(releasing.pk))
    assert standing(gateway) is None
    assert changes(releasing) == {"state": S.RELEASED, "state_since": "now", "version": 1, "problem": ""}
    gone = "ResourceClaim sam was deleted from namespace vision of fra-1."
    assert last_step(releasing) == (S.RELEASING, S.RELEASED, gone, None)


@pytest.mark.parametrize("state", S)
def test_only_of_a_claim_that_is_leaving_or_over_the_object_is_deleted(claim_in, gateway, state):
    claim = claim_in(state, object_uid="")
    gateway.create(RESOURCE_CLAIM, claim_manifest(claim))
    gateway.calls.clear()
    deliver.remove(str(claim.pk))
    leaves = state in (S.RELEASING, *FINAL)
    assert verbs(gateway) == (["get", "delete", "get"] if leaves else [])
    assert (standing(gateway) is None) is leaves
    if state != S.RELEASING:
        assert changes(claim) == {}


@pytest.mark.parametrize(
    ("labels", "known", "goes"), [(True, True, True), (True, False, True), (False, True, True),
                                  (False, False, False)],
)  # fmt: skip
def test_an_object_is_the_claims_by_its_label_or_its_uid(claim_in, gateway, labels, known, goes):
    claim = claim_in(S.RELEASING, object_uid="")
    made = gateway.create(RESOURCE_CLAIM, claim_manifest(claim) if labels else object_of_others())
    if known:
        Claim.objects.filter(pk=claim.pk).update(object_uid=made["metadata"]["uid"])
    tasks.remove(str(claim.pk))
    assert (standing(gateway) is None) is goes
    assert row_of(claim).state == S.RELEASED


def test_a_label_of_another_claim_makes_an_object_not_ours(claim_in, gateway):
    claim = claim_in(S.RELEASING)
    gateway.create(RESOURCE_CLAIM, object_of_others(labels={CLAIM_LABEL: str(uuid4())}))
    tasks.remove(str(claim.pk))
    assert standing(gateway) is not None


@pytest.mark.parametrize("error", [Refused("You may not delete it."), ClusterInvalid("It cannot be.")])
def test_a_refused_deletion_is_said_and_the_claim_goes_on_releasing(releasing, gateway, monkeypatch, error):
    monkeypatch.setattr(gateway, "delete", refuse(error))
    for _ in range(2):
        tasks.remove(str(releasing.pk))
    said = f"fra-1 refused to delete it: {error}"
    assert changes(releasing) == {"problem": said, "version": 1}
    monkeypatch.undo()


def test_an_object_replaced_at_the_moment_of_its_deletion_is_left_to_the_sweep(
    releasing, gateway, monkeypatch
):
    monkeypatch.setattr(gateway, "delete", refuse(ClusterConflict("It was replaced.")))
    tasks.remove(str(releasing.pk))
    assert changes(releasing) == {}


def test_one_that_is_being_deleted_already_is_not_deleted_again_and_has_no_problem_any_more(
    releasing, gateway
):
    held = standing(gateway)
    held["metadata"] |= {
        "finalizers": ["resource.kubernetes.io/delete-protection"],
        "deletionTimestamp": "2026-11-20T10:00:00Z",
    }
    gateway.put(RESOURCE_CLAIM, held)
    gateway.calls.clear()
    tasks.remove(str(releasing.pk))
    assert verbs(gateway) == ["get"]
    assert changes(releasing) == {"problem": "", "version": 1}


def test_one_made_anew_right_after_the_deletion_is_a_strangers(releasing, gateway, monkeypatch):
    delete = gateway.delete

    def delete_and_replace(*args, **more):
        assert delete(*args, **more)
        gateway.create(RESOURCE_CLAIM, object_of_others())
        return True

    monkeypatch.setattr(gateway, "delete", delete_and_replace)
    tasks.remove(str(releasing.pk))
    assert row_of(releasing).state == S.RELEASED
    assert verbs(gateway).count("delete") == 1


@pytest.mark.parametrize("namespace", ["vision", "audio"])
@pytest.mark.parametrize("owner", ["ours", "another's", "nobody's"])
def test_a_template_waits_for_its_own_generated_claims_alone(claim_in, gateway, namespace, owner):
    claim = claim_in(S.RELEASING, delivery="template", problem="fra-1 cannot be reached.")
    gateway.put(NAMESPACE, {"metadata": {"name": "audio"}})
    labels = {"ours": {CLAIM_LABEL: str(claim.pk)}, "another's": {CLAIM_LABEL: str(uuid4())}}
    made = object_of_others("job-1-gpu", labels=labels.get(owner, {}))
    made["metadata"]["namespace"] = namespace
    gateway.create(RESOURCE_CLAIM, made)
    tasks.remove(str(claim.pk))
    if (namespace, owner) == ("vision", "ours"):
        assert changes(claim) == {"problem": "", "version": 1}
    else:
        gone = "ResourceClaimTemplate sam was deleted from namespace vision of fra-1."
        assert last_step(claim) == (S.RELEASING, S.RELEASED, gone, None)


def test_of_a_named_claim_no_generated_ones_are_looked_for(releasing, gateway):
    tasks.remove(str(releasing.pk))
    assert "list" not in verbs(gateway)


# Label.


@pytest.mark.parametrize("delivery", ["claim", "template"])
@pytest.mark.parametrize("state", S)
def test_the_labels_are_written_on_what_is_delivered_and_on_nothing_else(claim_in, gateway, state, delivery):
    """Somebody else has written another claim and another team there; that is overwritten."""
    claim = claim_in(state, delivery=delivery, object_uid="")
    kind = RESOURCE_CLAIM if delivery == "claim" else RESOURCE_CLAIM_TEMPLATE
    theirs = {CLAIM_LABEL: "theirs", "gpu.dragoman.dev/team": "theirs", "app": "train"}
    manifest = claim_manifest(claim)
    manifest["metadata"]["labels"] = dict(theirs)
    made = gateway.create(kind, manifest)
    Claim.objects.filter(pk=claim.pk).update(object_uid=made["metadata"]["uid"])
    before = row_of(claim)
    gateway.calls.clear()
    deliver.label(str(claim.pk))
    ours = {
        CLAIM_LABEL: str(claim.pk), "gpu.dragoman.dev/team": "vision", "gpu.dragoman.dev/profile": "train-80",
    }  # fmt: skip
    assert verbs(gateway) == (["get", "apply"] if state in DELIVERED else [])
    assert standing(gateway, kind)["metadata"]["labels"] == (theirs | ours if state in DELIVERED else theirs)
    assert changes(before) == {}


def test_an_object_that_is_gone_is_not_made_anew_for_its_label(claim_in, gateway):
    claim = claim_in(S.PROVISIONED)
    deliver.label(str(claim.pk))
    assert verbs(gateway) == ["get"]
    assert standing(gateway) is None


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ClusterConflict("It was replaced."), None),
        (ClusterInvalid("It cannot be."), None),
        (Refused("You may not patch it."), "fra-1 refused to label it: You may not patch it."),
    ],
)
def test_a_label_that_cannot_be_written_is_said_only_where_somebody_can_mend_it(
    claim_in, gateway, monkeypatch, error, said
):
    claim = claim_in(S.PROVISIONED, object_uid="")
    made = gateway.create(RESOURCE_CLAIM, object_of_others())
    Claim.objects.filter(pk=claim.pk).update(object_uid=made["metadata"]["uid"])
    before = row_of(claim)
    monkeypatch.setattr(gateway, "apply", refuse(error))
    deliver.label(str(claim.pk))
    assert changes(before) == ({"problem": said, "version": 1} if said else {})


def test_a_label_for_an_unreachable_cluster_is_tried_again_without_a_word(claim_in, gateway):
    claim = claim_in(S.PROVISIONED)
    gateway.fail(Unreachable("The connection timed out."))
    with pytest.raises(Unreachable):
        deliver.label(str(claim.pk))
    assert changes(claim) == {}


def test_an_object_of_another_uid_is_looked_at_and_not_labelled(claim_in, gateway):
    claim = claim_in(S.PROVISIONED)
    gateway.create(RESOURCE_CLAIM, object_of_others())
    gateway.calls.clear()
    deliver.label(str(claim.pk))
    assert verbs(gateway) == ["get"]


@pytest.mark.parametrize(
    ("state", "work", "now"),
    [
        (S.APPROVED, deliver.deliver, S.PROVISIONED),
        (S.RELEASING, deliver.remove, S.RELEASED),
    ],
)
def test_a_message_is_of_one_claim_alone(claim_in, vision, fra, state, work, now):
    first, second, third = (
        make_claim(vision, cluster=fra, state=state, name=f"sam-{number}") for number in range(3)
    )
    work(str(second.pk))
    assert row_of(second).state == now
    assert changes(first) == changes(third) == {}


def test_an_object_that_is_there_is_found_by_one_look(approved, gateway):
    gateway.create(RESOURCE_CLAIM, claim_manifest(approved))
    gateway.calls.clear()
    tasks.deliver(str(approved.pk))
    assert verbs(gateway) == ["get"]
    assert row_of(approved).state == S.PROVISIONED


def test_a_refusal_for_good_ends_a_claim_whatever_stands_there(approved, gateway, monkeypatch):
    create = gateway.create

    def create_and_refuse(kind, manifest):
        create(kind, manifest)
        raise Refused("Admission webhook says no.")

    monkeypatch.setattr(gateway, "create", create_and_refuse)
    tasks.deliver(str(approved.pk))
    assert row_of(approved).state == S.FAILED


# Its place.


@pytest.mark.parametrize(
    ("place", "is_place"),
    [({}, True), ({"namespace": "vision-2"}, False), ({"team": "audio"}, False)],
)
def test_the_place_is_the_teams_by_team_and_namespace(approved, fra, place, is_place):
    if "team" in place:
        place = {"team": make_team("audio")}
    TeamNamespace.objects.filter(cluster=fra).update(**place)
    tasks.deliver(str(approved.pk))
    assert (row_of(approved).state == S.PROVISIONED) is is_place


def test_a_claim_that_waited_an_hour_is_delivered_with_its_end_as_approved(claim_in):
    """The time runs from the approval on, not from the delivery."""
    ends = timezone.now() + timedelta(hours=3)
    claim = claim_in(S.APPROVED, expires_at=ends)
    tasks.deliver(str(claim.pk))
    assert row_of(claim).expires_at == ends
