"""Whether a mirrored object is of a claim: the stored ownership, compared with the plain query."""

from random import Random

import pytest
from django.db import transaction

from claims import tasks
from claims.lifecycle import services as lifecycle
from claims.models import Claim, Delivery, TeamNamespace
from claims.observation import ownership
from claims.observation.unmanaged import unmanaged_objects, unmanaged_use_claims
from claims.states import ClaimState
from cluster.protocol import RESOURCE_CLAIM, RESOURCE_CLAIM_TEMPLATE, Event
from inventory.models import Owned, Ownership, ResourceClaim, ResourceClaimTemplate
from inventory.sync.columns import CLAIM_LABEL
from inventory.sync.list_watch import apply_events
from inventory.sync.session import take
from tests.factories import make_claim, make_cluster, make_spec, make_team
from tests.recomputed import failed_check, recompute

pytestmark = pytest.mark.django_db

KINDS = {ResourceClaim: RESOURCE_CLAIM, ResourceClaimTemplate: RESOURCE_CLAIM_TEMPLATE}
LIVE, OVER = ClaimState.PROVISIONED, ClaimState.RELEASED
MANAGED, RELATED, UNMANAGED = Ownership.MANAGED, Ownership.RELATED, Ownership.UNMANAGED


class Watch:
    """Lets the sync write objects of a cluster, as a watch would."""

    def __init__(self, cluster):
        self.version, self.cluster = 0, cluster
        self.leases = {model: take(cluster.pk, kind.plural) for model, kind in KINDS.items()}

    def write(self, uid, name, *, model=ResourceClaim, namespace="vision", label="", type="MODIFIED"):
        self.version += 1
        labels = {CLAIM_LABEL: str(label)} if label else {}
        metadata = {"uid": uid, "name": name, "namespace": namespace, "labels": labels}
        manifest = {
            "metadata": metadata | {"resourceVersion": str(self.version)},
            "spec": {"spec": make_spec()} if model is ResourceClaimTemplate else make_spec(),
        }
        event = Event(type, manifest, str(self.version))
        apply_events(self.leases[model], KINDS[model], [event], version=str(self.version))
        return model.objects.get(cluster=self.cluster, uid=uid)


@pytest.fixture
def watch(fra):
    return Watch(fra)


def owned(vision, fra, train, **fields):
    return make_claim(vision, cluster=fra, profile=train, **{"state": LIVE, **fields})


@pytest.mark.parametrize("model", KINDS)
@pytest.mark.parametrize(
    ("known_by", "state", "namespace", "name", "expected"),
    [
        ("nothing", LIVE, "vision", "own", UNMANAGED),
        ("label", LIVE, "vision", "own", MANAGED),
        ("label", OVER, "vision", "own", MANAGED),
        ("label", LIVE, "vision", "copy", RELATED),
        ("label", LIVE, "audio", "own", UNMANAGED),
        ("uid", LIVE, "vision", "own", MANAGED),
        ("uid", LIVE, "vision", "copy", MANAGED),
        ("uid", OVER, "vision", "own", RELATED),
        ("uid", LIVE, "audio", "own", UNMANAGED),
        ("nonsense", LIVE, "vision", "own", UNMANAGED),
    ],
)
def test_sync_stores_the_ownership(
    watch, vision, fra, train, model, known_by, state, namespace, name, expected
):
    uid = "uid-own" if known_by == "uid" else ""
    claim = owned(vision, fra, train, name="own", state=state, object_uid=uid)
    label = {"label": claim.pk, "nonsense": "nonsense"}.get(known_by, "")
    row = watch.write("uid-own", name, model=model, namespace=namespace, label=label)
    assert row.ownership == expected


def test_object_generated_from_a_template_is_managed_under_any_name(watch, vision, fra, train):
    claim = owned(vision, fra, train, delivery=Delivery.TEMPLATE)
    assert watch.write("uid-1", "pod-gpu-x7k2p", label=claim.pk).ownership == MANAGED


def test_claim_of_another_cluster_owns_nothing_here(watch, vision, train):
    claim = owned(vision, make_cluster("osl-1"), train, name="own", object_uid="uid-own")
    assert watch.write("uid-own", "own", label=claim.pk).ownership == UNMANAGED


def test_changed_label_changes_the_ownership(watch, vision, fra, train):
    claim = owned(vision, fra, train, name="own")
    labels = [claim.pk, "", claim.pk]
    rows = [watch.write("uid-own", "own", label=label) for label in labels]
    assert [row.ownership for row in rows] == [MANAGED, UNMANAGED, MANAGED]


def test_object_that_was_gone_when_first_seen_is_not_compared(watch):
    assert watch.write("uid-own", "own", type="DELETED").ownership == Ownership.NOT_COMPARED


def stored(row):
    return type(row).objects.get(pk=row.pk).ownership


def test_adopted_object_is_managed_at_once_and_related_once_the_claim_is_over(
    watch, vision, fra, train, alice
):
    row, other = watch.write("uid-own", "by-hand"), watch.write("uid-other", "other")
    claim = owned(vision, fra, train, name="by-hand", object_uid="uid-own", by=alice)
    claim.record_creation(why="Adopted.", by=alice)
    assert (stored(row), stored(other)) == (MANAGED, UNMANAGED)
    claim.advance(ClaimState.RELEASING, why="Released.")
    assert stored(row) == MANAGED
    claim.advance(ClaimState.RELEASED, why="Gone.")
    assert stored(row) == RELATED


def test_accepted_object_is_managed_at_once(watch, vision, fra, train, root, monkeypatch):
    monkeypatch.setattr("claims.delivery.tasks.reconcile_cluster.delay", lambda *args: None)
    claim = owned(vision, fra, train, name="own", object_uid="uid-before", held=False)
    watch.write("uid-before", "own", label=claim.pk)
    watch.write("uid-before", "own", label=claim.pk, type="DELETED")
    row = watch.write("uid-new", "own", label=claim.pk)
    type(row).objects.filter(pk=row.pk).update(ownership=UNMANAGED)
    type(row).objects.filter(pk=row.pk).update(raw={"spec": claim.spec, "metadata": {"name": "own"}})
    lifecycle.accept_object(claim=claim, by=root)
    assert stored(row) == MANAGED


# The stored rows and the plain query.


def lists(user, teams):
    return {
        "claims": {(row.uid, row.team) for row in unmanaged_objects(ResourceClaim, user)},
        "templates": {(row.uid, row.team) for row in unmanaged_objects(ResourceClaimTemplate, user)},
        "use": set(unmanaged_use_claims(teams).values_list("uid", flat=True)),
    }


def plain_lists(user, teams):
    """Return the same without stored results: readers compare what is not compared with all claims."""
    with transaction.atomic():
        for model in KINDS:
            model.objects.update(ownership=Ownership.NOT_COMPARED)
        plain = lists(user, teams)
        transaction.set_rollback(True)
    return plain


@pytest.mark.parametrize("seed", range(2))
def test_random_changes_leave_rows_that_equal_the_plain_query(vision, fra, train, alice, root, seed):
    chance = Random(seed)
    audio = make_team("audio")
    osl = make_cluster("osl-1", teams=(vision,))
    TeamNamespace.objects.create(team=audio, cluster=fra, namespace="audio")
    watches = {cluster.pk: Watch(cluster) for cluster in (fra, osl)}
    live: list[Claim] = []
    for step in range(40):
        named = chance.choice([*live, *live, None])
        match chance.choice([*["claim"] * 2, "end", *["write"] * 5, "delete"]):
            case "claim":
                team, cluster = chance.choice([*[(vision, fra)] * 3, (vision, osl), (audio, fra)])
                fields = {"name": f"own-{step}", "delivery": chance.choice(Delivery.values), "held": False}
                uid = f"uid-{chance.randrange(4)}" if chance.random() < 0.6 else ""
                claim = owned(team, cluster, train, by=alice, object_uid=uid, **fields)
                claim.record_creation(why="Made.", by=alice)
                live.append(claim)
            case "end" if named:
                leaving = named.state == ClaimState.RELEASING
                named.advance(ClaimState.RELEASED if leaving else ClaimState.RELEASING, why="Over.")
            case kind:
                place = (named.cluster_id, named.namespace) if named else (fra.pk, "vision")
                if chance.random() < 0.2:
                    place = chance.choice([fra, osl]).pk, chance.choice(["vision", "audio", "kube-system"])
                watches[place[0]].write(
                    f"uid-{chance.randrange(4)}",
                    named.name if named and chance.random() < 0.4 else f"by-hand-{step}",
                    model=chance.choice([ResourceClaim, ResourceClaim, ResourceClaimTemplate]),
                    namespace=place[1],
                    label=named.pk if named and chance.random() < 0.7 else "",
                    type="DELETED" if kind == "delete" else "MODIFIED",
                )
        live = [claim for claim in live if not claim.is_final]
        assert lists(root, [vision.pk, audio.pk]) == plain_lists(root, [vision.pk, audio.pk]), step
        assert lists(alice, [vision.pk]) == plain_lists(alice, [vision.pk]), step
    assert ownership.find_differences().total == 0


# Repair.


@pytest.fixture
def three(watch, vision, fra, train):
    claim = owned(vision, fra, train, name="own", delivery=Delivery.TEMPLATE)
    rows = [watch.write("uid-1", "own", label=claim.pk), watch.write("uid-2", "by-hand")]
    return [*rows, watch.write("uid-3", "own", label=claim.pk, model=ResourceClaimTemplate)]


def break_rows(rows: list[Owned]) -> None:
    for row, value in zip(rows, (Ownership.NOT_COMPARED, MANAGED, UNMANAGED), strict=True):
        type(row).objects.filter(pk=row.pk).update(ownership=value)


def test_recompute_repairs_missing_and_altered_rows(three, monkeypatch):
    monkeypatch.setattr(ownership, "SLICE", 1)
    assert recompute("ownership") == "ownership: 3 objects, 0 rows repaired.\n"
    break_rows(three)
    assert failed_check("ownership") == "ownership: 3 objects, 3 rows to repair: 1 missing, 2 altered.\n"
    assert [stored(row) for row in three] == [Ownership.NOT_COMPARED, MANAGED, UNMANAGED]
    assert recompute("ownership") == "ownership: 3 objects, 3 rows repaired: 1 missing, 2 altered.\n"
    assert [stored(row) for row in three] == [MANAGED, UNMANAGED, MANAGED]
    assert recompute("ownership", "--check") == "ownership: 3 objects, 0 rows to repair.\n"


def test_periodic_task_repairs_ownership(three):
    break_rows(three)
    tasks.repair_ownership()
    assert [stored(row) for row in three] == [MANAGED, UNMANAGED, MANAGED]


def test_repair_leaves_what_the_sync_has_written_meanwhile(three, watch, monkeypatch):
    break_rows(three)
    plain = ownership.ownerships

    def late(cluster_id, objects):
        result = plain(cluster_id, objects)
        if any(item.uid == "uid-2" for item in objects):
            ResourceClaim.objects.filter(uid="uid-2").update(revision=10**6)
        return result

    monkeypatch.setattr(ownership, "ownerships", late)
    ownership.refresh()
    assert stored(three[1]) == MANAGED  # as the sync left it
