"""Devices that take of shared counters: a GPU as a whole, or cut into parts."""

from tests.scheduler.scenario import Json, Scenario, device


def _part(name: str, size: str, *slots: int) -> Json:
    counters = {"memory": {"value": size}, **{f"slot-{slot}": {"value": "1"} for slot in slots}}
    return device(name, size=size, raw={"consumesCounters": [{"counterSet": "gpu-0", "counters": counters}]})


def _cut(scenario: Scenario, *parts: Json) -> None:
    """A GPU of 40Gi in four slots; its counters stand in a slice of their own."""
    scenario.class_and_slice(*parts, name="devices", of=2)
    counters = {"memory": {"value": "40Gi"}, **{f"slot-{slot}": {"value": "1"} for slot in range(4)}}
    scenario.slice(name="counters", of=2, sharedCounters=[{"name": "gpu-0", "counters": counters}])


def _whole_and_parts(scenario: Scenario) -> None:
    _cut(
        scenario,
        _part("whole", "40Gi", 0, 1, 2, 3),
        _part("half-0", "20Gi", 0, 1),
        _part("half-2", "20Gi", 2, 3),
        _part("quarter-1", "10Gi", 1),
    )


def a_whole_leaves_no_part(scenario: Scenario) -> None:
    _whole_and_parts(scenario)
    scenario.claim("theirs", scenario.exactly(1, scenario.has(size="40Gi")))
    scenario.pod("theirs", name="holder", gets=["whole"], earlier=True)
    scenario.claim("claim", scenario.exactly(1, scenario.has(size="10Gi")))
    scenario.pod("claim")


def a_part_leaves_no_whole(scenario: Scenario) -> None:
    _whole_and_parts(scenario)
    scenario.claim("theirs", scenario.exactly(1, scenario.has(size="10Gi")))
    scenario.pod("theirs", name="holder", gets=["quarter-1"], earlier=True)
    scenario.claim("claim", scenario.exactly(1, scenario.has(size="40Gi")))
    scenario.pod("claim")


def a_part_beside_a_part(scenario: Scenario) -> None:
    _whole_and_parts(scenario)
    scenario.claim("theirs", scenario.exactly(1, scenario.has(size="10Gi")))
    scenario.pod("theirs", name="holder", gets=["quarter-1"], earlier=True)
    scenario.claim("claim", scenario.exactly(1, scenario.has(size="20Gi")))
    scenario.pod("claim", gets=["half-2"])


def parts_in_one_claim(scenario: Scenario) -> None:
    _whole_and_parts(scenario)
    scenario.claim(
        "claim",
        scenario.exactly(1, scenario.has(size="20Gi"), "half"),
        scenario.exactly(1, scenario.has(size="10Gi"), "quarter"),
    )
    scenario.pod("claim", gets=["half-2", "quarter-1"])


def all_parts_do_not_fit(scenario: Scenario) -> None:
    _whole_and_parts(scenario)
    scenario.claim("claim", scenario.exactly(allocationMode="All"))
    scenario.pod("claim")


def the_first_part_that_counters_allow(scenario: Scenario) -> None:
    _whole_and_parts(scenario)
    scenario.claim("claim", scenario.exactly(2))
    scenario.pod("claim", gets=["half-0", "half-2"])


def a_counter_that_the_pool_lacks(scenario: Scenario) -> None:
    scenario.node()
    _cut(scenario, _part("half-0", "20Gi", 0, 1), _part("odd", "10Gi", 7))
    scenario.claim("claim", scenario.exactly(1, scenario.has(size="20Gi")))
    scenario.pod("claim")


def counters_without_their_slice(scenario: Scenario) -> None:
    scenario.node()
    scenario.class_and_slice(_part("whole", "40Gi", 0, 1, 2, 3), name="devices", of=2)
    scenario.claim("claim", scenario.exactly())
    scenario.pod("claim")
