"""Which nodes reach a device, and which pools count."""

from tests.scheduler.scenario import Json, Scenario, device, devices

LATE = {"bindingConditions": ["attached"], "bindingFailureConditions": ["broken"]}


def _labelled(**labels: str) -> Json:
    expressions = [{"key": key, "operator": "In", "values": [value]} for key, value in labels.items()]
    return {"nodeSelectorTerms": [{"matchExpressions": expressions}]}


def devices_of_all_nodes(scenario: Scenario) -> None:
    scenario.class_and_slice(*devices("gpu-0"), pool="fabric", allNodes=True)
    scenario.claim("claim", scenario.exactly())
    scenario.pod("claim", gets=["gpu-0"])


def a_device_of_all_nodes_that_binds_to_one(scenario: Scenario) -> None:
    scenario.node()
    scenario.class_and_slice(device("gpu-0", raw={"bindsToNode": True}), pool="binding-fabric", allNodes=True)
    scenario.claim("claim", scenario.exactly())
    scenario.pod("claim", gets=["gpu-0"])


def devices_of_labelled_nodes(scenario: Scenario) -> None:
    scenario.device_class()
    scenario.node("left", rack="rack-7")
    scenario.node("right", rack="rack-8")
    scenario.slice(*devices("gpu-0"), pool="rack-7", nodeSelector=_labelled(rack="rack-7"))
    scenario.claim("claim", scenario.exactly())
    scenario.pod("claim", gets=["gpu-0"])


def devices_of_nodes_that_are_not_there(scenario: Scenario) -> None:
    scenario.class_and_slice(*devices("gpu-0"), pool="rack-9", nodeSelector=_labelled(rack="rack-9"))
    scenario.claim("claim", scenario.exactly())
    scenario.pod("claim")


def devices_placed_one_by_one(scenario: Scenario) -> None:
    scenario.device_class()
    scenario.node()
    scenario.node("other")
    places = [
        device("gpu-0", raw={"nodeName": f"{scenario.name}-other"}),
        device("gpu-1", raw={"nodeName": scenario.name}),
        device("gpu-2", raw={"allNodes": True}),
    ]
    scenario.slice(*places, pool="one-by-one", perDeviceNodeSelection=True)
    scenario.claim("claim", scenario.exactly(2))
    scenario.pod("claim", gets=["gpu-0", "gpu-2"], on="other")


def a_node_without_devices(scenario: Scenario) -> None:
    scenario.node()
    scenario.class_and_slice(*devices("gpu-0"))
    scenario.node("bare")
    scenario.claim("claim", scenario.exactly())
    scenario.pod("claim", on="bare")


def devices_of_two_nodes_do_not_add_up(scenario: Scenario) -> None:
    scenario.node()
    scenario.class_and_slice(*devices("gpu-0"))
    scenario.node("b")
    scenario.slice(*devices("gpu-0"), node="b")
    scenario.claim("claim", scenario.exactly(2))
    scenario.pod("claim")


def an_incomplete_pool(scenario: Scenario) -> None:
    scenario.node()
    scenario.class_and_slice(*devices("gpu-0"), of=2)
    scenario.claim("claim", scenario.exactly())
    scenario.pod("claim")


def all_of_an_incomplete_pool(scenario: Scenario) -> None:
    scenario.node()
    scenario.class_and_slice(*devices("gpu-0"), of=2)
    scenario.claim("claim", scenario.exactly(allocationMode="All"))
    scenario.pod("claim", fails=True)


def a_generation_that_is_over(scenario: Scenario) -> None:
    scenario.node()
    scenario.class_and_slice(*devices("old-0", "old-1"), name="old", generation=1)
    scenario.slice(*devices("new-0"), name="new", generation=2)
    scenario.claim("claim", scenario.exactly())
    scenario.pod("claim", gets=["new-0"])


def two_devices_of_one_name(scenario: Scenario) -> None:
    scenario.node()
    scenario.class_and_slice(*devices("gpu-0"), name="a", of=2)
    scenario.slice(*devices("gpu-0"), name="b", of=2)
    scenario.claim("claim", scenario.exactly())
    scenario.pod("claim")


def another_pool_beside_an_invalid_one(scenario: Scenario) -> None:
    scenario.node()
    scenario.class_and_slice(*devices("gpu-0"), pool="invalid-a", name="a", of=2)
    scenario.slice(*devices("gpu-0"), pool="invalid-a", name="b", of=2)
    scenario.slice(*devices("gpu-1"), pool="valid-b")
    scenario.claim("claim", scenario.exactly())
    scenario.pod("claim", gets=["gpu-1"])


def all_beside_an_invalid_pool(scenario: Scenario) -> None:
    scenario.node()
    scenario.class_and_slice(*devices("gpu-0"), pool="doubled-a", name="a", of=2)
    scenario.slice(*devices("gpu-0"), pool="doubled-a", name="b", of=2)
    scenario.slice(*devices("gpu-1"), pool="sound-b")
    scenario.claim("claim", scenario.exactly(allocationMode="All"))
    scenario.pod("claim", fails=True)


def a_device_that_binds_late(scenario: Scenario) -> None:
    scenario.class_and_slice(device("late-0", raw=LATE), pool="late-a")
    scenario.claim("claim", scenario.exactly())
    scenario.pod("claim", gets=["late-0"], binds=True)


def pools_that_bind_late_come_last(scenario: Scenario) -> None:
    scenario.class_and_slice(device("late-0", raw=LATE), pool="last-a")
    scenario.slice(*devices("gpu-0"), pool="last-b")
    scenario.claim("claim", scenario.exactly())
    scenario.pod("claim", gets=["gpu-0"])
