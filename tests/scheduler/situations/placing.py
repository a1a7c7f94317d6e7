"""Which nodes reach a device, and which pools count."""

from tests.scheduler.stage import Json, Stage, device, devices

LATE = {"bindingConditions": ["attached"], "bindingFailureConditions": ["broken"]}


def _labelled(**labels: str) -> Json:
    expressions = [{"key": key, "operator": "In", "values": [value]} for key, value in labels.items()]
    return {"nodeSelectorTerms": [{"matchExpressions": expressions}]}


def devices_of_all_nodes(at: Stage) -> None:
    at.usual(*devices("gpu-0"), pool="fabric", allNodes=True)
    at.claim("wish", at.exactly())
    at.pod("wish", gets=["gpu-0"])


def a_device_of_all_nodes_that_binds_to_one(at: Stage) -> None:
    at.node()
    at.usual(device("gpu-0", raw={"bindsToNode": True}), pool="binding-fabric", allNodes=True)
    at.claim("wish", at.exactly())
    at.pod("wish", gets=["gpu-0"])


def devices_of_labelled_nodes(at: Stage) -> None:
    at.device_class()
    at.node("left", rack="rack-7")
    at.node("right", rack="rack-8")
    at.slice(*devices("gpu-0"), pool="rack-7", nodeSelector=_labelled(rack="rack-7"))
    at.claim("wish", at.exactly())
    at.pod("wish", gets=["gpu-0"])


def devices_of_nodes_that_are_not_there(at: Stage) -> None:
    at.usual(*devices("gpu-0"), pool="rack-9", nodeSelector=_labelled(rack="rack-9"))
    at.claim("wish", at.exactly())
    at.pod("wish")


def devices_placed_one_by_one(at: Stage) -> None:
    at.device_class()
    at.node()
    at.node("other")
    places = [
        device("gpu-0", raw={"nodeName": f"{at.name}-other"}),
        device("gpu-1", raw={"nodeName": at.name}),
        device("gpu-2", raw={"allNodes": True}),
    ]
    at.slice(*places, pool="one-by-one", perDeviceNodeSelection=True)
    at.claim("wish", at.exactly(2))
    at.pod("wish", gets=["gpu-0", "gpu-2"], on="other")


def a_node_without_devices(at: Stage) -> None:
    at.node()
    at.usual(*devices("gpu-0"))
    at.node("bare")
    at.claim("wish", at.exactly())
    at.pod("wish", on="bare")


def devices_of_two_nodes_do_not_add_up(at: Stage) -> None:
    at.node()
    at.usual(*devices("gpu-0"))
    at.node("b")
    at.slice(*devices("gpu-0"), node="b")
    at.claim("wish", at.exactly(2))
    at.pod("wish")


def an_incomplete_pool(at: Stage) -> None:
    at.node()
    at.usual(*devices("gpu-0"), of=2)
    at.claim("wish", at.exactly())
    at.pod("wish")


def all_of_an_incomplete_pool(at: Stage) -> None:
    at.node()
    at.usual(*devices("gpu-0"), of=2)
    at.claim("wish", at.exactly(allocationMode="All"))
    at.pod("wish", fails=True)


def a_generation_that_is_over(at: Stage) -> None:
    at.node()
    at.usual(*devices("old-0", "old-1"), name="old", generation=1)
    at.slice(*devices("new-0"), name="new", generation=2)
    at.claim("wish", at.exactly())
    at.pod("wish", gets=["new-0"])


def two_devices_of_one_name(at: Stage) -> None:
    at.node()
    at.usual(*devices("gpu-0"), name="a", of=2)
    at.slice(*devices("gpu-0"), name="b", of=2)
    at.claim("wish", at.exactly())
    at.pod("wish")


def another_pool_beside_an_invalid_one(at: Stage) -> None:
    at.node()
    at.usual(*devices("gpu-0"), pool="invalid-a", name="a", of=2)
    at.slice(*devices("gpu-0"), pool="invalid-a", name="b", of=2)
    at.slice(*devices("gpu-1"), pool="valid-b")
    at.claim("wish", at.exactly())
    at.pod("wish", gets=["gpu-1"])


def all_beside_an_invalid_pool(at: Stage) -> None:
    at.node()
    at.usual(*devices("gpu-0"), pool="doubled-a", name="a", of=2)
    at.slice(*devices("gpu-0"), pool="doubled-a", name="b", of=2)
    at.slice(*devices("gpu-1"), pool="sound-b")
    at.claim("wish", at.exactly(allocationMode="All"))
    at.pod("wish", fails=True)


def a_device_that_binds_late(at: Stage) -> None:
    at.usual(device("late-0", raw=LATE), pool="late-a")
    at.claim("wish", at.exactly())
    at.pod("wish", gets=["late-0"], binds=True)


def pools_that_bind_late_come_last(at: Stage) -> None:
    at.usual(device("late-0", raw=LATE), pool="last-a")
    at.slice(*devices("gpu-0"), pool="last-b")
    at.claim("wish", at.exactly())
    at.pod("wish", gets=["gpu-0"])
