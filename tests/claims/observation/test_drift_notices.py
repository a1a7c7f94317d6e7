"""What is said of each thing that others do to the objects of a claim: code, sentences, what it is about."""

from datetime import timedelta

import pytest
from django.utils import timezone

from claims.delivery import reconcile, tasks
from claims.models import Claim
from claims.observation import drift
from claims.observation.drift import Drift, find_drift, mirrored_spec_hash, notify_drift
from claims.observation.observations import observe
from claims.states import ClaimState
from cluster.protocol import RESOURCE_CLAIM
from inventory.models import Pod, ResourceClaim, ResourceClaimTemplate
from notify.models import Notice
from teams.models import User
from tests.claims.mirror import NINE, Mirror, result
from tests.factories import make_claim, make_spec, make_user

pytestmark = pytest.mark.django_db
S = ClaimState


@pytest.fixture
def mirror(fra, monkeypatch):
    monkeypatch.setattr("claims.receivers.reconcile_cluster.delay", lambda *_: None)
    return Mirror(fra)


@pytest.fixture
def claim_in(vision, fra, train, alice):
    def make(state=S.PROVISIONED, **columns):
        values = {"name": "sam", "object_uid": "uid-1", "devices": 2, **columns}
        return make_claim(vision, by=alice, cluster=fra, profile=train, state=state, held=False, **values)

    return make


@pytest.fixture
def batch(claim_in, mirror):
    claim = claim_in(name="batch", object_uid="uid-t", delivery="template", parallel=2, devices=1)
    mirror.template(claim)
    return claim


def trouble(claim):
    claim = Claim.objects.get(pk=claim.pk)
    return find_drift(claim, observe([claim])[claim.pk])


def label(claim, owner):
    ResourceClaim.objects.filter(name=claim.name).update(owner=owner, resource_version="by hand")


def short(count):
    return mirrored_spec_hash(ResourceClaim(raw={"spec": make_spec(count)}))[:8]


def test_an_object_as_approved_is_no_trouble(claim_in, mirror):
    claim = claim_in()
    assert trouble(claim) is None
    mirror.claim("sam", claim, result("gpu-0"))
    assert trouble(claim) is None


@pytest.mark.parametrize("state", S)
def test_only_of_a_delivered_claim_drift_is_said(claim_in, mirror, state):
    claim = claim_in()
    mirror.claim("sam", claim, spec=make_spec(5))
    Claim.objects.filter(pk=claim.pk).update(state=state)
    found = trouble(claim)
    assert (found and found.code) == ("edited" if state in (S.PROVISIONED, S.ALLOCATED) else None)


@pytest.mark.parametrize("is_about", [True, False])
def test_a_deletion_is_told_when_nobody_makes_it_again(claim_in, mirror, is_about):
    claim = claim_in()
    mirror.claim("sam", claim)
    mirror.gone("uid-1", NINE if is_about else timezone.now())
    text = (
        "ResourceClaim sam was deleted in fra-1 by somebody other than the portal. Unless it is recreated "
        "now, this claim ends."
    )
    found = trouble(claim)
    assert found == Drift("deleted", text, "uid-1" if is_about else "")
    assert found.is_notified is is_about


def test_a_template_that_is_deleted_while_pods_go_on_is_told_at_once(batch, mirror):
    mirror.claim("batch-a", batch, result("gpu-0"), uid="a", origin="template")
    mirror.gone("uid-t", timezone.now())
    text = (
        "ResourceClaimTemplate batch was deleted in fra-1 by somebody other than the portal; "
        "its pods keep running."
    )
    found = trouble(batch)
    assert found == Drift("deleted", text, "uid-t")
    assert found.is_notified


def test_an_object_that_somebody_deletes_is_told_before_all_else(claim_in, mirror):
    claim = claim_in()
    mirror.claim("sam", claim, uid="uid-2", spec=make_spec(5), deleting_since=NINE)
    text = "Somebody other than the portal is deleting ResourceClaim sam; it goes when its pods have ended."
    assert trouble(claim) == Drift("deleting", text, "uid-2")


def test_another_specification_is_told_with_both_hashes(claim_in, mirror):
    claim = claim_in()
    mirror.claim("sam", claim, spec=make_spec(5))
    text = (
        f"ResourceClaim sam differs from what was approved: its spec is {short(5)}, approved was "
        f"{short(2)}. Release this claim and request it again."
    )
    assert trouble(claim) == Drift("edited", text, f"uid-1:{short(5)}")


@pytest.mark.parametrize("count", [2, 5])
def test_an_object_made_again_is_told_with_what_can_be_done(claim_in, mirror, count):
    claim = claim_in()
    mirror.claim("sam", claim, uid="uid-2", spec=make_spec(count))
    same = (
        "ResourceClaim sam was deleted and recreated by somebody other than the portal. It asks for what "
        "was approved, but it is another object. Release this claim and request it again, or have a "
        "platform admin accept the new object."
    )
    other = (
        "ResourceClaim sam was deleted and recreated by somebody other than the portal, and "
        f"differs from what was approved: its spec is {short(5)}, approved was {short(2)}. Release this "
        "claim and request it again."
    )
    about = f"uid-2:{short(count)}"
    expected = Drift("replaced", same, about) if count == 2 else Drift("replaced-edited", other, about)
    assert trouble(claim) == expected


def test_an_object_whose_uid_the_portal_does_not_know_yet_is_not_made_again(claim_in, mirror):
    claim = claim_in()
    mirror.claim("sam", claim)
    Claim.objects.filter(pk=claim.pk).update(object_uid="")
    assert trouble(claim) is None


@pytest.mark.parametrize(("owner", "about"), [("", "uid-1:"), ("x" * 40, "uid-1:" + "x" * 36)])
def test_a_label_that_somebody_took_or_changed_is_told(claim_in, mirror, owner, about):
    claim = claim_in()
    mirror.claim("sam", claim)
    label(claim, owner)
    text = (
        "ResourceClaim sam lost its Dragoman label. The portal still finds it by its UID; "
        "policies and reports that use the label do not."
    )
    assert trouble(claim) == Drift("unlabeled", text, about)


def test_what_ended_by_a_deletion_says_the_last_line_of_its_history(claim_in, mirror):
    claim = claim_in()
    mirror.claim("sam", claim)
    mirror.gone("uid-1", NINE)
    for why in ("It was deleted.", "Said later."):
        claim.history.create(old=S.PROVISIONED, new=S.FAILED, reason=why, at=NINE + timedelta(days=400))
    Claim.objects.filter(pk=claim.pk).update(state=S.FAILED)
    assert trouble(claim) == Drift("deleted", "Said later.", "uid-1")


@pytest.mark.parametrize("why", ["never written", "just gone", "still there"])
def test_what_failed_for_another_reason_was_not_deleted(claim_in, mirror, why):
    claim = claim_in()
    mirror.claim("sam", claim)
    if why != "still there":
        mirror.gone("uid-1", timezone.now() if why == "just gone" else NINE)
    uid = "" if why == "never written" else "uid-1"
    Claim.objects.filter(pk=claim.pk).update(state=S.FAILED, object_uid=uid)
    assert trouble(claim) is None


ONE = (
    "1 claim of this template differs from what was approved: {}. It was made while another "
    "template had its name; it goes with its pod."
)
SEVERAL = (
    "{} claims of this template differ from what was approved: {}. They were made while another "
    "template had its name; they go with their pods."
)
GENERATED = [
    ([4], ONE.format("p0")),
    ([4, 5], SEVERAL.format(2, "p0, p1")),
    ([4, 4, 4], SEVERAL.format(3, "p0, p1, p2")),
    ([5, 4, 5, 4], SEVERAL.format(4, "p0, p1, p2 …")),
]


@pytest.mark.parametrize(("sizes", "text"), GENERATED)
def test_generated_claims_of_another_template_are_told_by_what_they_ask_for(batch, mirror, sizes, text):
    mirror.claim("fine", batch, uid="fine", origin="template")
    for number, size in reversed(list(enumerate(sizes))):
        mirror.claim(f"p{number}", batch, uid=f"u{number}", origin="template", spec=make_spec(size))
    about = ",".join(sorted({short(size) for size in sizes}))
    assert trouble(batch) == Drift("generated-differ", text, about)


def test_what_is_told_of_many_specifications_is_about_eighty_characters(batch, mirror):
    for size in range(2, 14):
        mirror.claim(f"p{size}", batch, uid=f"u{size}", origin="template", spec=make_spec(size))
    found = trouble(batch)
    assert found.about == ",".join(sorted(short(size) for size in range(2, 14)))[:80]


def test_what_was_done_to_the_template_comes_before_its_claims(batch, mirror):
    mirror.claim("p", batch, uid="p", origin="template", spec=make_spec(4))
    ResourceClaimTemplate.objects.update(owner="")
    assert trouble(batch).code == "unlabeled"


@pytest.mark.parametrize(
    ("parallel", "at_once", "text"),
    [
        (2, 2, None),
        (2, 3, "3 claims exist at once; requested and charged to the quota: 2."),
        (1, 2, "2 claims exist at once; requested and charged to the quota: 1."),
    ],
)
def test_more_claims_at_once_than_were_asked_for_are_said(batch, mirror, parallel, at_once, text):
    Claim.objects.filter(pk=batch.pk).update(parallel=parallel)
    for number in range(at_once):
        mirror.claim(f"p{number}", batch, uid=f"u{number}", origin="template")
    found = trouble(batch)
    assert found == (text and Drift("over-use", text, ""))
    assert found is None or not found.is_notified


def test_only_what_is_about_something_and_has_a_title_is_told():
    told = [(code, Drift(code, "text", about).is_notified) for code in drift.TITLES for about in ("", "uid")]
    assert told == [(code, is_notified) for code in drift.TITLES for is_notified in (False, True)]
    assert not Drift(drift.OVER_USE, "text", "uid").is_notified


@pytest.mark.parametrize(
    ("code", "title"),
    [
        (drift.DELETED, "sam was deleted by somebody else"),
        (drift.DELETING, "sam is being deleted by somebody else"),
        (drift.REPLACED, "sam was deleted and recreated by somebody else"),
        (drift.REPLACED_AND_EDITED, "sam was recreated with another specification"),
        (drift.EDITED, "sam differs from what was approved"),
        (drift.UNLABELED, "sam lost its Dragoman label"),
        (drift.GENERATED_DIFFER, "Claims of sam differ from what was approved"),
    ],
)
def test_its_asker_and_each_active_admin_are_told_once_of_each_thing(
    claim_in, alice, bob, lena, root, code, title
):
    claim = claim_in()
    second, gone = make_user("ada", admin=True), make_user("olaf", admin=True)
    User.objects.filter(pk=gone.pk).update(is_active=False)
    for about in ("one", "one", "two"):
        notify_drift(claim, Drift(code, "Look.", about))
    expected = [(person.pk, title, "Look.", f"/claims/{claim.pk}/", True) for person in (alice, root, second)]
    told = Notice.objects.values_list("user", "title", "body", "url", "important")
    assert sorted(told) == sorted(expected * 2)


def test_two_claims_and_two_kinds_of_trouble_are_told_apart(claim_in, alice):
    first, second = claim_in(), claim_in(name="tom", object_uid="uid-2")
    for claim in (first, second):
        for code in (drift.EDITED, drift.UNLABELED):
            notify_drift(claim, Drift(code, "Look.", "one"))
    assert Notice.objects.filter(user=alice).count() == 4


@pytest.mark.parametrize("model", [ResourceClaim, ResourceClaimTemplate])
@pytest.mark.parametrize("raw", [{}, {"spec": None}, {"spec": {}}, {"spec": {"spec": None}}])
def test_an_object_without_a_specification_has_the_hash_of_an_empty_one(model, raw):
    if model is ResourceClaim and raw.get("spec"):
        raw = {}
    assert mirrored_spec_hash(model(raw=raw)) == mirrored_spec_hash(ResourceClaim(raw={"spec": {}}))


def test_a_template_has_the_hash_of_the_claims_that_it_makes():
    made = ResourceClaimTemplate(raw={"spec": {"metadata": {"labels": {}}, "spec": make_spec(3)}})
    assert mirrored_spec_hash(made)[:8] == short(3) != short(4)


def test_a_settled_claim_shows_the_trouble_as_its_problem_and_no_more_once_it_is_over(claim_in, mirror, root):
    claim = claim_in()
    mirror.claim("sam", claim)
    label(claim, "")
    reconcile.reconcile_claim(claim.pk)
    assert Claim.objects.get(pk=claim.pk).problem.startswith("ResourceClaim sam lost its Dragoman label.")
    assert Notice.objects.count() == 2
    mirror.claim("sam", claim)
    reconcile.reconcile_claim(claim.pk)
    assert Claim.objects.get(pk=claim.pk).problem == ""
    assert Notice.objects.count() == 2


def ended_by(reason, *, status="True", kind="DisruptionTarget", **more):
    return {"status": {"conditions": [{"type": kind, "status": status, "reason": reason, **more}]}}


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("DeletionByDeviceTaintManager", "one of its devices has a NoExecute taint"),
        ("DeletionByTaintManager", "its node has a NoExecute taint"),
        ("PreemptionByScheduler", "a pod of higher priority"),
        ("EvictionByEvictionAPI", "somebody evicted it"),
        ("Meteorite", "the cluster gives the reason Meteorite"),
    ],
)
def test_owner_is_told_once_why_a_pod_was_stopped(claim_in, mirror, alice, reason, words):
    claim = claim_in(S.ALLOCATED)
    mirror.claim("sam", claim, result("gpu-0"))
    mirror.pod("train-0", claims=["sam"])
    tasks.sweep()
    assert not Notice.objects.filter(key__startswith="disrupted:").exists()
    for columns in ({}, {"deleting_since": NINE}, {"gone_at": NINE}):
        mirror.pod("train-0", claims=["sam"], raw=ended_by(reason), **columns)
        tasks.sweep()
    (notice,) = Notice.objects.filter(key__startswith="disrupted:")
    assert (notice.user, notice.important) == (alice, True)
    assert "train-0 of sam" in notice.title
    assert words in notice.body


def test_drained_node_with_completed_pods_tells_nobody(claim_in, mirror):
    mirror.claim("sam", claim_in(S.ALLOCATED), result("gpu-0"))
    drained, before, later = "2026-11-17T09:00:00Z", "2026-11-17T08:59:59Z", "2026-11-17T09:00:30Z"
    cases = [
        *(("succeeded", "Succeeded", [before], 0), ("failed", "Failed", [before], 0)),
        *(("both", "Failed", [before, before], 0), ("evicted", "Failed", [before, later], 1)),
        *(("runs", "Running", [before], 2), ("unknown", "Failed", [], 3)),
    ]
    for name, phase, ends, told in cases:
        raw = ended_by("EvictionByEvictionAPI", lastTransitionTime=drained)
        raw["status"]["containerStatuses"] = [{"state": {"terminated": {"finishedAt": end}}} for end in ends]
        mirror.pod(name, claims=["sam"], phase=phase, raw=raw)
        tasks.sweep()
        assert Notice.objects.filter(key__startswith="disrupted:").count() == told, name


def test_owner_reads_what_kubernetes_says_about_a_stopped_pod(claim_in, mirror):
    mirror.claim("sam", claim_in(S.ALLOCATED), result("gpu-0"))
    message = "The node was low on resource: memory. Threshold quantity: 100Mi."
    mirror.pod("train-0", claims=["sam"], raw=ended_by("TerminationByKubelet", message=message))
    tasks.sweep()
    (notice,) = Notice.objects.filter(key__startswith="disrupted:")
    assert notice.body == (
        "The reason: its node ran out of memory or disk, or shuts down. Kubernetes says: “The node was low "
        "on resource: memory. Threshold quantity: 100Mi.” Start it again, unless a Job or Deployment does. "
        "The claim stays."
    )


@pytest.mark.parametrize(
    "raw", [{}, ended_by("x", status="False"), ended_by("x", kind="Ready"), {"status": {"conditions": None}}]
)
def test_pod_that_nobody_disrupts_is_no_news(claim_in, mirror, raw):
    mirror.claim("sam", claim_in(S.ALLOCATED), result("gpu-0"))
    mirror.pod("train-0", claims=["sam"], raw=raw, gone_at=NINE)
    tasks.sweep()
    assert not Notice.objects.filter(key__startswith="disrupted:").exists()


def deleted_notices():
    return Notice.objects.filter(key__startswith="pod-deleted:")


@pytest.mark.parametrize("columns", [{}, {"phase": "Failed", "deleting_since": NINE}])
def test_owner_is_told_once_that_the_last_pod_was_deleted(claim_in, mirror, alice, columns):
    mirror.claim("sam", claim_in(S.ALLOCATED), result("gpu-0"))
    mirror.pod("train", claims=["sam"], node_name="node-1")
    mirror.pod("other", claims=["sam"], node_name="node-1")
    mirror.pod("train", claims=["sam"], node_name="node-1", gone_at=NINE, **columns)
    tasks.sweep()
    assert not deleted_notices()  # the other pod goes on
    for _ in range(2):
        mirror.pod("other", claims=["sam"], node_name="node-1", gone_at=NINE, **columns)
        tasks.sweep()
    (notice,) = deleted_notices()
    assert (notice.user, notice.important) == (alice, False)
    assert notice.title == "The pod other of sam was deleted, and no pod replaces it"
    assert notice.body.endswith("Start a pod again, or release the claim.")


CONTROLLED = {"metadata": {"ownerReferences": [{"kind": "Job", "name": "train", "controller": True}]}}


@pytest.mark.parametrize(
    "columns",
    [
        {"phase": "Succeeded"},
        {"raw": CONTROLLED},
        {"node_name": ""},
        {"raw": ended_by("PreemptionByScheduler")},
    ],
    ids=["completed", "of a controller", "never had a node", "disrupted"],
)
def test_nothing_is_said_of_other_pods_that_are_gone(claim_in, mirror, columns):
    mirror.claim("sam", claim_in(S.ALLOCATED), result("gpu-0"))
    mirror.pod("train", claims=["sam"], **{"node_name": "node-1", "gone_at": NINE, **columns})
    tasks.sweep()
    assert not deleted_notices()


def test_nothing_is_said_of_a_deleted_pod_after_the_end_of_the_claim(claim_in, mirror):
    claim = claim_in(S.ALLOCATED)
    mirror.claim("sam", claim, result("gpu-0"))
    Claim.objects.filter(pk=claim.pk).update(expires_at=timezone.now() - timedelta(minutes=1))
    mirror.pod("train", claims=["sam"], node_name="node-1", gone_at=NINE)
    tasks.sweep()
    assert not deleted_notices()


def test_disruption_of_a_template_is_told_and_of_other_namespaces_not(batch, mirror, alice):
    mirror.pod("batch-0", templates=["batch"], raw=ended_by("PreemptionByScheduler"))
    mirror.pod("stranger", templates=["batch"], raw=ended_by("PreemptionByScheduler"))
    Pod.objects.filter(name="stranger").update(namespace="elsewhere")
    tasks.sweep()
    (notice,) = Notice.objects.filter(key__startswith="disrupted:")
    assert (notice.user, "batch-0" in notice.title) == (alice, True)


def test_claim_that_is_over_tells_of_no_disruption(claim_in, mirror, gateway):
    mirror.claim("sam", claim_in(S.RELEASED), result("gpu-0"))
    mirror.pod("train-0", claims=["sam"], raw=ended_by("EvictionByEvictionAPI"))
    tasks.sweep()
    assert not Notice.objects.filter(key__startswith="disrupted:").exists()


def test_owner_of_an_ended_claim_hears_that_its_pod_was_stopped_and_devices_come_back(
    claim_in, mirror, gateway
):
    claim = claim_in(S.RELEASING)
    mirror.claim("sam", claim, result("gpu-0"))
    labels = {"gpu.dragoman.dev/claim": str(claim.pk)}
    metadata = {"name": "sam", "namespace": "vision", "labels": labels, "finalizers": ["keep"]}
    gateway.put(RESOURCE_CLAIM, {"metadata": metadata, "spec": claim.spec})
    mirror.pod("train-0", claims=["sam"], raw=ended_by("EvictionByEvictionAPI"))
    tasks.sweep()
    (notice,) = Notice.objects.filter(key__startswith="disrupted:")
    assert "somebody evicted it" in notice.body
    assert "Its devices are free once it has ended." in notice.body
    assert "The claim stays" not in notice.body
