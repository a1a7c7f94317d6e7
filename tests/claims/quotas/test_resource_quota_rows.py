"""Every column of a written quota after each look, who is told, and what is looked at in which cluster."""

from contextlib import contextmanager
from datetime import timedelta

import pytest
import time_machine
from django.urls import reverse
from django.utils import timezone

from claims.models import Delivery, Quota, TeamNamespace, WrittenQuota
from claims.quotas import resource_quota, resource_quota_rounds, tasks
from claims.states import ClaimState
from claims.tasks import maintain_quotas
from cluster.protocol import NAMESPACE, RESOURCE_QUOTA, ClusterConflict, Refused, Unreachable
from inventory.models import Cluster, DeviceClass, ResourceClaimTemplate
from notify.models import Notice
from tests.claims.quotas.test_quota_usage import make_unmanaged
from tests.claims.quotas.test_quotas_across_clusters import Two
from tests.factories import GPU_CLASS, make_claim, make_cluster, make_quota, make_team, make_user

pytestmark = pytest.mark.django_db
DEVICES = f"{GPU_CLASS}.deviceclass.resource.k8s.io/devices"
IMPLICIT = f"requests.deviceclass.resource.kubernetes.io/{GPU_CLASS}"
MIG = "mig.nvidia.com"
HOUR, MINUTE, SECOND = timedelta(hours=1), timedelta(minutes=1), timedelta(seconds=1)
HARD = {DEVICES: "8", IMPLICIT: "8"}


@pytest.fixture(autouse=True)
def clock():
    """The clock stands still until a test shifts it."""
    with time_machine.travel(timezone.now().replace(hour=10, microsecond=0), tick=False) as traveller:
        yield traveller


@pytest.fixture
def place(gateway, fra, vision):
    """Vision's namespace in `fra`, which keeps quotas."""
    Cluster.objects.filter(pk=fra.pk).update(write_quotas=True)
    fra.refresh_from_db()
    return TeamNamespace.objects.select_related("team", "cluster").get(team=vision)


@pytest.fixture
def look(place, gateway, monkeypatch):
    """Look at all quotas, as beat does every minute."""

    @contextmanager
    def connected(cluster):
        yield gateway

    monkeypatch.setattr("claims.quotas.resource_quota_rounds.gateway_for", connected)
    return maintain_quotas


@pytest.fixture
def osl(vision):
    return make_cluster("osl-1", teams=(vision,))


@pytest.fixture
def two(fra, osl, monkeypatch):
    for cluster in (fra, osl):
        cluster.write_quotas = True
        cluster.save(update_fields=["write_quotas"])
    world = Two()
    monkeypatch.setattr("claims.quotas.resource_quota_rounds.gateway_for", world.connected)
    return world


def row_of(place):
    (row,) = WrittenQuota.objects.filter(team_namespace=place).values()
    return {name: value for name, value in row.items() if name not in ("id", "team_namespace_id")}


def rewrite(gateway, hard, namespace="vision"):
    found = gateway.get(RESOURCE_QUOTA, "dragoman", namespace=namespace)
    found["spec"]["hard"] = hard
    gateway.put(RESOURCE_QUOTA, found)


def told():
    rows = Notice.objects.order_by("user__username", "created_at", "pk")
    return list(rows.values_list("user__username", "title", "body", "url", "important"))


def use(gateway, used, namespace="vision"):
    """Let the quota controller count."""
    found = gateway.get(RESOURCE_QUOTA, "dragoman", namespace=namespace)
    found["status"] = {"hard": found["spec"]["hard"], "used": used}
    gateway.put(RESOURCE_QUOTA, found)


def test_each_look_writes_every_column_of_the_row(look, place, gateway, quota, root, clock):
    begun = timezone.now()
    look()
    row = {
        "hard": HARD,
        "observed_hard": HARD,
        "observed_used": {},
        "drift": "",
        "problem": "",
        "written_at": begun,
        "checked_at": begun,
        "repaired_at": None,
    }
    assert row_of(place) == row
    # Nothing has changed: it is only looked at.
    use(gateway, {DEVICES: "3"})
    clock.shift(MINUTE)
    look()
    row |= {"checked_at": begun + MINUTE, "observed_used": {DEVICES: "3"}}
    assert row_of(place) == row
    # Somebody changes it: that is said and put right.
    rewrite(gateway, HARD | {DEVICES: "100"})
    clock.shift(MINUTE)
    look()
    row |= {
        "drift": f"Somebody changed {DEVICES} from 8 to 100.",
        **dict.fromkeys(("written_at", "repaired_at", "checked_at"), begun + 2 * MINUTE),
    }
    assert row_of(place) == row
    # What was changed last stays to be read; a new limit is no repair.
    Quota.objects.update(devices=9)
    clock.shift(MINUTE)
    look()
    new = HARD | {DEVICES: "9", IMPLICIT: "9"}
    row |= {
        "hard": new,
        "observed_hard": new,
        **dict.fromkeys(("written_at", "checked_at"), begun + 3 * MINUTE),
    }
    assert row_of(place) == row
    # The second change is said in place of the first.
    rewrite(gateway, {DEVICES: "9"})
    clock.shift(MINUTE)
    look()
    row |= {
        "drift": f"Somebody changed {IMPLICIT} from 9 to nothing.",
        **dict.fromkeys(("written_at", "repaired_at", "checked_at"), begun + 4 * MINUTE),
    }
    assert row_of(place) == row
    gateway.remove(RESOURCE_QUOTA, "dragoman", namespace="vision")
    clock.shift(MINUTE)
    look()
    row |= {
        "drift": "Somebody deleted the ResourceQuota.",
        "observed_used": {},
        **dict.fromkeys(("written_at", "repaired_at", "checked_at"), begun + 5 * MINUTE),
    }
    assert row_of(place) == row


def test_what_cannot_be_put_right_is_said_with_its_problem_until_it_is(
    look, place, gateway, quota, root, clock
):
    look()
    row = row_of(place)
    rewrite(gateway, HARD | {DEVICES: "100"})
    gateway.denied.add(("patch", "resourcequotas"))
    clock.shift(MINUTE)
    look()
    drift = f"Somebody changed {DEVICES} from 8 to 100."
    problem = row_of(place)["problem"]
    assert problem.startswith("fra-1: ")
    assert row_of(place) == row | {"drift": drift, "problem": problem, "checked_at": timezone.now()}
    assert told() == []
    gateway.denied.clear()
    clock.shift(MINUTE)
    look()
    now = timezone.now()
    assert row_of(place) == row | {"drift": drift, "written_at": now, "repaired_at": now, "checked_at": now}
    assert len(told()) == 1


def test_active_platform_admins_hear_of_a_change_once_a_day(look, gateway, quota, root, lena, clock):
    make_user("ada", admin=True)
    make_user("former", admin=True, is_active=False)
    look()
    for devices in ("100", "200"):
        rewrite(gateway, HARD | {DEVICES: devices})
        clock.shift(MINUTE)
        look()
    notice = (
        "The quota of vision in fra-1 was changed outside the portal",
        f"Somebody changed {DEVICES} from 8 to 100. The portal repaired it.",
        reverse("claims:cluster_quotas", args=["fra-1"]),
        False,
    )
    assert told() == [("ada", *notice), ("root", *notice)]
    make_user("new", admin=True)
    Quota.objects.update(devices=9)
    clock.shift(MINUTE)
    look()
    assert "new" not in [who for who, *_ in told()]  # what was put right earlier is no news


def test_changes_in_two_namespaces_of_one_day_are_told_both(look, gateway, fra, quota, root):
    TeamNamespace.objects.create(team=make_team("nlp"), cluster=fra, namespace="nlp")
    make_quota(make_team("nlp"), 8)
    gateway.put(NAMESPACE, {"metadata": {"name": "nlp"}})
    look()
    for namespace in ("vision", "nlp"):
        rewrite(gateway, HARD | {DEVICES: "100"}, namespace)
    look()
    assert sorted(title for _who, title, *_ in told()) == [
        "The quota of nlp in fra-1 was changed outside the portal",
        "The quota of vision in fra-1 was changed outside the portal",
    ]


@pytest.mark.parametrize(("changed", "more"), [(3, False), (4, True)])
def test_three_changed_lines_are_named_and_of_more_that_there_are(
    look, place, gateway, fra, quota, changed, more
):
    make_quota(place.team, 4, device_class=MIG)
    look()
    hard = row_of(place)["hard"]
    assert len(hard) == 4
    rewrite(gateway, hard | dict.fromkeys(list(hard)[:changed], "99"))
    look()
    named = ", ".join(f"{key} from {hard[key]} to 99" for key in list(hard)[:3])
    assert row_of(place)["drift"] == f"Somebody changed {named}{', …' if more else '.'}"


def test_an_object_of_somebody_else_is_left_alone_unless_it_was_the_portals(look, place, gateway, quota):
    other = {"metadata": {"name": "dragoman", "namespace": "vision"}, "spec": {"hard": {"pods": "3"}}}
    gateway.put(RESOURCE_QUOTA, other)
    look()
    now = timezone.now()
    assert row_of(place) == {
        "hard": HARD,
        "observed_hard": {},
        "observed_used": {},
        "drift": "",
        "problem": "vision has a ResourceQuota “dragoman” that is not the portal's. It is left alone; "
        "rename it, or give it the label gpu.dragoman.dev/quota=team.",
        "written_at": None,
        "checked_at": now,
        "repaired_at": None,
    }
    gateway.remove(RESOURCE_QUOTA, "dragoman", namespace="vision")
    look()
    found = gateway.get(RESOURCE_QUOTA, "dragoman", namespace="vision")
    found["metadata"]["labels"] = {}
    gateway.put(RESOURCE_QUOTA, found)
    look()
    found = gateway.get(RESOURCE_QUOTA, "dragoman", namespace="vision")
    assert found["metadata"]["labels"]["gpu.dragoman.dev/quota"] == "team"


def test_the_object_says_whose_it_is_and_what_was_written(place, quota):
    assert resource_quota.manifest_for(place, {"a": "1"}) == {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {
            "name": "dragoman",
            "namespace": "vision",
            "labels": {"gpu.dragoman.dev/quota": "team", "gpu.dragoman.dev/team": "vision"},
            "annotations": {"gpu.dragoman.dev/written": '{"a": "1"}'},
        },
        "spec": {"hard": {"a": "1"}},
    }


@pytest.mark.parametrize(("last", "stands"), [(22, "21"), (99, "24")])
def test_what_is_noted_while_it_is_written_is_written_too(place, gateway, quota, monkeypatch, last, stands):
    """Each time somebody notes a newer limit it is written again, and at most five times more."""
    apply, limits = gateway.apply, iter(range(20, 99))

    def meanwhile(*args, **kwargs):
        done = apply(*args, **kwargs)
        if (limit := next(limits)) < last:
            WrittenQuota.objects.update(hard={DEVICES: str(limit)})
        return done

    monkeypatch.setattr(gateway, "apply", meanwhile)
    row = resource_quota.ensure(place, gateway)
    found = gateway.get(RESOURCE_QUOTA, "dragoman", namespace="vision")
    assert found["spec"]["hard"][DEVICES] == row.observed_hard[DEVICES] == stands


# What the lines say.


def test_classes_and_their_extended_names_are_those_of_the_cluster(place, fra, osl, vision, quota):
    make_quota(vision, 3, device_class=MIG)
    known = [
        (fra, GPU_CLASS, "nvidia.com/gpu", None),
        (fra, MIG, "nvidia.com/gpu", None),
        (fra, "gone.example.com", "example.com/gone", timezone.now()),
        (osl, "elsewhere.example.com", "nvidia.com/gpu", None),
    ]
    for cluster, name, extended, gone in known:
        DeviceClass.objects.create(
            cluster=cluster, uid=name, name=name, extended_resource=extended, gone_at=gone
        )
    assert resource_quota.hard_limits(place) == {
        DEVICES: "8",
        IMPLICIT: "8",
        f"{MIG}.deviceclass.resource.k8s.io/devices": "3",
        f"requests.deviceclass.resource.kubernetes.io/{MIG}": "3",
        "requests.nvidia.com/gpu": "11",
    }


def test_the_lines_of_two_teams_in_two_clusters_are_their_own(place, fra, osl, vision, quota):
    nlp = make_team("nlp")
    theirs = TeamNamespace.objects.create(team=nlp, cluster=osl, namespace="nlp")
    make_quota(nlp, 5)
    Quota.objects.create(team=nlp, counts="claims", devices=2)
    make_claim(nlp, cluster=osl, devices=2, state=ClaimState.ALLOCATED)
    make_unmanaged(osl, "by-hand", 1, namespace="nlp")
    assert resource_quota.hard_limits_by_namespace([place, theirs]) == {
        place.pk: HARD,
        theirs.pk: {
            DEVICES: "5",
            IMPLICIT: "5",
            "count/resourceclaims.resource.k8s.io": "2",
            "count/resourceclaimtemplates.resource.k8s.io": "2",
        },
    }


def test_templates_of_others_have_room_in_their_own_namespace(place, fra, osl, vision, quota):
    Quota.objects.create(team=vision, counts="claims", devices=0)
    rows = [
        (fra, "vision", ""),
        (fra, "vision", ""),
        (fra, "vision", "own-claim"),
        (fra, "elsewhere", ""),
        (osl, "vision", ""),
    ]
    for number, (cluster, namespace, owner) in enumerate(rows):
        names = {"uid": f"t{number}", "name": f"t{number}", "owner": owner}
        ResourceClaimTemplate.objects.create(cluster=cluster, namespace=namespace, raw={}, **names)
    make_claim(vision, cluster=fra, state=ClaimState.APPROVED, delivery=Delivery.TEMPLATE, parallel=1)
    make_claim(vision, cluster=fra, state=ClaimState.APPROVED)
    (room,) = resource_quota.headrooms([place]).values()
    assert (room.claims, room.templates) == (2, 3)


# Taking it away.


def test_an_object_that_is_not_the_portals_stays_and_its_row_goes(place, gateway):
    other = {"metadata": {"name": "dragoman", "namespace": "vision"}, "spec": {"hard": {"pods": "3"}}}
    gateway.put(RESOURCE_QUOTA, other)
    resource_quota.remove(WrittenQuota.objects.create(team_namespace=place), gateway)
    assert gateway.get(RESOURCE_QUOTA, "dragoman", namespace="vision")["spec"] == other["spec"]
    assert not WrittenQuota.objects.exists()


@pytest.mark.parametrize("what", ["replaced", "refused", "unreachable"])
def test_what_could_not_be_taken_away_keeps_its_row_and_says_why(look, place, gateway, quota, clock, what):
    look()
    before = row_of(place)
    row = WrittenQuota.objects.select_related("team_namespace__cluster").get()
    errors = {
        "replaced": ClusterConflict("replaced"),
        "refused": Refused("may not"),
        "unreachable": Unreachable("no answer"),
    }
    clock.shift(MINUTE)
    gateway.fail(errors[what])
    if what == "unreachable":
        with pytest.raises(Unreachable):
            resource_quota.remove(row, gateway)
    else:
        resource_quota.remove(row, gateway)
    said = {"refused": "fra-1: may not", "unreachable": "fra-1: no answer"}
    noted = {"problem": said[what], "checked_at": timezone.now()} if what in said else {}
    assert row_of(place) == before | noted
    resource_quota.remove(row, gateway)
    assert gateway.get(RESOURCE_QUOTA, "dragoman", namespace="vision") is None
    assert not WrittenQuota.objects.exists()


def test_an_object_that_was_replaced_between_look_and_deletion_stays(
    look, place, gateway, quota, monkeypatch
):
    look()
    get = gateway.get

    def replaced_after(*args, **kwargs):
        found = get(*args, **kwargs)
        gateway.remove(RESOURCE_QUOTA, "dragoman", namespace="vision")
        gateway.put(RESOURCE_QUOTA, {**found, "metadata": {**found["metadata"], "uid": "another"}})
        return found

    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(gateway, "get", replaced_after)
        resource_quota.remove(WrittenQuota.objects.select_related("team_namespace__cluster").get(), gateway)
    assert get(RESOURCE_QUOTA, "dragoman", namespace="vision")["metadata"]["uid"] == "another"
    assert WrittenQuota.objects.count() == 1


def test_of_namespaces_without_a_team_only_the_portals_own_object_is_deleted(look, gateway, quota, fra, osl):
    label = {"gpu.dragoman.dev/quota": "team"}
    TeamNamespace.objects.filter(cluster=osl).delete()
    TeamNamespace.objects.create(team=make_team("nlp"), cluster=osl, namespace="left")  # not in `fra`
    for namespace, name, labels in (
        ("left", "dragoman", label),
        ("left", "own", label),
        ("gone", "dragoman", label),
        ("gone", "other", {}),
        ("plain", "dragoman", {}),
    ):
        gateway.put(NAMESPACE, {"metadata": {"name": namespace}})
        metadata = {"name": name, "namespace": namespace, "labels": labels}
        gateway.put(RESOURCE_QUOTA, {"metadata": metadata, "spec": {"hard": {}}})
    look()
    pages = gateway.list(RESOURCE_QUOTA)
    left = {
        (item["metadata"]["namespace"], item["metadata"]["name"]) for page in pages for item in page.items
    }
    assert left == {("left", "own"), ("gone", "other"), ("plain", "dragoman"), ("vision", "dragoman")}


# Pure comparisons.


@pytest.mark.parametrize(
    ("metadata", "ours", "said"),
    [
        ({}, False, {}),
        ({"labels": None, "annotations": None}, False, {}),
        ({"labels": {"gpu.dragoman.dev/quota": "other"}}, False, {}),
        ({"labels": {"gpu.dragoman.dev/quota": "team"}}, True, {}),
        ({"annotations": {"gpu.dragoman.dev/written": '{"a": 1}'}}, False, {"a": "1"}),
        ({"annotations": {"gpu.dragoman.dev/written": "{"}}, False, {}),
        ({"annotations": {"gpu.dragoman.dev/written": "[1]"}}, False, {}),
    ],
)
def test_an_object_tells_whether_it_is_the_portals_and_what_was_written(metadata, ours, said):
    found = {"metadata": metadata}
    assert (resource_quota.is_ours(found), resource_quota.written_limits(found)) == (ours, said)


@pytest.mark.parametrize(
    ("found", "part", "differs"),
    [
        ({}, "spec", {"a": "", "b": ""}),
        ({"spec": {"hard": {"a": "1000", "b": "2"}}}, "spec", {}),
        ({"spec": {"hard": {"a": "1k", "b": "2", "c": "9"}}}, "spec", {}),
        ({"spec": {"hard": {"a": "1k", "b": "3"}}}, "spec", {"b": "3"}),
        ({"spec": {"hard": {"a": "some", "b": "2"}}}, "spec", {"a": "some"}),
        ({"spec": {"hard": {"a": "1k", "b": "2"}}, "status": {"hard": {"a": "1k"}}}, "status", {"b": ""}),
    ],
)
def test_lines_differ_by_amount_and_not_by_spelling(found, part, differs):
    assert resource_quota.differing_limits(found, {"a": "1k", "b": "2"}, part) == differs


@pytest.mark.parametrize(
    ("row", "noted", "rising"),
    [
        (None, False, True),
        ({"hard": {"a": "2"}, "observed_hard": {"a": "2"}}, True, False),
        ({"hard": {"a": "2"}, "observed_hard": {"a": "2", "pods": "1"}}, True, False),
        ({"hard": {"a": "2"}, "observed_hard": {"a": "3"}}, False, False),
        ({"hard": {"a": "2"}, "observed_hard": {}}, False, False),
        ({"hard": {"a": "2"}, "observed_hard": {"a": "2"}, "problem": "no answer"}, False, False),
        ({"hard": {"a": "1"}, "observed_hard": {"a": "2"}}, False, True),
        ({"hard": {"a": "3"}, "observed_hard": {"a": "2"}}, False, False),
        ({"hard": {"b": "3"}, "observed_hard": {"a": "2"}}, False, True),
    ],
)
def test_a_row_tells_whether_it_stands_so_and_whether_it_rises(row, noted, rising):
    found = WrittenQuota(**row) if row else None
    hard = {"a": "2"}
    assert (resource_quota.is_current(found, hard), resource_quota.raises_a_limit(found, hard)) == (
        noted,
        rising,
    )


# Which are looked at.


def places(**named):
    return {
        (row.team_namespace.cluster.name, row.team_namespace.team.slug): (row.hard.get(DEVICES), row.problem)
        for row in WrittenQuota.objects.filter(**named).select_related(
            "team_namespace__cluster", "team_namespace__team"
        )
    }


def test_a_changed_team_is_written_in_the_clusters_that_keep_quotas_and_no_other_team(two, vision, quota):
    make_cluster("sto-1", teams=(vision,))
    make_cluster("fra-1", teams=(make_team("nlp"),))
    make_quota(make_team("nlp"), 3)
    resource_quota_rounds.write_teams([vision.pk])
    assert places() == {("fra-1", "vision"): ("8", ""), ("osl-1", "vision"): ("8", "")}
    two.order.clear()
    resource_quota_rounds.write_teams([vision.pk])
    assert two.order == []  # it says so already


@pytest.mark.parametrize("down", ["fra-1", "osl-1"])
def test_a_cluster_without_a_connection_holds_up_no_other_in_two_sweeps(two, vision, quota, down):
    """And only its own row says so."""
    other = {"fra-1": "osl-1", "osl-1": "fra-1"}[down]
    two.gateways[other].put(NAMESPACE, {"metadata": {"name": "nlp"}})
    resource_quota_rounds.write_all()
    two.down = {down}
    for devices in (5, 6):
        Quota.objects.update(devices=devices)
        resource_quota_rounds.write_all()
        assert {name: said for (name, _), (_, said) in places().items()} == {
            down: f"{down}: no answer",
            other: "",
        }
        assert two.hard(other) == devices
    two.down = set()
    resource_quota_rounds.write_all()
    assert {said for _, said in places().values()} == {""}
    assert (two.hard("fra-1"), two.hard("osl-1")) == (6, 6)


@pytest.mark.parametrize("down", ["fra-1", "osl-1"])
def test_a_changed_limit_reaches_the_other_cluster_though_one_is_down(two, vision, quota, down):
    nlp = make_team("nlp")
    make_cluster(down, teams=(nlp,))
    two.gateways[down].put(NAMESPACE, {"metadata": {"name": "nlp"}})
    make_quota(nlp, 3)
    resource_quota_rounds.write_all()
    two.down = {down}
    Quota.objects.filter(team=vision).update(devices=5)
    resource_quota_rounds.write_teams([vision.pk])
    other = {"fra-1": "osl-1", "osl-1": "fra-1"}[down]
    assert places() == {
        (other, "vision"): ("5", ""),
        (down, "vision"): ("8", f"{down}: no answer"),
        (down, "nlp"): ("3", ""),
    }


@pytest.mark.parametrize(
    "state", [{"read_only": True}, {"enabled": False}, {"halt_reason": "another cluster"}]
)
def test_no_way_to_write_a_quota_leads_to_a_cluster_that_may_not_be_written_to(
    two, vision, osl, quota, state
):
    Cluster.objects.filter(pk=osl.pk).update(**state)
    resource_quota_rounds.write_teams([vision.pk])
    tasks.write_cluster(str(osl.pk))
    resource_quota_rounds.write_all()
    assert set(two.order) == {"fra-1"}
    assert set(places()) == {("fra-1", "vision")}


def test_a_look_at_one_cluster_is_none_at_others_and_an_unknown_one_is_nothing(two, fra, osl, vision, quota):
    tasks.write_cluster(str(osl.pk))
    tasks.write_cluster(str(vision.pk))
    assert two.order == ["osl-1"]
    assert set(places()) == {("osl-1", "vision")}


def test_a_cluster_that_kept_quotas_is_tidied_and_one_that_never_did_is_not_asked(two, fra, osl, quota):
    resource_quota_rounds.write_all()
    Cluster.objects.update(write_quotas=False)
    make_cluster("sto-1")
    two.order.clear()
    resource_quota_rounds.write_all()
    assert sorted(two.order) == ["fra-1", "osl-1"]
    two.order.clear()
    resource_quota_rounds.write_all()
    assert two.order == []


def test_a_cluster_that_stops_keeps_the_quotas_of_the_other(two, fra, quota):
    resource_quota_rounds.write_all()
    Cluster.objects.filter(pk=fra.pk).update(write_quotas=False)
    resource_quota_rounds.write_all()
    assert two.gateways["fra-1"].get(RESOURCE_QUOTA, "dragoman", namespace="vision") is None
    assert two.hard("osl-1") == 8
    assert set(places()) == {("osl-1", "vision")}


def test_of_changed_objects_the_team_of_their_namespace_in_that_cluster_is_written(two, fra, osl, vision):
    """Vision's namespace of `fra` is another team's in `osl`."""
    nlp, speech = make_team("nlp"), make_team("speech")
    TeamNamespace.objects.filter(cluster=osl).delete()
    TeamNamespace.objects.create(team=nlp, cluster=osl, namespace="vision")
    TeamNamespace.objects.create(team=speech, cluster=fra, namespace="speech")
    for team in (vision, nlp, speech):
        make_quota(team, 8)
    resource_quota_rounds.write_changed(fra.pk, {"vision", "unknown"})
    assert set(places()) == {("fra-1", "vision")}


# Around a delivery.


def test_before_a_delivery_the_teams_other_clusters_come_first_then_its_own_place(two, fra, vision, quota):
    make_cluster("osl-1", teams=(make_team("nlp"),))
    make_quota(make_team("nlp"), 3)
    claim = make_claim(vision, cluster=fra, devices=2, state=ClaimState.APPROVED)
    resource_quota_rounds.before_delivery(claim, two.gateways["fra-1"])
    assert places() == {("osl-1", "vision"): ("6", ""), ("fra-1", "vision"): ("8", "")}
    two.gateways["fra-1"].calls.clear()
    two.order.clear()
    resource_quota_rounds.before_delivery(claim, two.gateways["fra-1"])
    assert (two.order, two.gateways["fra-1"].calls) == ([], [])


@pytest.mark.parametrize("why", ["left", "switched off"])
def test_a_claim_in_a_place_without_a_quota_has_none_written_for_it(two, fra, vision, quota, why):
    claim = make_claim(vision, cluster=fra, devices=2, state=ClaimState.APPROVED)
    if why == "left":
        TeamNamespace.objects.filter(cluster=fra).update(namespace="new")
    else:
        Cluster.objects.filter(pk=fra.pk).update(write_quotas=False)
    claim.refresh_from_db()
    resource_quota_rounds.before_delivery(claim, two.gateways["fra-1"])
    assert set(places()) == {("osl-1", "vision")}
    refusal = Refused("exceeded quota: dragoman, requested: 1")
    assert resource_quota_rounds.may_count_old_limit(claim, two.gateways["fra-1"], refusal) is False


@pytest.mark.parametrize(
    ("waited", "written", "status", "behind"),
    [
        # since the approval, since the last writing, whether Kubernetes counts by the limit that stands there
        (MINUTE - SECOND, HOUR, True, True),
        (MINUTE, HOUR, True, False),
        (HOUR, MINUTE - SECOND, True, True),
        (HOUR, MINUTE, True, False),
        (HOUR, None, True, False),
        (HOUR, HOUR, False, True),
    ],
)
def test_a_refusal_by_quota_is_believed_once_the_cluster_counts_by_what_stands_there(
    look, place, gateway, fra, vision, quota, waited, written, status, behind
):
    look()
    now = timezone.now()
    WrittenQuota.objects.update(written_at=now - written if written else None)
    found = gateway.get(RESOURCE_QUOTA, "dragoman", namespace="vision")
    found["status"] = {"hard": HARD if status else HARD | {DEVICES: "7"}}
    gateway.put(RESOURCE_QUOTA, found)
    claim = make_claim(vision, cluster=fra, state=ClaimState.APPROVED)
    claim.state_since = now - waited

    def told_by(sentence):
        return resource_quota_rounds.may_count_old_limit(claim, gateway, Refused(sentence))

    assert told_by("exceeded quota: dragoman, requested: 1") is behind
    assert told_by("exceeded quota: own, requested: 1") is False
    found["metadata"]["labels"] = {}
    gateway.put(RESOURCE_QUOTA, found)
    soon = min(waited, written or HOUR) < MINUTE
    assert told_by("exceeded quota: dragoman, requested: 1") is soon
    gateway.remove(RESOURCE_QUOTA, "dragoman", namespace="vision")
    assert told_by("exceeded quota: dragoman, requested: 1") is soon
