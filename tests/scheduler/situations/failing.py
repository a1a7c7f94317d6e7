"""What no waiting helps: classes that are missing, and selectors that fail on a device."""

from tests.scheduler.scenario import Scenario, device, devices


def a_class_that_is_missing(scenario: Scenario) -> None:
    scenario.slice(*devices("gpu-0"))
    scenario.claim("claim", scenario.exactly())
    scenario.pod("claim", fails=True)


def a_selector_that_fails(scenario: Scenario) -> None:
    scenario.class_and_slice(device("gpu-0", other=1))
    scenario.claim("claim", scenario.exactly(where=scenario.has(size=80)))
    scenario.pod("claim", fails=True)


def a_selector_that_fails_on_a_later_device(scenario: Scenario) -> None:
    scenario.class_and_slice(device("gpu-0", size=80), device("gpu-1", other=1))
    scenario.claim("claim", scenario.exactly(where=scenario.has(size=80)))
    scenario.pod("claim", gets=["gpu-0"])


def a_selector_that_fails_on_another_node(scenario: Scenario) -> None:
    scenario.node()
    scenario.class_and_slice(device("gpu-0", size=80))
    scenario.node("b")
    scenario.slice(device("gpu-1", other=1), node="b")
    scenario.claim("claim", scenario.exactly(where=scenario.has(size=80)))
    scenario.pod("claim", fails=True)


def a_selector_that_fails_on_a_held_device(scenario: Scenario) -> None:
    scenario.class_and_slice(device("gpu-0", other=1), device("gpu-1", size=80))
    scenario.claim("theirs", scenario.exactly())
    scenario.pod("theirs", name="holder", gets=["gpu-0"], earlier=True)
    scenario.claim("claim", scenario.exactly(where=scenario.has(size=80)))
    scenario.pod("claim", gets=["gpu-1"])


def a_selector_that_fails_before_all_are_known(scenario: Scenario) -> None:
    scenario.class_and_slice(device("gpu-0", size=80), device("gpu-1", other=1))
    scenario.claim("claim", scenario.exactly(where=scenario.has(size=80), allocationMode="All"))
    scenario.pod("claim", fails=True)


def a_selector_of_a_class_that_fails(scenario: Scenario) -> None:
    scenario.device_class(expression=f"device.driver == '{scenario.driver}' && {scenario.has(size=80)}")
    scenario.slice(device("gpu-0", other=1))
    scenario.claim("claim", scenario.exactly())
    scenario.pod("claim", fails=True)


def an_error_that_the_other_side_decides(scenario: Scenario) -> None:
    scenario.class_and_slice(device("gpu-0", other=1), device("gpu-1", size=80))
    scenario.claim("claim", scenario.exactly(where=f"({scenario.has(size=80)}) || ({scenario.has(other=1)})"))
    scenario.pod("claim", gets=["gpu-0"])


def a_text_compared_with_a_number(scenario: Scenario) -> None:
    scenario.class_and_slice(device("gpu-0", size="80"))
    scenario.claim("claim", scenario.exactly(where=scenario.has(size=80)))
    scenario.pod("claim")


def a_text_ordered_with_a_number(scenario: Scenario) -> None:
    scenario.class_and_slice(device("gpu-0", size="80"))
    scenario.claim("claim", scenario.exactly(where=f"device.attributes['{scenario.driver}'].size >= 80"))
    scenario.pod("claim", fails=True)


def a_domain_that_nobody_has(scenario: Scenario) -> None:
    scenario.class_and_slice(device("gpu-0", size=80))
    scenario.claim("claim", scenario.exactly(where="'elsewhere.example.com' in device.attributes"))
    scenario.pod("claim")
