"""Previews: what is left after each step, why nothing fits, and what cannot be told."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra.allocator import AllocationError, allocate
from dra.cel import Selector
from dra.features import Features
from dra.match import DropCause, Dropped, NoFitReason, StepKind, dropped, preview
from tests.dra.clusters import (
    NVIDIA,
    PCIE,
    ask,
    claim,
    eight,
    exactly,
    gpu,
    holds,
    node,
    resource_slice,
    snapshot,
    spec,
)

BIG = 'device.capacity["gpu.nvidia.com"].?memory.orValue(quantity("0")).compareTo(quantity("79Gi")) >= 0'


def cluster(**more):
    """Two nodes of four: one device small, one tainted, one held on the first; all of the second free."""
    first = [gpu(0), gpu(1, memory="40Gi"), gpu(2, taints=[{"key": "k", "effect": "NoSchedule"}]), gpu(3)]
    second = [gpu(number) for number in range(4)]
    slices = [resource_slice("node-a", first), resource_slice("node-b", second)]
    return snapshot(slices, holds("gpu-3"), **more)


def test_the_funnel_counts_devices_after_each_step():
    seen = preview(cluster(), spec(exactly(1, BIG)))
    assert [(step.kind, step.count, step.dropped) for step in seen.steps] == [
        (StepKind.TOTAL, 8, 0),
        (StepKind.IN_CLASS, 8, 0),
        (StepKind.SELECTOR, 7, 1),
        (StepKind.UNTAINTED, 6, 1),
        (StepKind.FREE, 5, 1),
        (StepKind.NODES, 2, 0),
    ]
    assert (seen.matching, seen.free, seen.nodes_that_fit, seen.problem) == (7, 5, 2, "")
    assert seen.fits
    assert seen.nodes == ("node-a", "node-b")


def test_steps_name_their_request():
    claim_spec = spec(
        {"name": "gpu", "firstAvailable": [{"name": "big", **ask(1, BIG)}, {"name": "any", **ask(1)}]}
    )
    seen = preview(cluster(), claim_spec)
    assert [step.request for step in seen.steps if step.kind == StepKind.FREE] == ["gpu/big", "gpu/any"]
    assert next(step for step in seen.steps if step.kind == StepKind.SELECTOR).detail == BIG


@pytest.mark.parametrize(
    ("claim_spec", "claims", "reason", "said"),
    [
        (spec(), 1, NoFitReason.NO_REQUEST, "no device"),
        (spec({"name": "gpu"}), 1, NoFitReason.NO_REQUEST, "no device"),
        (spec(exactly(), constraints=[{"requests": []}]), 1, NoFitReason.INVALID, "names no attribute"),
        (spec(exactly(1, class_name="nobody")), 1, NoFitReason.NO_CLASS, "no device class nobody"),
        (spec(exactly(1, "device.name == 'x'")), 1, NoFitReason.INVALID, "device.name"),
        (spec(exactly(1, "isURL('https://example.org')")), 1, NoFitReason.NOT_PREVIEWABLE, "only a cluster"),
        (spec(exactly(33)), 1, NoFitReason.TOO_MANY, "33 devices; the limit per claim is 32"),
        (spec(exactly(1, class_name="mig.nvidia.com")), 1, NoFitReason.NO_MATCH, "needs 1 device; 0 match"),
        (spec(exactly(9)), 1, NoFitReason.NO_MATCH, "needs 9 devices; 8 match"),
        (spec(exactly(8)), 1, NoFitReason.TAINTED, "needs 8 devices; 7 match and are not tainted"),
        (spec(exactly(7)), 1, NoFitReason.TAKEN, "needs 7 devices; 6 match and are free"),
        (spec(exactly(5)), 1, NoFitReason.NO_NODE, "6 devices are free, but no single node"),
        (spec(exactly(2)), 4, NoFitReason.TAINTED, "needs 8 devices; 7 match and are not tainted"),
        (spec(exactly(4)), 1, NoFitReason.NONE, ""),
        (spec(exactly(1, BIG)), 5, NoFitReason.NONE, ""),
        (spec(exactly(3)), 2, NoFitReason.NO_NODE, "1 of 2 claims fit now, on 1 node."),
        (
            spec(exactly(1, 'device.attributes["gpu.nvidia.com"].nope == 1')),
            1,
            NoFitReason.SELECTOR_FAILS,
            "fails on device gpu.nvidia.com/node-a/gpu-0",
        ),
    ],
)
def test_first_reason_is_reported_with_numbers(claim_spec, claims, reason, said):
    seen = preview(cluster(), claim_spec, claims)
    assert seen.reason == reason
    assert seen.fits == (reason == NoFitReason.NONE)
    assert said in seen.problem
    assert bool(seen.problem) == bool(said)


@pytest.mark.parametrize(
    "expression", ["isURL('https://example.org')", 'timestamp("2026-01-01T00:00:00Z").getFullYear() == 2026']
)
def test_what_cannot_be_told_is_no_number(expression):
    seen = preview(cluster(), spec(exactly(1, expression)))
    assert seen.reason == NoFitReason.NOT_PREVIEWABLE
    assert (seen.matching, seen.free, seen.nodes_that_fit, seen.claims_that_fit) == (None, None, None, None)


def test_a_selector_is_not_asked_about_devices_that_an_earlier_one_turned_down():
    odd = gpu(0, product="NVIDIA L4")
    del odd["attributes"]["driverVersion"]
    slices = [resource_slice(devices=[odd, gpu(1)])]
    big = 'device.attributes["gpu.nvidia.com"].productName.startsWith("NVIDIA H100")'
    new = 'device.attributes["gpu.nvidia.com"].driverVersion.isGreaterThan(semver("570.0.0"))'
    assert preview(snapshot(slices), spec(exactly(1, big, new))).problem == ""
    assert preview(snapshot(slices), spec(exactly(1, new, big))).reason == NoFitReason.SELECTOR_FAILS


def test_a_cordoned_node_has_room_for_nobody():
    nodes = [node("node-a"), node("node-b", unschedulable=True)]
    seen = preview(cluster(nodes=nodes), spec(exactly(2)))
    assert seen.nodes == ("node-a",)
    assert preview(cluster(nodes=nodes), spec(exactly(4))).reason == NoFitReason.NO_NODE


def test_constraints_are_tried_on_each_node():
    claim_spec = spec(exactly(2), constraints=[PCIE])
    assert preview(cluster(), claim_spec).nodes == ("node-a", "node-b")
    assert preview(cluster(), claim_spec, claims=3).claims_that_fit == 3
    held = cluster().after(claims=[holds("gpu-0"), holds("gpu-0", "gpu-2", pool="node-b")])
    assert preview(held, claim_spec).reason == NoFitReason.NO_NODE


def test_admin_access_counts_what_others_hold():
    claim_spec = spec(
        exactly(0, allocationMode="All", adminAccess=True, tolerations=[{"operator": "Exists"}])
    )
    seen = preview(cluster(), claim_spec)
    assert (seen.free, seen.nodes_that_fit, seen.problem) == (8, 2, "")


def test_devices_that_all_nodes_reach_are_not_counted_twice():
    slices = [resource_slice("pool", [gpu(0), gpu(1)], allNodes=True)]
    seen = preview(snapshot(slices, nodes=[node("a"), node("b")]), spec(exactly(2)), claims=2)
    assert (seen.nodes_that_fit, seen.claims_that_fit) == (2, 1)


def test_partitions_are_counted_by_what_their_gpu_has_left(manifests):
    slices = [manifests["ResourceSlice/node-b-counters"], manifests["ResourceSlice/node-b-devices"]]
    part, whole = spec(exactly(1, class_name="mig.nvidia.com")), spec(exactly())
    assert preview(snapshot(slices), part, claims=3).claims_that_fit == 2
    assert (
        preview(
            snapshot(slices), spec(exactly(), exactly(1, name="part", class_name="mig.nvidia.com"))
        ).reason
        == NoFitReason.NO_NODE
    )
    taken = snapshot(slices, holds("gpu-0-mig-1g5gb-19-0", pool="node-b"))
    assert preview(taken, whole).reason == NoFitReason.TAKEN
    assert preview(taken, part).free == 1


def test_shares_are_counted_by_capacity():
    device = gpu(0) | {"allowMultipleAllocations": True, "capacity": {"memory": {"value": "40Gi"}}}
    claim_spec = spec(exactly(1, capacity={"requests": {"memory": "10Gi"}}))
    seen = preview(snapshot([resource_slice(devices=[device])]), claim_spec, claims=5)
    assert (seen.claims_that_fit, seen.reason) == (4, NoFitReason.NO_NODE)


def test_a_search_that_takes_too_long_is_unknown_and_not_no():
    devices = [gpu(number, attributes={"a": {"int": number % 7}}) for number in range(60)]
    claim_spec = spec(exactly(8), constraints=[{"distinctAttribute": f"{NVIDIA}/a"}])
    seen = preview(snapshot([resource_slice(devices=devices)]), claim_spec)
    assert seen.reason == NoFitReason.TOO_LONG
    assert (seen.nodes_that_fit, seen.claims_that_fit) == (None, None)


def test_nodes_of_too_many_looks_are_not_all_tried(monkeypatch):
    monkeypatch.setattr("dra.match.node_fit.MAX_SEARCHES", 2)
    slices = [resource_slice(f"n{count}", [gpu(number) for number in range(count)]) for count in range(2, 7)]
    claim_spec = spec(exactly(2), constraints=[PCIE])
    assert preview(snapshot(slices), claim_spec).problem == ""
    assert preview(snapshot(slices), claim_spec).nodes_that_fit is None
    assert preview(snapshot(slices), claim_spec, claims=9).reason == NoFitReason.TOO_LONG


def test_an_empty_cluster_has_nothing():
    seen = preview(snapshot([]), spec(exactly()))
    assert (seen.reason, seen.matching, seen.nodes_that_fit) == (NoFitReason.NO_MATCH, 0, 0)


def test_alike_devices_are_evaluated_once(monkeypatch):
    slices = [resource_slice(f"n{number}", [gpu(place) for place in range(8)]) for number in range(20)]
    seen = snapshot(slices)
    claim_spec = 'device.attributes["gpu.nvidia.com"].?productName.orValue("") != "evaluated once"'
    times = []

    matches = Selector.matches

    def counted(selector, device, work):
        times.append(device)
        return matches(selector, device, work)

    monkeypatch.setattr(Selector, "matches", counted)
    preview(seen, spec(exactly(1, claim_spec)))
    assert len(times) == 2  # the class and the selector
    preview(seen.after(claims=[holds("gpu-0", pool="n1")]), spec(exactly(1, claim_spec)))
    assert len(times) == 2


UUID = 'device.attributes["gpu.nvidia.com"].uuid'


@pytest.mark.security("bombs", "a selector within its cost that takes minutes")
def test_steps_are_limited_over_all_devices_and_over_all_selectors_of_a_claim(monkeypatch):
    seen = snapshot([resource_slice("node-a", [gpu(place) for place in range(20)])])
    text = f'[1, 2, 3, 4, 5, 6, 7, 8].all(n, {UUID} != "z")'
    steps = seen.selector_results(text).steps
    assert steps == 20 * (3 + 8 * 7)  # each device: the loop, and seven steps for each element
    monkeypatch.setattr("dra.cel.access.MAX_STEPS", steps - 1)
    again = snapshot([resource_slice("node-a", [gpu(place) for place in range(20)])])
    assert list(again.selector_results(text).errors) == [19]
    told = preview(again, spec(exactly(1, text)))
    assert (told.reason, told.matching) == (NoFitReason.NOT_PREVIEWABLE, None)
    assert told.problem.startswith(
        f"Request gpu: The expression takes more than {steps - 1:,} steps on all devices"
    )
    monkeypatch.setattr("dra.cel.access.MAX_STEPS", steps + 1)
    monkeypatch.setattr("dra.match.MAX_STEPS", steps + 1)
    assert preview(seen, spec(exactly(1, text))).fits
    assert preview(seen, spec(exactly(1, text, text))).fits  # evaluated once
    told = preview(seen, spec(exactly(1, text), exactly(1, text.replace("z", "y"), name="two")))
    assert (told.reason, told.matching) == (NoFitReason.NOT_PREVIEWABLE, None)
    assert (
        told.problem == f"The selectors of the claim take more than {steps + 1:,} steps, the portal's limit."
    )


def test_devices_after_the_limit_of_steps_are_not_evaluated(monkeypatch):
    monkeypatch.setattr("dra.cel.access.MAX_STEPS", 10)
    seen = snapshot([resource_slice("node-a", [gpu(place) for place in range(100)])])
    results = seen.selector_results(f'{UUID} != "z" && {UUID} != "y"')
    assert results.flags == b"\x01\x01" + bytes(98)  # five steps each
    assert len(results.errors) == 98
    assert results.steps == 10 + 98 * 5  # each is refused by its first count


devices = st.builds(
    lambda number, n, small, tainted: gpu(
        number,
        memory="10Gi" if small else "81559Mi",
        attributes={"n": {"int": n}},
        **({"taints": [{"key": "k", "effect": "NoSchedule"}]} if tainted else {}),
    ),
    st.integers(0, 7),
    st.integers(0, 1),
    st.booleans(),
    st.booleans(),
)
nodes = st.lists(st.lists(devices, max_size=5, unique_by=lambda one: one["name"]), min_size=1, max_size=4)
claim_specs = st.builds(
    lambda count, extra, big, same: spec(
        exactly(count, *([BIG] if big else [])),
        *([exactly(extra, name="more")] if extra else []),
        constraints=[{"matchAttribute": f"{NVIDIA}/n"}] if same else [],
    ),
    st.integers(1, 3),
    st.integers(0, 2),
    st.booleans(),
    st.booleans(),
)


@given(nodes, claim_specs, st.integers(1, 3))
def test_a_preview_agrees_with_the_allocator_on_every_node(listed, claim_spec, claims):
    slices = [resource_slice(f"n{number}", found) for number, found in enumerate(listed)]
    names = [node(f"n{number}") for number in range(len(listed))]
    seen = snapshot(slices, nodes=names)
    found = preview(seen, claim_spec, claims)
    fitting, total = [], 0
    for one in names:
        times = 0
        while times < claims and fits(seen, one, [claim(claim_spec)] * (times + 1)):
            times += 1
        total += times
        fitting += [one["metadata"]["name"]] if times else []
    assert list(found.nodes) == fitting
    assert found.claims_that_fit == min(total, claims)
    assert found.fits == (total >= claims)
    counts = [step.count for step in found.steps if step.request == "gpu"]
    assert all(before >= after for before, after in pairwise(counts))


def fits(seen, where, claims):
    try:
        return allocate(seen, where, claims) is not None
    except AllocationError:
        return False


def mixed():
    """node-a has four GPUs of which two are held, node-b one that is free and one that is tainted."""
    tainted = gpu(1, taints=[{"key": "k", "effect": "NoSchedule"}])
    slices = [
        resource_slice("node-a", [gpu(number) for number in range(4)]),
        resource_slice("node-b", [gpu(0), tainted]),
    ]
    held = holds("gpu-0"), holds("gpu-1", name="other")
    return snapshot(slices, *held, nodes=[node("node-a"), node("node-b")])


A, B = ("node-a",), ("node-a", "node-b")


@pytest.mark.parametrize(
    ("claim_spec", "claims", "nodes", "fit", "reason", "problem"),
    [
        (spec(exactly(1)), 1, B, 1, NoFitReason.NONE, ""),
        (spec(exactly(2)), 1, A, 1, NoFitReason.NONE, ""),
        (spec(exactly(1)), 3, B, 3, NoFitReason.NONE, ""),
        (spec(exactly(1)), 4, B, 3, NoFitReason.TAKEN, "Request gpu needs 4 devices; 3 match and are free."),
        (spec(exactly(2)), 2, A, 1, NoFitReason.TAKEN, "Request gpu needs 4 devices; 3 match and are free."),
        (
            *(spec(exactly(3)), 1, (), 0, NoFitReason.NO_NODE),
            "3 devices are free, but no single node has enough for one claim.",
        ),
        (spec(exactly(5)), 1, (), 0, NoFitReason.TAKEN, "Request gpu needs 5 devices; 3 match and are free."),
        (
            *(spec(exactly(6)), 1, (), 0, NoFitReason.TAINTED),
            "Request gpu needs 6 devices; 5 match and are not tainted.",
        ),
        (spec(exactly(7)), 1, (), 0, NoFitReason.NO_MATCH, "Request gpu needs 7 devices; 6 match."),
        (spec(exactly(1, "false")), 1, (), 0, NoFitReason.NO_MATCH, "Request gpu needs 1 device; 0 match."),
        (
            spec(exactly(20), exactly(12, name="b")),
            1,
            (),
            0,
            NoFitReason.NO_MATCH,
            "Request gpu needs 20 devices; 6 match.",
        ),
        (
            *(spec(exactly(20), exactly(13, name="b")), 1, (), 0, NoFitReason.TOO_MANY),
            "The claim requests 33 devices; the limit per claim is 32.",
        ),
        (spec(exactly(4, adminAccess=True)), 2, A, 2, NoFitReason.NONE, ""),
        (
            spec(exactly(2), exactly(1, name="b")),
            1,
            (),
            0,
            NoFitReason.NO_NODE,
            "3 devices are free, but no single node has enough for one claim.",
        ),
    ],
)
def test_preview_counts_claims_and_nodes_and_names_the_reason(
    claim_spec, claims, nodes, fit, reason, problem
):
    seen = preview(mixed(), claim_spec, claims)
    assert (seen.nodes, seen.nodes_that_fit, seen.claims_that_fit) == (nodes, len(nodes), fit)
    assert (seen.reason, seen.problem) == (reason, problem)


def test_preview_lists_every_step():
    claim_spec = spec(
        exactly(2, f"{BIG} && true"), constraints=[PCIE, {"distinctAttribute": "a.example/b"}, PCIE]
    )
    assert [
        (one.label, one.count, one.dropped, one.kind, one.detail, one.request)
        for one in preview(mixed(), claim_spec).steps
    ] == [
        ("in the cluster", 6, 0, StepKind.TOTAL, "", ""),
        ("in class gpu.nvidia.com", 6, 0, StepKind.IN_CLASS, "gpu.nvidia.com", "gpu"),
        (f"selected by {BIG}", 6, 0, StepKind.SELECTOR, BIG, "gpu"),
        ("selected by true", 6, 0, StepKind.SELECTOR, "true", "gpu"),
        ("not tainted (or tolerated)", 5, 1, StepKind.UNTAINTED, "", "gpu"),
        ("free now", 3, 2, StepKind.FREE, "", "gpu"),
        (
            "nodes with room for 2 devices with the same resource.kubernetes.io/pcieRoot "
            "with different a.example/b",
            *(0, 0, StepKind.NODES, "", ""),
        ),
    ]


def test_only_the_first_twenty_nodes_are_named():
    slices = [resource_slice(f"node-{number:02}", [gpu(0)]) for number in range(21)]
    nodes = [node(f"node-{number:02}") for number in range(21)]
    seen = preview(snapshot(slices, nodes=nodes), spec(exactly(1)))
    assert (seen.nodes_that_fit, seen.nodes) == (21, tuple(f"node-{number:02}" for number in range(20)))


def test_alternatives_of_different_counts_are_not_added_up():
    """Two of A are too many and three of B are just there: one claim fits, though four devices are free."""
    slices = [resource_slice("node-a", [gpu(0, product="A"), *(gpu(at, product="B") for at in (1, 2, 3))])]
    pick = "device.attributes['gpu.nvidia.com'].productName == '{}'"
    options = [{"name": "a", **ask(2, pick.format("A"))}, {"name": "b", **ask(3, pick.format("B"))}]
    seen = preview(
        snapshot(slices, nodes=[node("node-a")]), spec({"name": "gpu", "firstAvailable": options}), 2
    )
    assert (seen.free, seen.nodes_that_fit, seen.claims_that_fit) == (4, 1, 1)


def test_what_cannot_be_counted_drops_no_device_for_want_of_room(monkeypatch):
    claim_spec = spec(exactly(3))
    last = len(preview(mixed(), claim_spec).steps) - 1
    found = dropped(mixed(), claim_spec, last)
    assert [(one.device.name, one.device.node_name, one.cause, one.free_beside) for one in found.drops] == [
        ("gpu-2", "node-a", DropCause.NODE, 2),
        ("gpu-3", "node-a", DropCause.NODE, 2),
        ("gpu-0", "node-b", DropCause.NODE, 1),
    ]
    assert found.total == 3
    part = dropped(mixed(), claim_spec, last, offset=1, limit=1)
    assert ([one.device.name for one in part.drops], part.total) == (["gpu-3"], 3)
    assert dropped(mixed(), spec(exactly(3), constraints=[{"requests": ["gpu"]}]), last) == Dropped([], 0)
    monkeypatch.setattr("dra.match.node_fit.MAX_SEARCHES", 0)
    bound = spec(exactly(3), constraints=[PCIE])
    assert dropped(mixed(), bound, last) == Dropped([], 0)


def shares(*taken, name="share-a", total="45Gi"):
    """Return a node with one shareable device of which claims have taken these amounts."""
    device = gpu(0, allowMultipleAllocations=True) | {"name": name, "capacity": {"memory": {"value": total}}}
    claims = [
        holds(name, name=f"s{number}", shareID=f"id-{number}", consumedCapacity={"memory": amount})
        for number, amount in enumerate(taken)
    ]
    return snapshot([resource_slice(devices=[device])], *claims, nodes=[node()])


def share(memory):
    return spec(exactly(1, capacity={"requests": {"memory": memory}}))


@pytest.mark.parametrize(
    ("taken", "wanted", "problem"),
    [
        (["16Gi", "20Gi"], "20Gi", "9 GiB of 45 GiB are left on share-a; this claim needs 20 GiB."),
        ([], "46Gi", "45 GiB of 45 GiB are left on share-a; this claim needs 46 GiB."),
        (["16Gi", "20Gi"], "9Gi", ""),
    ],
)
def test_share_that_is_too_large_says_how_much_is_left(taken, wanted, problem):
    seen = preview(shares(*taken), share(wanted))
    assert (seen.problem, seen.reason) == (problem, NoFitReason.CAPACITY if problem else NoFitReason.NONE)


def test_device_with_most_left_is_named():
    devices = [gpu(number, allowMultipleAllocations=True, product="NVIDIA L4") for number in range(3)]
    held = [
        holds(f"gpu-{number}", name=f"s{number}", shareID=str(number), consumedCapacity={"memory": amount})
        for number, amount in enumerate(["70Gi", "60Gi", "75Gi"])
    ]
    seen = preview(snapshot([resource_slice(devices=devices)], *held), share("30Gi"))
    assert "are left on gpu-1; this claim needs 30 GiB" in seen.problem


EVERY = spec(exactly(0, allocationMode="All"))
OLD = resource_slice("node-b", [gpu(0)], name="b-old")
NEW = resource_slice("node-b", [gpu(1)], generation=2, slices=2, name="b-new")
POOL_OF_B = "Pool node-b of gpu.nvidia.com is incomplete: 1 of 2 slices of generation 2."


def test_all_devices_are_refused_while_another_node_has_an_incomplete_pool():
    slices, nodes = [*eight(), OLD, NEW], [node("node-a"), node("node-b")]
    seen = preview(snapshot(slices, nodes=nodes), EVERY)
    assert (seen.reason, seen.nodes_that_fit, seen.fits) == (NoFitReason.POOL, 0, False)
    assert POOL_OF_B in seen.problem
    assert preview(snapshot(slices, nodes=nodes), spec(exactly(2))).fits
    cordoned = [node("node-a"), node("node-b", unschedulable=True)]
    assert preview(snapshot(slices, nodes=cordoned), EVERY).fits
    whole = [*slices, resource_slice("node-b", [gpu(2)], generation=2, slices=2, name="b-last")]
    assert preview(snapshot(whole, nodes=nodes), EVERY).fits


def test_all_devices_are_refused_where_one_node_has_more_than_a_claim_may_have():
    many = [resource_slice("node-b", [gpu(number) for number in range(40)])]
    seen = preview(snapshot([*eight(), *many]), EVERY)
    assert seen.reason == NoFitReason.TOO_MANY
    assert seen.problem == "Request gpu needs 40 devices; the limit per claim is 32."
    assert preview(snapshot(eight()), EVERY).fits


def test_all_devices_say_that_one_of_them_is_held():
    seen = preview(snapshot(eight(), holds("gpu-3")), EVERY)
    assert "requests all devices of a node, and no node has all of them free" in seen.problem


def test_constraint_is_named_where_it_is_the_reason():
    held = snapshot(eight(), holds("gpu-0", "gpu-2", "gpu-4", "gpu-6"))
    problem = preview(held, spec(exactly(2), constraints=[PCIE])).problem
    assert problem == (
        "4 devices are free, but no single node has 2 devices with the same resource.kubernetes.io/pcieRoot."
    )


def test_pool_that_cannot_be_used_is_named_where_its_devices_would_match():
    seen = preview(snapshot([NEW]), spec(exactly(1)))
    assert seen.problem == (
        f"Request gpu needs 1 device; 0 match. {POOL_OF_B} "
        "Kubernetes allocates none of its devices until that is fixed."
    )
    assert POOL_OF_B not in preview(snapshot([NEW]), spec(exactly(1, class_name="mig.nvidia.com"))).problem


def test_device_of_a_node_that_is_gone_is_no_free_device():
    seen = snapshot([*eight(), resource_slice("ghost", [gpu(0)])], nodes=[node()])
    found = preview(seen, spec(exactly(9)))
    assert (found.free, found.reason) == (8, NoFitReason.UNREACHABLE)
    assert "Device gpu-0: its node ghost is not in the cluster." in found.problem
    (step,) = [number for number, one in enumerate(found.steps) if one.kind == StepKind.REACHABLE]
    (drop,) = dropped(seen, spec(exactly(9)), step).drops
    assert (drop.cause, drop.sentence) == (DropCause.UNREACHABLE, "its node ghost is not in the cluster")


def test_device_that_a_gate_switches_off_is_no_free_device():
    counters = [{"name": "s", "counters": {"slices": {"value": "4"}}}]
    takes = {"consumesCounters": [{"counterSet": "s", "counters": {"slices": {"value": "1"}}}]}
    slices = [
        resource_slice(name="counters", slices=2, sharedCounters=counters),
        resource_slice(name="devices", devices=[gpu(number, **takes) for number in range(4)], slices=2),
    ]
    off = snapshot(slices, nodes=[node()], features=Features.of_version(35))
    for claim_spec in (spec(exactly(1)), spec(exactly(1), exactly(1, name="b")), EVERY):
        found = preview(off, claim_spec)
        assert (found.fits, found.free, found.nodes_that_fit) == (False, 0, 0)
    assert "a feature gate that it needs is off" in preview(off, spec(exactly(1))).problem
    seen = snapshot(slices, nodes=[node()], features=Features.of_version(35) | Features.seen_in(slices))
    assert preview(seen, spec(exactly(4)), claims=1).fits
    assert preview(seen, EVERY).fits
