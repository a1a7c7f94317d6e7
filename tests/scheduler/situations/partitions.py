"""Devices that take of shared counters: a GPU as a whole, or cut into parts."""

from tests.scheduler.stage import Json, Stage, device


def _part(name: str, size: str, *slots: int) -> Json:
    counters = {"memory": {"value": size}, **{f"slot-{slot}": {"value": "1"} for slot in slots}}
    return device(name, size=size, raw={"consumesCounters": [{"counterSet": "gpu-0", "counters": counters}]})


def _cut(at: Stage, *parts: Json) -> None:
    """A GPU of 40Gi in four slots; its counters stand in a slice of their own."""
    at.usual(*parts, name="devices", of=2)
    counters = {"memory": {"value": "40Gi"}, **{f"slot-{slot}": {"value": "1"} for slot in range(4)}}
    at.slice(name="counters", of=2, sharedCounters=[{"name": "gpu-0", "counters": counters}])


def _whole_and_parts(at: Stage) -> None:
    _cut(
        at,
        _part("whole", "40Gi", 0, 1, 2, 3),
        _part("half-0", "20Gi", 0, 1),
        _part("half-2", "20Gi", 2, 3),
        _part("quarter-1", "10Gi", 1),
    )


def a_whole_leaves_no_part(at: Stage) -> None:
    _whole_and_parts(at)
    at.claim("theirs", at.exactly(1, at.has(size="40Gi")))
    at.pod("theirs", name="holder", gets=["whole"], earlier=True)
    at.claim("wish", at.exactly(1, at.has(size="10Gi")))
    at.pod("wish")


def a_part_leaves_no_whole(at: Stage) -> None:
    _whole_and_parts(at)
    at.claim("theirs", at.exactly(1, at.has(size="10Gi")))
    at.pod("theirs", name="holder", gets=["quarter-1"], earlier=True)
    at.claim("wish", at.exactly(1, at.has(size="40Gi")))
    at.pod("wish")


def a_part_beside_a_part(at: Stage) -> None:
    _whole_and_parts(at)
    at.claim("theirs", at.exactly(1, at.has(size="10Gi")))
    at.pod("theirs", name="holder", gets=["quarter-1"], earlier=True)
    at.claim("wish", at.exactly(1, at.has(size="20Gi")))
    at.pod("wish", gets=["half-2"])


def parts_in_one_claim(at: Stage) -> None:
    _whole_and_parts(at)
    at.claim(
        "wish", at.exactly(1, at.has(size="20Gi"), "half"), at.exactly(1, at.has(size="10Gi"), "quarter")
    )
    at.pod("wish", gets=["half-2", "quarter-1"])


def all_parts_do_not_fit(at: Stage) -> None:
    _whole_and_parts(at)
    at.claim("wish", at.exactly(allocationMode="All"))
    at.pod("wish")


def the_first_part_that_counters_allow(at: Stage) -> None:
    _whole_and_parts(at)
    at.claim("wish", at.exactly(2))
    at.pod("wish", gets=["half-0", "half-2"])


def a_counter_that_the_pool_lacks(at: Stage) -> None:
    at.node()
    _cut(at, _part("half-0", "20Gi", 0, 1), _part("odd", "10Gi", 7))
    at.claim("wish", at.exactly(1, at.has(size="20Gi")))
    at.pod("wish")


def counters_without_their_slice(at: Stage) -> None:
    at.node()
    at.usual(_part("whole", "40Gi", 0, 1, 2, 3), name="devices", of=2)
    at.claim("wish", at.exactly())
    at.pod("wish")
