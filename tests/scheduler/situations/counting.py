"""How many devices, and in which order they are tried."""

from tests.scheduler.scenario import Scenario, device, devices


def two_of_three(scenario: Scenario) -> None:
    scenario.class_and_slice(*devices("gpu-0", "gpu-1", "gpu-2"))
    scenario.claim("claim", scenario.exactly(2))
    scenario.pod("claim", gets=["gpu-0", "gpu-1"])


def no_count_is_one(scenario: Scenario) -> None:
    scenario.class_and_slice(*devices("gpu-0", "gpu-1"))
    scenario.claim("claim", scenario.exactly())
    scenario.pod("claim", gets=["gpu-0"])


def a_count_of_nothing_is_one(scenario: Scenario) -> None:
    scenario.class_and_slice(*devices("gpu-0", "gpu-1"))
    scenario.claim("claim", scenario.exactly(0))
    scenario.pod("claim", gets=["gpu-0"])


def four_of_three(scenario: Scenario) -> None:
    scenario.class_and_slice(*devices("gpu-0", "gpu-1", "gpu-2"))
    scenario.claim("claim", scenario.exactly(4))
    scenario.pod("claim")


def all_that_match(scenario: Scenario) -> None:
    scenario.class_and_slice(device("gpu-0", size=80), device("gpu-1", size=40), device("gpu-2", size=80))
    scenario.claim("claim", scenario.exactly(where=scenario.has(size=80), allocationMode="All"))
    scenario.pod("claim", gets=["gpu-0", "gpu-2"])


def all_of_none(scenario: Scenario) -> None:
    scenario.class_and_slice(device("gpu-0", size=80))
    scenario.claim("claim", scenario.exactly(where=scenario.has(size=40), allocationMode="All"))
    scenario.pod("claim")


def requests_in_order(scenario: Scenario) -> None:
    scenario.class_and_slice(device("gpu-0", size=80), device("gpu-1", size=40), device("gpu-2", size=40))
    scenario.claim(
        "claim",
        scenario.exactly(2, scenario.has(size=40), "small"),
        scenario.exactly(1, scenario.has(size=80), "large"),
    )
    scenario.pod("claim", gets=["gpu-1", "gpu-2", "gpu-0"])


def an_earlier_request_gives_way(scenario: Scenario) -> None:
    scenario.class_and_slice(device("gpu-0", size=80), device("gpu-1", size=40))
    scenario.claim(
        "claim", scenario.exactly(1, name="any"), scenario.exactly(1, scenario.has(size=80), "large")
    )
    scenario.pod("claim", gets=["gpu-1", "gpu-0"])


def claims_in_order(scenario: Scenario) -> None:
    scenario.class_and_slice(*devices("gpu-0", "gpu-1", "gpu-2"))
    scenario.claim("second", scenario.exactly(1))
    scenario.claim("first", scenario.exactly(2))
    scenario.pod("first", "second", gets=["gpu-0", "gpu-1", "gpu-2"])


def claims_that_do_not_fit_together(scenario: Scenario) -> None:
    scenario.class_and_slice(*devices("gpu-0", "gpu-1", "gpu-2"))
    scenario.claim("one", scenario.exactly(2))
    scenario.claim("other", scenario.exactly(2))
    scenario.pod("one", "other")


def devices_in_the_order_of_the_slice(scenario: Scenario) -> None:
    scenario.class_and_slice(*devices("gpu-2", "gpu-0", "gpu-1"))
    scenario.claim("claim", scenario.exactly(2))
    scenario.pod("claim", gets=["gpu-2", "gpu-0"])


def slices_in_the_order_of_their_names(scenario: Scenario) -> None:
    scenario.class_and_slice(*devices("gpu-0"), name="b", of=2)
    scenario.slice(*devices("gpu-1"), name="a", of=2)
    scenario.claim("claim", scenario.exactly(2))
    scenario.pod("claim", gets=["gpu-1", "gpu-0"])


def pools_in_the_order_of_their_names(scenario: Scenario) -> None:
    scenario.class_and_slice(*devices("gpu-0"), pool="pools-b")
    scenario.slice(*devices("gpu-1"), pool="pools-a")
    scenario.claim("claim", scenario.exactly(2))
    scenario.pod("claim", gets=["gpu-1", "gpu-0"])


def thirty_two(scenario: Scenario) -> None:
    names = [f"gpu-{number:02}" for number in range(33)]
    scenario.class_and_slice(*devices(*names))
    scenario.claim("claim", scenario.exactly(32))
    scenario.pod("claim", gets=names[:32])


def thirty_three(scenario: Scenario) -> None:
    scenario.class_and_slice(*devices(*(f"gpu-{number:02}" for number in range(33))))
    scenario.claim("claim", scenario.exactly(33))
    scenario.pod("claim", fails=True)


def thirty_three_in_two_requests(scenario: Scenario) -> None:
    scenario.class_and_slice(*devices(*(f"gpu-{number:02}" for number in range(33))))
    scenario.claim("claim", scenario.exactly(20, name="some"), scenario.exactly(13, name="more"))
    scenario.pod("claim", fails=True)


def all_of_thirty_three(scenario: Scenario) -> None:
    scenario.class_and_slice(*devices(*(f"gpu-{number:02}" for number in range(33))))
    scenario.claim("claim", scenario.exactly(allocationMode="All"))
    scenario.pod("claim", fails=True)
