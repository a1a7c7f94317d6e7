"""`matchAttribute` and `distinctAttribute`."""

from tests.scheduler.scenario import Json, Scenario, device


def _match(scenario: Scenario, *requests: str) -> list[Json]:
    return [{"requests": list(requests), "matchAttribute": f"{scenario.driver}/root"}]


def _distinct(scenario: Scenario, *requests: str) -> list[Json]:
    return [{"requests": list(requests), "distinctAttribute": f"{scenario.driver}/root"}]


def two_on_one_root(scenario: Scenario) -> None:
    scenario.class_and_slice(device("gpu-0", root="a"), device("gpu-1", root="b"), device("gpu-2", root="b"))
    scenario.claim("claim", scenario.exactly(2), constraints=_match(scenario, "gpu"))
    scenario.pod("claim", gets=["gpu-1", "gpu-2"])


def a_device_without_the_attribute(scenario: Scenario) -> None:
    scenario.class_and_slice(device("gpu-0"), device("gpu-1", root="b"), device("gpu-2", root="b"))
    scenario.claim("claim", scenario.exactly(2), constraints=_match(scenario, "gpu"))
    scenario.pod("claim", gets=["gpu-1", "gpu-2"])


def an_attribute_that_nobody_publishes(scenario: Scenario) -> None:
    scenario.class_and_slice(device("gpu-0"), device("gpu-1"))
    scenario.claim("claim", scenario.exactly(1), constraints=_match(scenario, "gpu"))
    scenario.pod("claim")


def a_number_is_not_the_same_text(scenario: Scenario) -> None:
    scenario.class_and_slice(device("gpu-0", root="1"), device("gpu-1", root=1))
    scenario.claim("claim", scenario.exactly(2), constraints=_match(scenario, "gpu"))
    scenario.pod("claim")


def no_two_on_one_root(scenario: Scenario) -> None:
    scenario.class_and_slice(device("gpu-0", root="a"), device("gpu-1", root="b"))
    scenario.claim("claim", scenario.exactly(2), constraints=_match(scenario, "gpu"))
    scenario.pod("claim")


def one_root_across_requests(scenario: Scenario) -> None:
    scenario.class_and_slice(
        device("gpu-0", root="a", size=80),
        device("gpu-1", root="b", size=80),
        device("gpu-2", root="b", size=40),
    )
    requests = [
        scenario.exactly(1, scenario.has(size=80), "large"),
        scenario.exactly(1, scenario.has(size=40), "small"),
    ]
    scenario.claim("claim", *requests, constraints=_match(scenario, "large", "small"))
    scenario.pod("claim", gets=["gpu-1", "gpu-2"])


def a_constraint_on_one_request(scenario: Scenario) -> None:
    scenario.class_and_slice(device("gpu-0", root="a"), device("gpu-1", root="b"), device("gpu-2", root="b"))
    requests = [scenario.exactly(1, name="any"), scenario.exactly(2, name="pair")]
    scenario.claim("claim", *requests, constraints=_match(scenario, "pair"))
    scenario.pod("claim", gets=["gpu-0", "gpu-1", "gpu-2"])


def a_constraint_without_requests_is_on_all(scenario: Scenario) -> None:
    scenario.class_and_slice(device("gpu-0", root="a"), device("gpu-1", root="b"), device("gpu-2", root="b"))
    requests = [scenario.exactly(1, name="one"), scenario.exactly(1, name="other")]
    scenario.claim("claim", *requests, constraints=[{"matchAttribute": f"{scenario.driver}/root"}])
    scenario.pod("claim", gets=["gpu-1", "gpu-2"])


def two_on_different_roots(scenario: Scenario) -> None:
    scenario.class_and_slice(device("gpu-0", root="a"), device("gpu-1", root="a"), device("gpu-2", root="b"))
    scenario.claim("claim", scenario.exactly(2), constraints=_distinct(scenario, "gpu"))
    scenario.pod("claim", gets=["gpu-0", "gpu-2"])


def no_two_on_different_roots(scenario: Scenario) -> None:
    scenario.class_and_slice(device("gpu-0", root="a"), device("gpu-1", root="a"))
    scenario.claim("claim", scenario.exactly(2), constraints=_distinct(scenario, "gpu"))
    scenario.pod("claim")


def all_against_a_constraint(scenario: Scenario) -> None:
    scenario.class_and_slice(device("gpu-0", root="a"), device("gpu-1", root="b"))
    scenario.claim("claim", scenario.exactly(allocationMode="All"), constraints=_match(scenario, "gpu"))
    scenario.pod("claim", fails=True)
