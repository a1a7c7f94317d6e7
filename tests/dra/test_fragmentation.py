"""What can still be cut from a GPU, and whose end would let a claim fit."""

from hypothesis import given as of
from hypothesis import strategies as st

from dra.allocator import allocate
from dra.blockers import Blocker, Scatter, find_blockers
from dra.fragmentation import physical_gpus
from tests.dra.clusters import (
    NVIDIA,
    PCIE,
    claim,
    device_class,
    exactly,
    gpu,
    holds,
    node,
    resource_slice,
    snapshot,
    spec,
)

SIZES = {"1g.10gb": 1, "2g.20gb": 2, "3g.40gb": 4, "7g.80gb": 8}
STARTS = {"1g.10gb": range(7), "2g.20gb": (0, 2, 4), "3g.40gb": (0, 4), "7g.80gb": (0,)}


def partition(board, profile, start):
    takes = {f"memory-slice-{at}": {"value": "1"} for at in range(start, start + SIZES[profile])}
    return gpu(0, attributes={"type": {"string": "mig"}, "profile": {"string": profile}}) | {
        "name": f"gpu-{board}-{profile.replace('.', '')}-{start}",
        "capacity": {"memory": {"value": f"{9856 * SIZES[profile]}Mi"}},
        "consumesCounters": [{"counterSet": f"gpu-{board}", "counters": takes}],
    }


def whole(board):
    takes = {f"memory-slice-{at}": {"value": "1"} for at in range(8)}
    counters = [{"counterSet": f"gpu-{board}", "counters": takes}]
    return gpu(board, consumesCounters=counters)


def slices(on="node-a", boards=1):
    """GPUs of eight memory slices, each as a whole and in every partition."""
    eight = {f"memory-slice-{at}": {"value": "1"} for at in range(8)}
    sets = [{"name": f"gpu-{board}", "counters": eight} for board in range(boards)]
    devices = [
        one
        for board in range(boards)
        for one in (
            whole(board),
            *(partition(board, profile, start) for profile in SIZES for start in STARTS[profile]),
        )
    ]
    return [
        resource_slice(on, name=f"{on}-counters", slices=2, sharedCounters=sets),
        resource_slice(on, devices, name=f"{on}-devices", slices=2),
    ]


def cuts(seen, pool="node-a"):
    (board,) = physical_gpus(seen, NVIDIA, pool)
    return {
        cut.partition: (cut.published, cut.held, cut.available, cut.max_concurrent)
        for cut in board.partitions
    }


def wanting(profile, count=1, **more):
    expression = f'device.attributes["gpu.nvidia.com"].?profile.orValue("") == "{profile}"'
    return spec(exactly(count, expression, class_name="mig.nvidia.com", **more))


def test_an_untouched_gpu_can_be_cut_in_any_way():
    assert cuts(snapshot(slices())) == {
        "": (1, 0, 1, 1),
        "7g.80gb": (1, 0, 1, 1),
        "3g.40gb": (2, 0, 2, 2),
        "2g.20gb": (3, 0, 3, 3),
        "1g.10gb": (7, 0, 7, 7),
    }


def test_one_small_partition_in_the_middle_leaves_room_for_no_large_one():
    seen = snapshot(slices(), holds("gpu-0-1g10gb-1"), holds("gpu-0-1g10gb-5", name="other"))
    assert cuts(seen) == {
        "": (1, 0, 0, 0),
        "7g.80gb": (1, 0, 0, 0),
        "3g.40gb": (2, 0, 0, 0),
        "2g.20gb": (3, 0, 1, 1),
        "1g.10gb": (7, 2, 5, 5),
    }


def test_the_whole_comes_first_and_boards_by_name():
    seen = snapshot(slices(boards=2), holds("gpu-0"))
    first, second = physical_gpus(seen, NVIDIA, "node-a")
    assert (first.counter_set, second.counter_set, first.node_name) == ("gpu-0", "gpu-1", "node-a")
    assert [cut.max_concurrent for cut in first.partitions] == [0, 0, 0, 0, 0]
    assert [cut.partition for cut in second.partitions] == ["", "7g.80gb", "3g.40gb", "2g.20gb", "1g.10gb"]
    assert physical_gpus(seen, NVIDIA, "node-z") == []
    assert physical_gpus(snapshot([resource_slice(devices=[gpu(0)])]), NVIDIA, "node-a") == []


def test_a_pool_with_an_overdrawn_counter_gives_nothing():
    seen = snapshot(slices(), holds("gpu-0"), holds("gpu-0-1g10gb-0", name="other"))
    assert {cut[3] for cut in cuts(seen).values()} == {0}


@of(st.sets(st.sampled_from([f"gpu-0-1g10gb-{start}" for start in range(7)])), st.sampled_from([*SIZES]))
def test_as_many_can_be_cut_as_the_allocator_gives(held, profile):
    """The allocator takes the first fit; for partitions of one size in order that is the most."""
    claims = [holds(name, name=name) for name in sorted(held)]
    seen = snapshot(slices(), *claims)
    most = cuts(seen)[profile][3]
    if most:
        assert allocate(seen, node(), [claim(wanting(profile, most))]) is not None
    assert allocate(seen, node(), [claim(wanting(profile, most + 1))]) is None


def test_it_is_said_whose_end_makes_room():
    small = [holds("gpu-0-1g10gb-1", name="one"), holds("gpu-0-3g40gb-4", name="two")]
    seen = snapshot(slices(), *small)
    found = find_blockers(seen, wanting("3g.40gb"))
    assert found.blockers == (Blocker(("vision/one",), "node-a"),)
    assert found.scatter == Scatter.NONE


def test_pairs_are_looked_for_where_no_single_claim_is_enough():
    seen = snapshot(slices(), holds("gpu-0-1g10gb-1", name="one"), holds("gpu-0-1g10gb-5", name="two"))
    assert find_blockers(seen, wanting("7g.80gb")).blockers == (
        Blocker(("vision/one", "vision/two"), "node-a"),
    )


def test_capacity_split_over_partitions_is_reported():
    seen = snapshot(slices(), holds("gpu-0-1g10gb-1", name="one"), holds("gpu-0-1g10gb-5", name="two"))
    found = find_blockers(seen, wanting("3g.40gb"))
    assert found.scatter == Scatter.PARTS
    assert found.sentence == (
        "Node node-a has enough GPU capacity left for the claim, but it is split over partitions."
    )
    assert found.blockers == (Blocker(("vision/one",), "node-a"),)


def test_free_devices_on_different_nodes_are_reported():
    pools = [resource_slice(name, [gpu(0), gpu(1)]) for name in ("node-a", "node-b")]
    seen = snapshot(pools, holds("gpu-0", name="one"), holds("gpu-1", name="two", pool="node-b"))
    found = find_blockers(seen, spec(exactly(2)))
    assert found.scatter == Scatter.NODES
    assert found.sentence.startswith("2 matching devices are free on 2 nodes. The claim needs 2 on one node")
    assert found.blockers == (Blocker(("vision/one",), "node-a"), Blocker(("vision/two",), "node-b"))


def test_whoever_holds_least_is_named_first():
    pool = resource_slice("node-a", [gpu(number) for number in range(4)])
    seen = snapshot([pool], holds("gpu-0", "gpu-1", name="large"), holds("gpu-2", "gpu-3", name="pair"))
    claim_spec = spec(exactly(2), constraints=[PCIE])
    assert find_blockers(seen, claim_spec).blockers == (Blocker(("vision/large",), "node-a"),)
    seen = snapshot([pool], holds("gpu-0", "gpu-1", "gpu-2", name="a"), holds("gpu-3", name="b"))
    assert find_blockers(seen, spec(exactly())).blockers == (Blocker(("vision/b",), "node-a"),)


def test_what_no_end_of_a_claim_helps_has_no_ending():
    pool = resource_slice("node-a", [gpu(0)])
    seen = snapshot([pool], holds("gpu-0"))
    for claim_spec in (
        spec(exactly(2)),
        spec(exactly(class_name="nobody")),
        spec(exactly(1, "device.name == 'x'")),
        spec(),
    ):
        assert find_blockers(seen, claim_spec).blockers == ()


def test_nobody_needs_to_end_for_what_fits():
    pool = resource_slice("node-a", [gpu(0), gpu(1)])
    found = find_blockers(snapshot([pool], holds("gpu-0")), spec(exactly()))
    assert (found.sentence, found.blockers) == ("", ())


def test_who_only_looks_on_holds_nothing():
    pool = resource_slice("node-a", [gpu(0)])
    seen = snapshot([pool], holds("gpu-0", name="holder"), holds("gpu-0", name="admin", adminAccess=True))
    assert find_blockers(seen, spec(exactly())).blockers == (Blocker(("vision/holder",), "node-a"),)


def test_the_rest_of_the_claims_is_kept_in_mind():
    classes = [device_class("any", "device.driver == 'gpu.nvidia.com'")]
    pool = resource_slice("node-a", [gpu(number) for number in range(3)])
    seen = snapshot([pool], *(holds(f"gpu-{n}", name=f"c{n}") for n in range(3)), classes=classes)
    found = find_blockers(seen, spec(exactly(2, class_name="any")))
    assert found.blockers == (Blocker(("vision/c0", "vision/c1"), "node-a"),)


NODES = tuple(f"node-{letter}" for letter in "abcd")


def four(*claims):
    """Four nodes of two GPUs each, taken by one claim a node unless `claims` say otherwise."""
    held = claims or [holds("gpu-0", "gpu-1", name=f"on-{name}", pool=name) for name in NODES]
    return snapshot([resource_slice(name, [gpu(0), gpu(1)]) for name in NODES], *held)


def test_at_most_three_endings_are_named_one_a_node():
    found = find_blockers(four(), spec(exactly()))
    assert found.blockers == tuple(Blocker((f"vision/on-{name}",), name) for name in NODES[:3])


def test_nodes_that_lack_least_come_first_and_claims_that_hold_least():
    seen = four(
        holds("gpu-0", name="x"),
        holds("gpu-1", name="y"),
        holds("gpu-0", "gpu-1", name="of-b", pool="node-b"),
        holds("gpu-0", "gpu-1", name="of-c", pool="node-c"),
        holds("gpu-1", name="z", pool="node-d"),
    )
    assert find_blockers(seen, spec(exactly(2))).blockers == (
        Blocker(("vision/z",), "node-d"),
        Blocker(("vision/of-b",), "node-b"),
        Blocker(("vision/of-c",), "node-c"),
    )
    seen = four(*(holds(f"gpu-{at}", name=f"{at}-{name}", pool=name) for name in NODES for at in (0, 1)))
    assert find_blockers(seen, spec(exactly(2))).blockers == tuple(
        Blocker((f"vision/0-{name}", f"vision/1-{name}"), name) for name in NODES[:3]
    )


def test_a_cut_tells_what_it_is_and_how_much_of_it_is_left():
    seen = snapshot(slices(boards=2), holds("gpu-1-3g40gb-4"))
    first, second = physical_gpus(seen, NVIDIA, "node-a")
    assert (second.driver, second.pool, second.counter_set, second.node_name) == (
        NVIDIA,
        "node-a",
        "gpu-1",
        "node-a",
    )
    gigabytes = 9856 * 2**20
    assert [
        (
            one.partition,
            one.product,
            one.memory_bytes,
            one.published,
            one.held,
            one.available,
            one.max_concurrent,
        )
        for one in second.partitions
    ] == [
        ("", "NVIDIA H100 80GB HBM3", 81559 * 2**20, 1, 0, 0, 0),
        ("7g.80gb", "NVIDIA H100 80GB HBM3", 8 * gigabytes, 1, 0, 0, 0),
        ("3g.40gb", "NVIDIA H100 80GB HBM3", 4 * gigabytes, 2, 1, 1, 1),
        ("2g.20gb", "NVIDIA H100 80GB HBM3", 2 * gigabytes, 3, 0, 2, 2),
        ("1g.10gb", "NVIDIA H100 80GB HBM3", gigabytes, 7, 0, 4, 4),
    ]
    assert [one.available for one in first.partitions] == [1, 1, 2, 3, 7]
    assert physical_gpus(seen, "gpu.amd.com", "node-a") == []
