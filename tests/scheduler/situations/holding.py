"""Devices that are held, claims that are shared, templates, and configuration for drivers."""

from tests.scheduler.scenario import Json, Scenario, device, devices


def _for(scenario: Scenario, level: str, *requests: str) -> Json:
    opaque = {"driver": scenario.driver, "parameters": {"apiVersion": "example.com/v1", "level": level}}
    return {"opaque": opaque} | ({"requests": list(requests)} if requests else {})


def a_held_device(scenario: Scenario) -> None:
    scenario.class_and_slice(*devices("gpu-0", "gpu-1"))
    scenario.claim("theirs", scenario.exactly())
    scenario.pod("theirs", name="holder", gets=["gpu-0"], earlier=True)
    scenario.claim("claim", scenario.exactly())
    scenario.pod("claim", gets=["gpu-1"])


def every_device_is_held(scenario: Scenario) -> None:
    scenario.class_and_slice(*devices("gpu-0", "gpu-1"))
    scenario.claim("theirs", scenario.exactly(2))
    scenario.pod("theirs", name="holder", gets=["gpu-0", "gpu-1"], earlier=True)
    scenario.claim("claim", scenario.exactly())
    scenario.pod("claim")


def all_with_one_held(scenario: Scenario) -> None:
    scenario.class_and_slice(*devices("gpu-0", "gpu-1"))
    scenario.claim("theirs", scenario.exactly())
    scenario.pod("theirs", name="holder", gets=["gpu-0"], earlier=True)
    scenario.claim("claim", scenario.exactly(allocationMode="All"))
    scenario.pod("claim")


def a_shared_claim(scenario: Scenario) -> None:
    scenario.class_and_slice(*devices("gpu-0"))
    scenario.claim("shared", scenario.exactly())
    scenario.pod("shared", name="first", gets=["gpu-0"], earlier=True)
    scenario.pod("shared", name="second", gets=["gpu-0"])


def two_pods_for_one_new_claim(scenario: Scenario) -> None:
    scenario.class_and_slice(*devices("gpu-0"))
    scenario.claim("shared", scenario.exactly())
    scenario.pod("shared", name="one", gets=["gpu-0"])
    scenario.pod("shared", name="other", gets=["gpu-0"])


def a_claim_that_is_held_on_another_node(scenario: Scenario) -> None:
    scenario.node()
    scenario.class_and_slice(*devices("gpu-0"))
    scenario.node("b")
    scenario.slice(*devices("gpu-0"), node="b")
    scenario.claim("shared", scenario.exactly())
    scenario.pod("shared", name="holder", gets=["gpu-0"], earlier=True, on="b")
    scenario.claim("own", scenario.exactly())
    scenario.pod("shared", "own", name="follower")


def a_held_claim_beside_a_new_one(scenario: Scenario) -> None:
    scenario.node()
    scenario.class_and_slice(*devices("gpu-0"))
    scenario.node("b")
    scenario.slice(*devices("gpu-0", "gpu-1"), node="b")
    scenario.claim("shared", scenario.exactly())
    scenario.pod("shared", name="holder", gets=["gpu-0"], earlier=True, on="b")
    scenario.claim("own", scenario.exactly())
    scenario.pod("shared", "own", name="follower", gets=["gpu-0", "gpu-1"])


def a_template_for_each_pod(scenario: Scenario) -> None:
    scenario.class_and_slice(*devices("gpu-0", "gpu-1"))
    scenario.template("each", scenario.exactly())
    scenario.pod("each", name="first", gets=["gpu-0"], earlier=True)
    scenario.pod("each", name="second", gets=["gpu-1"])


def configuration_of_class_and_claim(scenario: Scenario) -> None:
    scenario.device_class(config=[_for(scenario, "class")])
    scenario.slice(*devices("gpu-0"))
    scenario.claim("claim", scenario.exactly(), config=[_for(scenario, "claim")])
    scenario.pod("claim", gets=["gpu-0"])


def configuration_of_one_request(scenario: Scenario) -> None:
    scenario.device_class(config=[_for(scenario, "first"), _for(scenario, "second")])
    scenario.device_class("plain.example.com", f"device.driver == '{scenario.driver}'")
    scenario.slice(*devices("gpu-0", "gpu-1", "gpu-2"))
    requests = [
        scenario.exactly(name="one"),
        scenario.exactly(name="plain", class_name="plain.example.com"),
        scenario.exactly(name="two"),
    ]
    scenario.claim(
        "claim",
        *requests,
        config=[_for(scenario, "two", "two"), _for(scenario, "both", "one", "plain", "two")],
    )
    scenario.pod("claim", gets=["gpu-0", "gpu-1", "gpu-2"])


def configuration_of_an_alternative(scenario: Scenario) -> None:
    scenario.class_and_slice(device("gpu-0", size=40))
    alternatives = [
        {"name": "large", **scenario.exact_request(1, scenario.has(size=80))},
        {"name": "small", **scenario.exact_request(1, scenario.has(size=40))},
    ]
    config = [
        _for(scenario, "large", "gpu/large"),
        _for(scenario, "small", "gpu/small"),
        _for(scenario, "any", "gpu"),
    ]
    scenario.claim("claim", {"name": "gpu", "firstAvailable": alternatives}, config=config)
    scenario.pod("claim", gets=["gpu-0"])
