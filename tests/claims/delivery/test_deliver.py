from contextlib import suppress
from datetime import timedelta

import pytest
import time_machine
from django.utils import timezone

from claims.approvals.decide import approve
from claims.delivery import deliver, tasks
from claims.lifecycle.services import release, withdraw
from claims.models import Claim
from claims.plans.plan import CLAIM_LABEL, claim_manifest
from claims.states import ClaimState
from cluster.protocol import (
    RESOURCE_CLAIM,
    RESOURCE_CLAIM_TEMPLATE,
    ClusterInvalid,
    Page,
    Refused,
    Unreachable,
)
from inventory.models import Cluster, ResourceClaim
from notify.models import Notice
from tests.factories import make_spec

pytestmark = pytest.mark.django_db


@pytest.fixture
def approved(ask, lena):
    def make(**wish):
        claim = ask(**wish)
        return approve(claim=claim, by=lena, spec_hash=claim.spec_hash)

    return make


@pytest.fixture
def retrying(settings):
    """Retry as a worker would; what is run where it is queued otherwise raises instead."""
    settings.CELERY_TASK_EAGER_PROPAGATES = False


def written(gateway):
    return [name for verb, _plural, name in gateway.calls if verb in ("create", "apply")]


def test_an_approved_claim_is_delivered_on_commit(ask, lena, gateway, django_capture_on_commit_callbacks):
    claim = ask(devices=2)
    with django_capture_on_commit_callbacks(execute=True):
        approve(claim=claim, by=lena, spec_hash=claim.spec_hash)
    claim.refresh_from_db()
    made = gateway.get(RESOURCE_CLAIM, claim.name, namespace="vision")
    assert (claim.state, claim.object_uid) == (ClaimState.PROVISIONED, made["metadata"]["uid"])
    assert made["metadata"]["labels"] == {
        "gpu.dragoman.dev/claim": str(claim.pk),
        "gpu.dragoman.dev/team": "vision",
        "gpu.dragoman.dev/profile": "train-80",
    }
    assert made["spec"]["devices"]["requests"][0]["exactly"]["count"] == 2


def test_a_template_hands_its_labels_on(approved, gateway):
    claim = approved(delivery="template", parallel=3)
    tasks.deliver(str(claim.pk))
    made = gateway.get(RESOURCE_CLAIM_TEMPLATE, claim.name, namespace="vision")
    assert made["spec"]["metadata"]["labels"][CLAIM_LABEL] == str(claim.pk)


def test_a_message_that_comes_twice_writes_once(approved, gateway):
    claim = approved()
    for _ in range(3):
        tasks.deliver(str(claim.pk))
    assert written(gateway) == [claim.name]
    assert claim.history.filter(new=ClaimState.PROVISIONED).count() == 1


def test_a_worker_killed_after_writing_is_followed_by_one_that_finds_the_object(approved, gateway):
    claim = approved()
    made = gateway.create(RESOURCE_CLAIM, claim_manifest(claim))
    tasks.deliver(str(claim.pk))
    claim.refresh_from_db()
    assert (claim.state, claim.object_uid) == (ClaimState.PROVISIONED, made["metadata"]["uid"])
    assert written(gateway) == [claim.name]


def test_a_foreign_object_of_that_name_is_never_touched(approved, gateway):
    claim = approved(name="taken")
    foreign = gateway.create(
        RESOURCE_CLAIM, {"metadata": {"name": "taken", "namespace": "vision"}, "spec": make_spec(4)}
    )
    tasks.deliver(str(claim.pk))
    claim.refresh_from_db()
    assert claim.state == ClaimState.REQUESTED
    assert "already has a ResourceClaim named taken that is not of this claim" in claim.problem
    assert (claim.decided_by, claim.approved_hash, claim.expires_at) == (None, "", None)
    assert gateway.get(RESOURCE_CLAIM, "taken", namespace="vision") == foreign


def test_of_a_claim_that_comes_back_from_the_cluster_its_deciders_are_told_again(approved, lena, gateway):
    full = Refused("exceeded quota: gpus, requested: 1, used: 4, limited: 4", quota=True)
    with time_machine.travel(timezone.now() - timedelta(hours=1)):
        claim = approved()
    told = Notice.objects.filter(user=lena, title=f"{claim} waits for your decision")
    assert told.count() == 1
    gateway.fail(full)
    tasks.deliver(str(claim.pk))
    assert told.count() == 2


def test_of_a_claim_that_was_released_before_the_cluster_refused_it_nobody_is_told(
    approved, alice, lena, gateway, monkeypatch
):
    claim = approved()
    before = Notice.objects.filter(user=lena).count()

    def refuse_late(kind, manifest):
        release(claim=claim, by=alice)
        raise Refused("exceeded quota: gpus, requested: 1, used: 4, limited: 4", quota=True)

    monkeypatch.setattr(gateway, "create", refuse_late)
    tasks.deliver(str(claim.pk))
    assert Notice.objects.filter(user=lena).count() == before
    assert Claim.objects.get(pk=claim.pk).state == ClaimState.RELEASING


def test_a_request_that_went_back_to_people_has_its_whole_time_again(approved, gateway, settings):
    claim = approved()
    Claim.objects.filter(pk=claim.pk).update(decide_by=timezone.now())
    gateway.fail(Refused("exceeded quota: gpus", quota=True))
    tasks.deliver(str(claim.pk))
    claim.refresh_from_db()
    assert claim.state == ClaimState.REQUESTED
    assert claim.decide_by > timezone.now() + settings.REQUEST_TTL - timedelta(minutes=1)


def test_a_request_that_went_back_to_people_and_is_withdrawn_has_no_problem_any_more(
    approved, gateway, alice
):
    claim = approved()
    gateway.fail(Refused("exceeded quota: gpus", quota=True))
    tasks.deliver(str(claim.pk))
    claim.refresh_from_db()
    assert "exceeded quota" in claim.problem
    withdraw(claim=claim, by=alice)
    claim.refresh_from_db()
    assert (claim.state, claim.problem) == (ClaimState.WITHDRAWN, "")


def test_a_request_that_went_back_to_people_and_is_approved_again_has_no_problem_any_more(
    approved, gateway, lena
):
    claim = approved()
    gateway.fail(Refused("exceeded quota: gpus", quota=True))
    tasks.deliver(str(claim.pk))
    claim.refresh_from_db()
    assert "exceeded quota" in claim.problem
    again = approve(claim=claim, by=lena, spec_hash=claim.spec_hash)
    assert (again.state, again.problem) == (ClaimState.APPROVED, "")


def test_an_unreachable_cluster_is_tried_again(approved, gateway, retrying):
    claim = approved()
    gateway.fail(Unreachable("The connection timed out."), times=2)
    tasks.deliver.delay(str(claim.pk))
    claim.refresh_from_db()
    assert (claim.state, claim.problem) == (ClaimState.PROVISIONED, "")


def test_a_cluster_that_stays_unreachable_is_left_to_the_sweep(approved, gateway, retrying):
    claim = approved()
    gateway.fail(Unreachable("The connection timed out."), times=50)
    tasks.deliver.delay(str(claim.pk))
    claim.refresh_from_db()
    assert claim.state == ClaimState.APPROVED
    assert claim.problem == "fra-1 cannot be reached: The connection timed out. The portal keeps trying."
    gateway._failures.clear()
    tasks.sweep()
    claim.refresh_from_db()
    assert (claim.state, claim.problem) == (ClaimState.PROVISIONED, "")


@pytest.mark.parametrize(
    "error", [ClusterInvalid("spec.devices is wrong."), Refused("You may not create it.")]
)
def test_what_the_cluster_refuses_fails_with_its_sentence(approved, gateway, retrying, error):
    claim = approved()
    gateway.fail(Unreachable("once"))
    gateway.fail(error)
    tasks.deliver.delay(str(claim.pk))
    claim.refresh_from_db()
    assert claim.state == ClaimState.FAILED
    assert claim.problem == claim.history.last().reason == f"fra-1 refused it: {error}"


def test_a_permission_that_is_missing_is_waited_for(approved, gateway):
    """An API server that starts refuses everybody until it has read its roles."""
    claim = approved()
    gateway.fail(Refused("The credentials may not create resourceclaims.", fixable=True))
    tasks.deliver(str(claim.pk))
    claim.refresh_from_db()
    assert claim.state == ClaimState.APPROVED
    assert claim.problem == (
        "fra-1 refused it: The credentials may not create resourceclaims. The portal keeps trying."
    )
    tasks.sweep()
    claim.refresh_from_db()
    assert (claim.state, claim.problem) == (ClaimState.PROVISIONED, "")


def test_a_quota_of_the_cluster_sends_it_back_to_a_person_and_not_in_circles(approved, gateway):
    claim = approved()
    gateway.fail(Refused("exceeded quota: gpus, requested: 1, used: 4, limited: 4", quota=True))
    tasks.deliver(str(claim.pk))
    claim.refresh_from_db()
    assert claim.state == ClaimState.REQUESTED
    assert "exceeded quota: gpus" in claim.problem
    tasks.sweep()
    tasks.deliver(str(claim.pk))
    assert written(gateway) == []


def test_a_halted_cluster_is_not_written(approved, gateway, fra):
    Cluster.objects.filter(pk=fra.pk).update(halt_reason="The credentials lead to another cluster.")
    claim = approved()
    tasks.deliver(str(claim.pk))
    claim.refresh_from_db()
    assert (claim.state, claim.problem) == (ClaimState.APPROVED, "The credentials lead to another cluster.")
    assert gateway.calls == []


def test_release_deletes_the_object_and_frees_the_quota(ask, approved, alice, gateway):
    claim = approved(devices=8)
    tasks.deliver(str(claim.pk))
    release(claim=claim, by=alice)
    tasks.remove(str(claim.pk))
    claim.refresh_from_db()
    assert claim.state == ClaimState.RELEASED
    assert gateway.get(RESOURCE_CLAIM, claim.name, namespace="vision") is None
    assert ask(devices=8)


def test_what_pods_still_use_is_releasing_until_it_is_gone(approved, alice, gateway):
    claim = approved()
    tasks.deliver(str(claim.pk))
    held = gateway.get(RESOURCE_CLAIM, claim.name, namespace="vision")
    held["metadata"]["finalizers"] = ["resource.kubernetes.io/delete-protection"]
    gateway.put(RESOURCE_CLAIM, held)
    release(claim=claim, by=alice)
    for _ in range(2):
        tasks.remove(str(claim.pk))
    claim.refresh_from_db()
    assert claim.state == ClaimState.RELEASING
    assert [verb for verb, *_ in gateway.calls].count("delete") == 1
    gateway.remove(RESOURCE_CLAIM, claim.name, namespace="vision")
    tasks.remove(str(claim.pk))
    claim.refresh_from_db()
    assert claim.state == ClaimState.RELEASED


def test_a_cluster_that_answers_again_is_no_problem_of_a_claim_that_pods_still_use(approved, alice, gateway):
    claim = approved()
    tasks.deliver(str(claim.pk))
    held = gateway.get(RESOURCE_CLAIM, claim.name, namespace="vision")
    held["metadata"]["finalizers"] = ["resource.kubernetes.io/delete-protection"]
    gateway.put(RESOURCE_CLAIM, held)
    release(claim=claim, by=alice)
    gateway.fail(Unreachable("The connection timed out."))
    with pytest.raises(Unreachable):
        deliver.remove(str(claim.pk))
    claim.refresh_from_db()
    assert "cannot be reached" in claim.problem
    tasks.remove(str(claim.pk))
    claim.refresh_from_db()
    assert (claim.state, claim.problem) == (ClaimState.RELEASING, "")


def test_a_foreign_object_is_not_deleted(approved, alice, gateway):
    claim = approved(name="mine")
    tasks.deliver(str(claim.pk))
    gateway.remove(RESOURCE_CLAIM, "mine", namespace="vision")
    gateway.create(RESOURCE_CLAIM, {"metadata": {"name": "mine", "namespace": "vision"}, "spec": make_spec()})
    release(claim=claim, by=alice)
    tasks.remove(str(claim.pk))
    claim.refresh_from_db()
    assert claim.state == ClaimState.RELEASED
    assert gateway.get(RESOURCE_CLAIM, "mine", namespace="vision")


def test_an_object_made_anew_between_look_and_deletion_is_not_deleted(approved, alice, gateway, monkeypatch):
    claim = approved(name="mine")
    tasks.deliver(str(claim.pk))
    release(claim=claim, by=alice)
    other = {"metadata": {"name": "mine", "namespace": "vision"}, "spec": make_spec()}
    look = gateway.get

    def look_and_replace(*args, **kwargs):
        found = look(*args, **kwargs)
        monkeypatch.setattr(gateway, "get", look)
        gateway.remove(RESOURCE_CLAIM, "mine", namespace="vision")
        gateway.create(RESOURCE_CLAIM, other)
        return found

    monkeypatch.setattr(gateway, "get", look_and_replace)
    tasks.remove(str(claim.pk))
    claim.refresh_from_db()
    assert claim.state == ClaimState.RELEASING
    standing = gateway.get(RESOURCE_CLAIM, "mine", namespace="vision")
    assert standing["metadata"]["uid"] != claim.object_uid
    tasks.sweep()
    claim.refresh_from_db()
    assert claim.state == ClaimState.RELEASED
    assert gateway.get(RESOURCE_CLAIM, "mine", namespace="vision") == standing


def test_a_template_is_released_when_its_generated_claims_are_gone(approved, alice, gateway):
    claim = approved(delivery="template", parallel=2)
    tasks.deliver(str(claim.pk))
    labels = {CLAIM_LABEL: str(claim.pk)}
    pod = {"metadata": {"name": "job-1-gpu-x", "namespace": "vision", "labels": labels}, "spec": make_spec()}
    gateway.create(RESOURCE_CLAIM, pod)
    release(claim=claim, by=alice)
    tasks.remove(str(claim.pk))
    claim.refresh_from_db()
    assert claim.state == ClaimState.RELEASING
    assert gateway.get(RESOURCE_CLAIM_TEMPLATE, claim.name, namespace="vision") is None
    gateway.remove(RESOURCE_CLAIM, "job-1-gpu-x", namespace="vision")
    tasks.sweep()
    claim.refresh_from_db()
    assert claim.state == ClaimState.RELEASED


@pytest.mark.parametrize("empty", ["first", "last"])
def test_generated_claims_are_waited_for_on_whichever_page_they_are_listed(
    approved, alice, gateway, monkeypatch, empty
):
    """A page may be empty though others are not: what it had was filtered out."""
    claim = approved(delivery="template", parallel=2)
    tasks.deliver(str(claim.pk))
    release(claim=claim, by=alice)
    pages = [Page([], "7", None), Page([{"metadata": {"name": "job-1-gpu-x"}}], "7", None)]
    listed = pages if empty == "first" else pages[::-1]
    monkeypatch.setattr(gateway, "list", lambda *args, **kwargs: iter(listed))
    tasks.remove(str(claim.pk))
    assert Claim.objects.get(pk=claim.pk).state == ClaimState.RELEASING


def test_released_while_it_was_being_written_leaves_nothing_behind(approved, alice, gateway, monkeypatch):
    claim = approved()
    create = gateway.create

    def create_late(kind, manifest):
        made = create(kind, manifest)
        release(claim=claim, by=alice)
        Claim.objects.get(pk=claim.pk).advance(ClaimState.RELEASED, why="nothing was there yet")
        return made

    monkeypatch.setattr(gateway, "create", create_late)
    tasks.deliver(str(claim.pk))
    assert gateway.get(RESOURCE_CLAIM, claim.name, namespace="vision") is None


def test_the_sweep_removes_what_a_dead_worker_left_of_a_claim_that_is_over(approved, alice, gateway, fra):
    claim = approved()
    made = gateway.create(RESOURCE_CLAIM, claim_manifest(claim))
    release(claim=claim, by=alice)
    Claim.objects.get(pk=claim.pk).advance(ClaimState.RELEASED, why="nothing was there yet")
    ResourceClaim.objects.create(
        cluster=fra, namespace="vision", name=claim.name, uid=made["metadata"]["uid"], owner=str(claim.pk),
        origin="portal", raw=made,
    )  # fmt: skip
    tasks.sweep()
    assert gateway.get(RESOURCE_CLAIM, claim.name, namespace="vision") is None


@pytest.mark.parametrize("error", [Unreachable("The connection timed out."), Refused("You may not look.")])
def test_a_claim_that_is_over_has_no_problem_any_more(approved, alice, gateway, error):
    """Its object is looked for as long as the cluster shows one; what goes wrong there troubles nobody."""
    claim = approved()
    release(claim=claim, by=alice)
    Claim.objects.get(pk=claim.pk).advance(ClaimState.RELEASED, why="nothing was there yet")
    claim.refresh_from_db()
    gateway.fail(error)
    with suppress(Unreachable):  # which the task tries again
        deliver.remove(str(claim.pk))
    assert gateway.calls  # it was looked for
    after = Claim.objects.get(pk=claim.pk)
    assert (after.state, after.problem, after.version) == (ClaimState.RELEASED, "", claim.version)


def test_the_sweep_does_not_ask_for_ever_about_what_pods_still_use(approved, alice, gateway, fra):
    claim = approved()
    tasks.deliver(str(claim.pk))
    release(claim=claim, by=alice)
    ResourceClaim.objects.create(
        cluster=fra, namespace="vision", name=claim.name, uid="u", owner=str(claim.pk), origin="portal",
        deleting_since=timezone.now(), raw={},
    )  # fmt: skip
    gateway.calls.clear()
    tasks.sweep()
    assert gateway.calls == []


@pytest.mark.parametrize("elsewhere", [{"namespace": "audio"}, {"name": "copy"}])
def test_a_label_on_an_object_of_others_does_not_keep_the_sweep_from_removing(
    approved, alice, gateway, fra, elsewhere
):
    """Somebody has copied a manifest with all its labels, and pods make claims of that."""
    claim = approved(name="mine")
    tasks.deliver(str(claim.pk))
    release(claim=claim, by=alice)
    place: dict[str, object] = {"namespace": "vision", "name": "mine", **elsewhere}
    states: list[dict[str, object]] = [{"origin": "template"}, {"deleting_since": timezone.now()}]
    for number, state in enumerate(states):
        columns = {**place, **state, "owner": str(claim.pk)}
        ResourceClaim.objects.create(cluster=fra, uid=f"copy-{number}", raw={}, **columns)
    tasks.sweep()
    assert gateway.get(RESOURCE_CLAIM, "mine", namespace="vision") is None
