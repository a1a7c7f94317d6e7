"""Devices that are held, claims that are shared, templates, and configuration for drivers."""

from tests.scheduler.stage import Json, Stage, device, devices


def _for(at: Stage, level: str, *requests: str) -> Json:
    opaque = {"driver": at.driver, "parameters": {"apiVersion": "example.com/v1", "level": level}}
    return {"opaque": opaque} | ({"requests": list(requests)} if requests else {})


def a_held_device(at: Stage) -> None:
    at.usual(*devices("gpu-0", "gpu-1"))
    at.claim("theirs", at.exactly())
    at.pod("theirs", name="holder", gets=["gpu-0"], earlier=True)
    at.claim("wish", at.exactly())
    at.pod("wish", gets=["gpu-1"])


def every_device_is_held(at: Stage) -> None:
    at.usual(*devices("gpu-0", "gpu-1"))
    at.claim("theirs", at.exactly(2))
    at.pod("theirs", name="holder", gets=["gpu-0", "gpu-1"], earlier=True)
    at.claim("wish", at.exactly())
    at.pod("wish")


def all_with_one_held(at: Stage) -> None:
    at.usual(*devices("gpu-0", "gpu-1"))
    at.claim("theirs", at.exactly())
    at.pod("theirs", name="holder", gets=["gpu-0"], earlier=True)
    at.claim("wish", at.exactly(allocationMode="All"))
    at.pod("wish")


def a_shared_claim(at: Stage) -> None:
    at.usual(*devices("gpu-0"))
    at.claim("shared", at.exactly())
    at.pod("shared", name="first", gets=["gpu-0"], earlier=True)
    at.pod("shared", name="second", gets=["gpu-0"])


def two_pods_for_one_new_claim(at: Stage) -> None:
    at.usual(*devices("gpu-0"))
    at.claim("shared", at.exactly())
    at.pod("shared", name="one", gets=["gpu-0"])
    at.pod("shared", name="other", gets=["gpu-0"])


def a_claim_that_is_held_on_another_node(at: Stage) -> None:
    at.node()
    at.usual(*devices("gpu-0"))
    at.node("b")
    at.slice(*devices("gpu-0"), node="b")
    at.claim("shared", at.exactly())
    at.pod("shared", name="holder", gets=["gpu-0"], earlier=True, on="b")
    at.claim("own", at.exactly())
    at.pod("shared", "own", name="follower")


def a_held_claim_beside_a_new_one(at: Stage) -> None:
    at.node()
    at.usual(*devices("gpu-0"))
    at.node("b")
    at.slice(*devices("gpu-0", "gpu-1"), node="b")
    at.claim("shared", at.exactly())
    at.pod("shared", name="holder", gets=["gpu-0"], earlier=True, on="b")
    at.claim("own", at.exactly())
    at.pod("shared", "own", name="follower", gets=["gpu-0", "gpu-1"])


def a_template_for_each_pod(at: Stage) -> None:
    at.usual(*devices("gpu-0", "gpu-1"))
    at.template("each", at.exactly())
    at.pod("each", name="first", gets=["gpu-0"], earlier=True)
    at.pod("each", name="second", gets=["gpu-1"])


def configuration_of_class_and_claim(at: Stage) -> None:
    at.device_class(config=[_for(at, "class")])
    at.slice(*devices("gpu-0"))
    at.claim("wish", at.exactly(), config=[_for(at, "claim")])
    at.pod("wish", gets=["gpu-0"])


def configuration_of_one_request(at: Stage) -> None:
    at.device_class(config=[_for(at, "first"), _for(at, "second")])
    at.device_class("plain.example.com", f"device.driver == '{at.driver}'")
    at.slice(*devices("gpu-0", "gpu-1", "gpu-2"))
    requests = [
        at.exactly(name="one"),
        at.exactly(name="plain", klass="plain.example.com"),
        at.exactly(name="two"),
    ]
    at.claim("wish", *requests, config=[_for(at, "two", "two"), _for(at, "both", "one", "plain", "two")])
    at.pod("wish", gets=["gpu-0", "gpu-1", "gpu-2"])


def configuration_of_an_alternative(at: Stage) -> None:
    at.usual(device("gpu-0", size=40))
    alternatives = [
        {"name": "large", **at.asks(1, at.has(size=80))},
        {"name": "small", **at.asks(1, at.has(size=40))},
    ]
    config = [_for(at, "large", "gpu/large"), _for(at, "small", "gpu/small"), _for(at, "any", "gpu")]
    at.claim("wish", {"name": "gpu", "firstAvailable": alternatives}, config=config)
    at.pod("wish", gets=["gpu-0"])
