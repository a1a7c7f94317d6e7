"""Rows of what clusters have for profiles: when they are computed, and whether they are right."""

from random import Random

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from claims import tasks as periodic
from claims.catalogue import availability, services, tasks
from claims.catalogue.lint import catalogue_report, check_catalogue, named_spec, report_as_json
from claims.catalogue.listing import catalogue
from claims.models import ClusterAvailability, Profile, ProfileAvailability
from cluster.protocol import DEVICE_CLASS, DEVICE_TAINT_RULE_VERSIONS, NODE, RESOURCE_CLAIM, RESOURCE_SLICE
from dra import match
from dra.cluster_snapshot import ClusterSnapshot
from dra.features import Features
from dra.lint import LintCode, lint
from dra.manifests import with_count
from dra.quota import devices
from inventory import cluster_snapshot
from inventory.models import Cluster
from inventory.sync.list_watch import sync_once
from tests.dra.clusters import PCIE, device_class, gpu, holds, node, resource_slice
from tests.factories import make_cluster, make_profile, make_spec, save_profile
from tests.fakes import FakeGateway
from tests.recomputed import failed_check, recompute

pytestmark = pytest.mark.django_db

TAINT_RULE = DEVICE_TAINT_RULE_VERSIONS[0]
NODES = ("node-a", "node-b", "node-c")
MEMORY = 'device.capacity["gpu.nvidia.com"].?memory.orValue(quantity("0")).compareTo(quantity("{}")) >= 0'


@pytest.fixture
def at_once(monkeypatch, django_capture_on_commit_callbacks):
    """Run what the block commits, and every queued computation without a pause."""
    monkeypatch.setattr(tasks, "PAUSE", 0.0)
    return lambda: django_capture_on_commit_callbacks(execute=True)


@pytest.fixture
def fleet(fra, at_once):
    """Two nodes with two and three H100."""
    gateway = FakeGateway()
    Cluster.objects.filter(pk=fra.pk).update(uid=gateway.identity())
    gateway.put(DEVICE_CLASS, device_class())
    for name, gpus in (("node-a", 2), ("node-b", 3)):
        gateway.put(NODE, node(name))
        gateway.put(RESOURCE_SLICE, resource_slice(name, [gpu(number) for number in range(gpus)]))
    with at_once():
        sync_once(fra, gateway)
    return gateway


def selecting(least, **more):
    return make_spec(selectors=[{"cel": {"expression": MEMORY.format(least)}}], **more)


def figures_of(profile):
    row = ProfileAvailability.objects.get(version=Profile.objects.get(pk=profile.pk).current_id)
    return row.matching, row.free, row.nodes, row.most


def plain_figures(snapshot, version):
    """Return the same from the snapshot, trying every number of devices."""
    preview = match.preview(snapshot, version.spec)
    if preview.reason == match.NoFitReason.NO_CLASS:
        return 0, 0, 0, 0
    if preview.matching is None or preview.reason == match.NoFitReason.SELECTOR_FAILS:
        return None, None, None, None
    most = None
    if "All" not in str(version.spec):
        specs = [version.spec]
        if version.scalable:
            counts = range(1, version.max_devices + 1)
            specs = [with_count(version.spec, version.scalable, count) for count in counts]
        fitting = [devices(spec) for spec in specs if match.preview(snapshot, spec).nodes_that_fit]
        most = max((count for count in fitting if count <= version.max_devices), default=0)
    return preview.matching, preview.free, preview.nodes_that_fit, most


def plain_snapshot(gateway):
    def objects(kind):
        return [row for page in gateway.list(kind) for row in page.items]

    classes, slices, claims = objects(DEVICE_CLASS), objects(RESOURCE_SLICE), objects(RESOURCE_CLAIM)
    return ClusterSnapshot(classes, slices, claims, objects(TAINT_RULE), objects(NODE))


def changed_rows(gateway):
    """Return the rows that differ from what `dra` says of the objects of the cluster; none are missing."""
    snapshot = plain_snapshot(gateway)
    profiles = list(Profile.objects.select_related("current"))
    wrong = {}
    for profile in profiles:
        expected = plain_figures(snapshot, profile.current)
        if (stored := figures_of(profile)) != expected:
            wrong[profile.slug] = (stored, expected)
    assert ProfileAvailability.objects.count() == len(profiles)
    return wrong


# When rows are computed.


def test_listed_cluster_is_counted_for_every_profile(fra, train, at_once):
    big = make_profile("big", spec=selecting("500Gi"), max_devices=2)
    unknown = make_profile("unknown", spec=make_spec(device_class="gpu.amd.com"))
    pair = make_profile("pair", spec=make_spec(2), scalable="")
    gateway = FakeGateway()
    Cluster.objects.filter(pk=fra.pk).update(uid=gateway.identity())
    gateway.put(DEVICE_CLASS, device_class())
    gateway.put(RESOURCE_SLICE, resource_slice("node-a", [gpu(0), gpu(1)]))
    gateway.put(RESOURCE_SLICE, resource_slice("node-b", [gpu(0), gpu(1), gpu(2)]))
    with at_once():
        sync_once(fra, gateway)
    assert [figures_of(profile) for profile in (train, pair, big, unknown)] == [
        (5, 5, 2, 3),
        (5, 5, 2, 2),
        (0, 0, 0, 0),
        (0, 0, 0, 0),
    ]
    head = ClusterAvailability.objects.get()
    assert (head.cluster, head.revision) == (fra, Cluster.objects.get(pk=fra.pk).revision)


def test_allocated_and_ended_claim_moves_free_devices(fra, train, fleet, at_once):
    small = make_profile("small", spec=selecting("40Gi"), max_devices=1)
    with at_once():
        fleet.put(RESOURCE_CLAIM, holds("gpu-0", "gpu-1", pool="node-b"))
        sync_once(fra, fleet)
    assert [figures_of(train), figures_of(small)] == [(5, 3, 2, 2), (5, 3, 2, 1)]
    with at_once():
        fleet.remove(RESOURCE_CLAIM, "theirs", namespace="vision")
        sync_once(fra, fleet)
    assert figures_of(train) == (5, 5, 2, 3)


def test_new_version_of_a_profile_is_counted(root, fleet, at_once):
    with at_once():
        version = save_profile(by=root, slug="extra", title="Extra", spec=selecting("40Gi"), max_devices=2)
    assert figures_of(version.profile) == (5, 5, 2, 1)
    with at_once():
        save_profile(
            by=root,
            profile=version.profile,
            slug="extra",
            title="Extra",
            spec=selecting("500Gi"),
            scalable="gpu",
        )
    assert figures_of(version.profile) == (0, 0, 0, 0)
    assert ProfileAvailability.objects.count() == 1


def test_saved_profile_is_unknown_until_it_is_counted(alice, fra, fleet, at_once, root):
    save_profile(by=root, slug="extra", title="Extra", spec=make_spec())
    (entry,) = catalogue(alice)
    assert (entry.free, entry.total, entry.nodes, entry.most, entry.computed_at) == (None,) * 5
    before = timezone.now()
    recompute("availability")
    (entry,) = catalogue(alice)
    assert (entry.free, entry.total, entry.nodes, entry.most) == (5, 5, 2, 1)
    assert before <= entry.computed_at <= timezone.now()


def test_entry_sums_the_clusters_of_the_reader(alice, vision, fra, train, fleet, at_once):
    make_cluster("of-others")
    with at_once():
        make_cluster("lab-2", teams=(vision,))
    (entry,) = catalogue(alice)
    assert (entry.free, entry.total, entry.nodes, entry.most) == (5, 5, 2, 3)
    make_cluster("not-counted", teams=(vision,))
    (entry,) = catalogue(alice)
    assert (entry.free, entry.total, entry.nodes, entry.most) == (None,) * 4


def test_retired_profile_is_not_checked_until_it_is_restored(fra, root, fleet, at_once):
    profile = make_profile("huge", spec=selecting("500Gi"), max_devices=1)
    make_profile("any", max_devices=1)

    def findings():
        return {finding.code for finding in catalogue_report().findings_for(profile)}

    with at_once():
        services.retire_profile(by=root, profile=profile)
    assert (findings(), figures_of(profile)) == (set(), (0, 0, 0, 0))
    with at_once():
        services.restore_profile(by=root, profile=profile)
    assert findings() == {LintCode.MATCHES_NOTHING}


def test_findings_of_an_older_version_are_not_shown(fra, root, fleet, at_once):
    profile = make_profile("huge", spec=selecting("500Gi"), max_devices=1)
    recompute("availability")
    assert catalogue_report().findings_for(profile)
    save_profile(by=root, profile=profile, slug="huge", title="Huge", spec=selecting("400Gi"))
    profile.refresh_from_db()
    assert catalogue_report().findings_for(profile) == []
    assert check_catalogue().findings_for(profile)


def test_stored_check_says_what_the_check_says_now(fra, fleet, at_once):
    make_profile("huge", spec=selecting("500Gi"), max_devices=1)
    make_profile("rounded", spec=selecting("80Gi"), max_devices=1)
    recompute("availability")
    stored, now = catalogue_report(), check_catalogue()
    assert (stored.findings, stored.profiles, stored.checked) == (now.findings, now.profiles, now.checked)
    assert any(finding.fix for finding in stored.findings)
    assert stored.computed_at == ClusterAvailability.objects.get().computed_at


def test_new_kubernetes_version_is_counted_by_the_repair(fra, train, fleet, at_once):
    shared = gpu(9, memory="100Gi", allowMultipleAllocations=True)
    with at_once():
        fleet.put(RESOURCE_SLICE, resource_slice("node-c", [shared]))
        sync_once(fra, fleet)
    assert figures_of(train)[0] == 6
    older = "v1.34.0"
    Cluster.objects.filter(pk=fra.pk).update(version=older)
    periodic.repair_availability()
    assert availability.find_differences().total == 0
    used = Features.of_switches({"ConsumableCapacity": True})  # by a slice
    assert cluster_snapshot.current_snapshot(fra).features == cluster_snapshot.cluster_features(older) | used


# Which computations are done.


def test_changes_during_the_pause_queue_one_computation(fra, monkeypatch):
    sent, clock = [], [100.0]
    monkeypatch.setattr(tasks.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(tasks, "_due", {})
    monkeypatch.setattr(tasks.refresh_availability, "apply_async", lambda *args, **how: sent.append(how))
    for seconds, kind in ((0, "ResourceClaim"), (1, "Node"), (4.9, "ResourceSlice"), (5, "Pod"), (5, "Node")):
        clock[0] = 100 + seconds
        tasks.mirror_has_changed(fra.pk, kind)
    assert [how["countdown"] for how in sent] == [tasks.PAUSE] * 2


def test_broker_that_is_down_does_not_swallow_the_next_change(fra, monkeypatch):
    def down(*args, **how):
        raise ConnectionError

    monkeypatch.setattr(tasks, "_due", {})
    monkeypatch.setattr(tasks.refresh_availability, "apply_async", down)
    with pytest.raises(ConnectionError):
        tasks.mirror_has_changed(fra.pk, "Node")
    sent = []
    monkeypatch.setattr(tasks.refresh_availability, "apply_async", lambda *args, **how: sent.append(args))
    tasks.mirror_has_changed(fra.pk, "Node")
    assert len(sent) == 1


def test_unchanged_cluster_is_not_computed_again(fra, train, fleet, at_once, monkeypatch):
    computed = []
    monkeypatch.setattr(availability, "figures", lambda *args: computed.append(args))
    with CaptureQueriesContext(connection) as queries:
        tasks.refresh_availability(str(fra.pk))
    assert (computed, len(queries)) == ([], 5)


def test_only_profiles_whose_devices_moved_are_matched_again(fra, train, fleet, at_once, monkeypatch):
    large = make_profile("large", spec=selecting("100Gi"))
    fleet.put(NODE, node("node-c"))
    fleet.put(RESOURCE_SLICE, resource_slice("node-c", [gpu(0, memory="141Gi")]))
    with at_once():
        sync_once(fra, fleet)
    matched, plain = [], availability.figures
    monkeypatch.setattr(
        availability, "figures", lambda *args: matched.append(args[2].profile) or plain(*args)
    )
    with at_once():
        fleet.put(RESOURCE_CLAIM, holds("gpu-0", pool="node-a"))
        sync_once(fra, fleet)
    assert matched == [train]
    assert [figures_of(train), figures_of(large)] == [(6, 5, 3, 3), (1, 1, 1, 1)]


def test_node_that_gains_a_label_is_counted_though_no_device_moved(fra, fleet, at_once):
    large = make_profile("large", spec=selecting("100Gi"), max_devices=1)
    zone = {"key": "zone", "operator": "In", "values": ["a"]}
    everywhere = {"nodeSelectorTerms": [{"matchExpressions": [zone]}]}
    network = resource_slice("net", [gpu(0, memory="141Gi")], nodeSelector=everywhere)
    for labels, expected in (({}, (1, 1, 0, 0)), ({"zone": "a"}, (1, 1, 1, 1))):
        with at_once():
            fleet.put(RESOURCE_SLICE, network)
            fleet.put(NODE, node("node-a", labels=labels))
            sync_once(fra, fleet)
        assert figures_of(large) == expected


def test_share_of_a_device_is_counted_though_the_device_stays_free(fra, fleet, at_once):
    share = make_profile(
        "share", spec=selecting("100Gi", capacity={"requests": {"memory": "100Gi"}}), max_devices=1
    )
    shared = gpu(0, memory="141Gi", allowMultipleAllocations=True)
    with at_once():
        fleet.put(NODE, node("node-c"))
        fleet.put(RESOURCE_SLICE, resource_slice("node-c", [shared]))
        sync_once(fra, fleet)
    assert figures_of(share) == (1, 1, 1, 1)
    with at_once():
        consumed = {"consumedCapacity": {"memory": "100Gi"}, "shareID": "one"}
        fleet.put(RESOURCE_CLAIM, holds("gpu-0", pool="node-c", **consumed))
        sync_once(fra, fleet)
    assert figures_of(share) == plain_figures(plain_snapshot(fleet), share.current) == (1, 1, 0, 0)


def test_share_has_its_own_memory_and_part_of_the_price(fra, fleet, at_once):
    """A device that cannot be shared is taken whole, whatever is requested of it."""
    share = make_profile("share", spec=make_spec(capacity={"requests": {"memory": "20Gi"}}), max_devices=1)
    with at_once():
        sliced = gpu(0, memory="80Gi", allowMultipleAllocations=True)
        fleet.put(RESOURCE_SLICE, resource_slice("node-c", [sliced, gpu(1, memory="80Gi")]))
        sync_once(fra, fleet)
    (row,) = share.current.availability.all()
    sizes = {(kind["memory_bytes"] >> 30, kind["fraction"]) for kind in row.kinds}
    assert (20, "1/4") in sizes
    assert (80, "1") in sizes


def test_older_computation_does_not_overwrite_a_newer_one(fra, train, fleet, at_once):
    older = availability._compute(fra, availability.figures)
    with at_once():
        fleet.put(RESOURCE_CLAIM, holds("gpu-0"))
        sync_once(fra, fleet)
    assert availability._write(fra, older).total == 0
    assert figures_of(train) == (5, 4, 2, 3)


# Compared with the plain computation.

SPECS = (
    make_spec(),
    selecting("100Gi"),
    make_spec(2),
    make_spec(allocationMode="All"),
    make_spec(device_class="gpu.amd.com"),
    make_spec() | {"devices": make_spec(2)["devices"] | {"constraints": [PCIE]}},
    make_spec(tolerations=[{"operator": "Exists"}]),
    make_spec(selectors=[{"cel": {"expression": 'device.attributes["gpu.nvidia.com"].absent == "x"'}}]),
    {
        "devices": {
            "requests": [
                {
                    "name": "gpu",
                    "firstAvailable": [
                        {"name": "large", "deviceClassName": "gpu.nvidia.com", "count": 2},
                        {"name": "small", "deviceClassName": "gpu.nvidia.com", "count": 1},
                    ],
                }
            ]
        }
    },
)


class Schedule:
    """Random operations on one cluster and on the catalogue."""

    def __init__(self, seed, fra, gateway, root):
        self.random, self.fra, self.gateway, self.root = Random(seed), fra, gateway, root
        self.claims = 0

    def step(self):
        of_cluster = [
            *[self.claim] * 3,
            *[self.end] * 2,
            *[self.slice] * 2,
            self.node,
            self.rule,
            self.class_,
        ]
        operation = self.random.choice([*of_cluster, self.profile, self.retire])
        operation()
        if operation in of_cluster:
            sync_once(self.fra, self.gateway)

    def has(self, kind, name, namespace=None):
        return self.gateway.get(kind, name, namespace=namespace) is not None

    def claim(self):
        self.claims += 1
        held = {f"gpu-{self.random.randrange(4)}" for _ in range(self.random.randint(1, 3))}
        where = self.random.choice(NODES)
        self.gateway.put(RESOURCE_CLAIM, holds(*sorted(held), name=f"c{self.claims}", pool=where))

    def end(self):
        name = f"c{self.random.randint(1, max(self.claims, 1))}"
        if self.has(RESOURCE_CLAIM, name, "vision"):
            self.gateway.remove(RESOURCE_CLAIM, name, namespace="vision")

    def slice(self):
        where = self.random.choice(NODES)
        if self.has(RESOURCE_SLICE, f"{where}-1") and self.random.random() < 0.3:
            self.gateway.remove(RESOURCE_SLICE, f"{where}-1")
            return
        memory = [self.random.choice(["81559Mi", "141Gi"]) for _ in range(self.random.randint(1, 4))]
        devices_of_node = [gpu(number, memory=text) for number, text in enumerate(memory)]
        self.gateway.put(RESOURCE_SLICE, resource_slice(where, devices_of_node))

    def node(self):
        name = self.random.choice(NODES)
        self.gateway.put(NODE, node(name, unschedulable=self.random.random() < 0.5))

    def rule(self):
        name = f"rule-{self.random.choice(NODES)}"
        if self.has(TAINT_RULE, name):
            self.gateway.remove(TAINT_RULE, name)
            return
        taint = {"key": "example.com/broken", "value": "true", "effect": "NoSchedule"}
        spec = {"deviceSelector": {"pool": name.removeprefix("rule-")}, "taint": taint}
        self.gateway.put(TAINT_RULE, {"metadata": {"name": name}, "spec": spec})

    def class_(self):
        if self.has(DEVICE_CLASS, "gpu.nvidia.com") and self.random.random() < 0.3:
            self.gateway.remove(DEVICE_CLASS, "gpu.nvidia.com")
        else:
            more = self.random.choice([(), (MEMORY.format("100Gi"),)])
            self.gateway.put(DEVICE_CLASS, device_class("gpu.nvidia.com", *more))

    def profile(self):
        slug = f"p{self.random.randrange(6)}"
        spec = self.random.choice(SPECS)
        exact = "exactly" in spec["devices"]["requests"][0] and "All" not in str(spec)
        save_profile(
            by=self.root,
            profile=Profile.objects.filter(slug=slug).first(),
            slug=slug,
            title=slug,
            spec=spec,
            scalable="gpu" if exact and self.random.random() < 0.7 else "",
            max_devices=self.random.choice([32, 40]),
        )

    def retire(self):
        profile = Profile.objects.order_by("?").first()
        if profile is not None:
            services.retire_profile(by=self.root, profile=profile)


@pytest.mark.parametrize("seed", range(4))
def test_rows_agree_with_the_plain_computation_after_random_operations(seed, fra, fleet, root, at_once):
    schedule = Schedule(seed, fra, fleet, root)
    with at_once():
        schedule.profile()
    for _ in range(12):
        with at_once():
            for _ in range(schedule.random.randint(1, 3)):
                schedule.step()
        assert changed_rows(fleet) == {}
        (head,) = ClusterAvailability.objects.all()
        assert head.revision == Cluster.objects.get(pk=fra.pk).revision
    offered = {profile.slug: profile for profile in Profile.objects.filter(retired_at=None)}
    specs = [named_spec(slug, profile.current) for slug, profile in sorted(offered.items())]
    assert head.report == report_as_json(lint(plain_snapshot(fleet), specs))
    assert availability.find_differences().total == 0


# The command and the repair.


def test_command_reports_and_repairs_differences(fra, train, fleet, at_once):
    make_profile("new")  # neither counted nor checked
    counted = ProfileAvailability.objects.get(version=train.current)
    assert "2 rows to repair: 1 missing, 1 altered.\n" in failed_check("availability")
    ProfileAvailability.objects.filter(pk=counted.pk).update(free=1)
    assert "3 rows to repair: 1 missing, 2 altered.\n" in failed_check("availability")
    result = "availability: 2 profiles in clusters, 3 rows repaired: 1 missing, 2 altered.\n"
    assert recompute("availability") == result
    assert recompute("availability", "--check") == "availability: 2 profiles in clusters, 0 rows to repair.\n"
    ProfileAvailability.objects.all().delete()
    periodic.repair_availability()
    assert recompute("availability", "--check") == "availability: 2 profiles in clusters, 0 rows to repair.\n"


def test_removed_cluster_takes_its_rows_along(fra, train, fleet, at_once):
    assert ProfileAvailability.objects.count() == 1
    fra.delete()
    assert (ProfileAvailability.objects.count(), ClusterAvailability.objects.count()) == (0, 0)
