"""What no waiting helps: classes that are missing, and selectors that fail on a device."""

from tests.scheduler.stage import Stage, device, devices


def a_class_that_is_missing(at: Stage) -> None:
    at.slice(*devices("gpu-0"))
    at.claim("wish", at.exactly())
    at.pod("wish", fails=True)


def a_selector_that_fails(at: Stage) -> None:
    at.usual(device("gpu-0", other=1))
    at.claim("wish", at.exactly(where=at.has(size=80)))
    at.pod("wish", fails=True)


def a_selector_that_fails_on_a_later_device(at: Stage) -> None:
    at.usual(device("gpu-0", size=80), device("gpu-1", other=1))
    at.claim("wish", at.exactly(where=at.has(size=80)))
    at.pod("wish", gets=["gpu-0"])


def a_selector_that_fails_on_another_node(at: Stage) -> None:
    at.node()
    at.usual(device("gpu-0", size=80))
    at.node("b")
    at.slice(device("gpu-1", other=1), node="b")
    at.claim("wish", at.exactly(where=at.has(size=80)))
    at.pod("wish", fails=True)


def a_selector_that_fails_on_a_held_device(at: Stage) -> None:
    at.usual(device("gpu-0", other=1), device("gpu-1", size=80))
    at.claim("theirs", at.exactly())
    at.pod("theirs", name="holder", gets=["gpu-0"], earlier=True)
    at.claim("wish", at.exactly(where=at.has(size=80)))
    at.pod("wish", gets=["gpu-1"])


def a_selector_that_fails_before_all_are_known(at: Stage) -> None:
    at.usual(device("gpu-0", size=80), device("gpu-1", other=1))
    at.claim("wish", at.exactly(where=at.has(size=80), allocationMode="All"))
    at.pod("wish", fails=True)


def a_selector_of_a_class_that_fails(at: Stage) -> None:
    at.device_class(expression=f"device.driver == '{at.driver}' && {at.has(size=80)}")
    at.slice(device("gpu-0", other=1))
    at.claim("wish", at.exactly())
    at.pod("wish", fails=True)


def an_error_that_the_other_side_decides(at: Stage) -> None:
    at.usual(device("gpu-0", other=1), device("gpu-1", size=80))
    at.claim("wish", at.exactly(where=f"({at.has(size=80)}) || ({at.has(other=1)})"))
    at.pod("wish", gets=["gpu-0"])


def a_text_compared_with_a_number(at: Stage) -> None:
    at.usual(device("gpu-0", size="80"))
    at.claim("wish", at.exactly(where=at.has(size=80)))
    at.pod("wish")


def a_text_ordered_with_a_number(at: Stage) -> None:
    at.usual(device("gpu-0", size="80"))
    at.claim("wish", at.exactly(where=f"device.attributes['{at.driver}'].size >= 80"))
    at.pod("wish", fails=True)


def a_domain_that_nobody_has(at: Stage) -> None:
    at.usual(device("gpu-0", size=80))
    at.claim("wish", at.exactly(where="'elsewhere.example.com' in device.attributes"))
    at.pod("wish")
