"""Pools as the nodes see them: shared names, contradictory counts, and what refuses mode All everywhere."""

from tests.scheduler.scenario import Scenario, devices


def _two_nodes(scenario: Scenario, second: str = "gpu-1", *, of: int = 1) -> None:
    """Publish a pool of one name on two nodes."""
    scenario.node()
    scenario.node("b")
    scenario.class_and_slice(*devices("gpu-0"), pool="shared", name="a", of=of)
    scenario.slice(*devices(second), node="b", pool="shared", name="b", of=of)


def a_pool_name_that_nodes_share(scenario: Scenario) -> None:
    _two_nodes(scenario)
    for number, node in enumerate(("", "b")):
        scenario.claim(f"claim-{number}", scenario.exactly())
        scenario.pod(f"claim-{number}", name=f"pod-{number}", gets=[f"gpu-{number}"], on=node)


def a_pool_name_that_nodes_share_has_one_device_each(scenario: Scenario) -> None:
    _two_nodes(scenario)
    scenario.claim("claim", scenario.exactly(2))
    scenario.pod("claim")


def a_pool_name_and_generation_of_each_node(scenario: Scenario) -> None:
    scenario.node()
    scenario.node("b")
    scenario.class_and_slice(*devices("gpu-0"), pool="renewed", name="a")
    scenario.slice(*devices("gpu-1"), node="b", pool="renewed", name="b", generation=2)
    scenario.claim("claim", scenario.exactly())
    scenario.pod("claim", gets=["gpu-1"], on="b")


def a_device_name_that_nodes_share_while_both_are_free(scenario: Scenario) -> None:
    _two_nodes(scenario, "gpu-0")
    scenario.claim("claim", scenario.exactly())
    scenario.pod("claim", gets=["gpu-0"], on="b")


def a_device_name_that_nodes_share_while_one_is_held(scenario: Scenario) -> None:
    _two_nodes(scenario, "gpu-0")
    scenario.claim("theirs", scenario.exactly())
    scenario.pod("theirs", name="holder", gets=["gpu-0"], earlier=True, on="b")
    scenario.claim("claim", scenario.exactly())
    scenario.pod("claim")


def a_device_name_that_nodes_share_in_one_pool(scenario: Scenario) -> None:
    _two_nodes(scenario, "gpu-0", of=2)
    scenario.claim("claim", scenario.exactly())
    scenario.pod("claim", gets=["gpu-0"], on="b")


def a_pool_that_lacks_a_slice_of_a_third_node(scenario: Scenario) -> None:
    _two_nodes(scenario, of=3)
    scenario.claim("claim", scenario.exactly())
    scenario.pod("claim")


def a_pool_whose_new_generation_is_on_another_node(scenario: Scenario) -> None:
    scenario.node()
    scenario.node("b")
    scenario.class_and_slice(*devices("gpu-0"), pool="moving", name="a", of=2)
    scenario.slice(*devices("gpu-1"), node="b", pool="moving", name="b", of=2, generation=2)
    scenario.claim("claim", scenario.exactly())
    scenario.pod("claim")


def slices_that_agree_on_their_number(scenario: Scenario) -> None:
    scenario.node()
    scenario.class_and_slice(*devices("gpu-0"), name="a", of=2)
    scenario.slice(*devices("gpu-1"), name="b", of=2)
    scenario.claim("claim", scenario.exactly(2))
    scenario.pod("claim", gets=["gpu-0", "gpu-1"])


def slices_that_disagree_on_their_number(scenario: Scenario) -> None:
    scenario.node()
    # Of 1 and 2, the scheduler believes the slice that it happens to list first.
    scenario.class_and_slice(*devices("gpu-0"), name="a", of=1)
    scenario.slice(*devices("gpu-1"), name="b", of=3)
    scenario.claim("claim", scenario.exactly())
    scenario.pod("claim")


def more_slices_than_they_say(scenario: Scenario) -> None:
    scenario.node()
    scenario.class_and_slice(*devices("gpu-0"), name="a", of=1)
    scenario.slice(*devices("gpu-1"), name="b", of=1)
    scenario.claim("claim", scenario.exactly())
    scenario.pod("claim")


def all_beside_a_whole_pool_of_another_node(scenario: Scenario) -> None:
    scenario.node()
    scenario.class_and_slice(*devices("gpu-0"))
    scenario.node("b")
    scenario.slice(*devices("gpu-1", "gpu-2"), node="b")
    scenario.claim("claim", scenario.exactly(allocationMode="All"))
    scenario.pod("claim", gets=["gpu-1", "gpu-2"], on="b")


def all_beside_an_incomplete_pool_of_another_node(scenario: Scenario) -> None:
    scenario.node()
    scenario.class_and_slice(*devices("gpu-0"))
    scenario.node("b")
    scenario.slice(*devices("gpu-1"), node="b", of=2)
    scenario.claim("claim", scenario.exactly(allocationMode="All"))
    scenario.pod("claim", fails=True)


def one_beside_an_incomplete_pool_of_another_node(scenario: Scenario) -> None:
    scenario.node()
    scenario.class_and_slice(*devices("gpu-0"))
    scenario.node("b")
    scenario.slice(*devices("gpu-1"), node="b", of=2)
    scenario.claim("claim", scenario.exactly())
    scenario.pod("claim", gets=["gpu-0"])


def all_beside_an_incomplete_pool_of_a_cordoned_node(scenario: Scenario) -> None:
    scenario.node()
    scenario.class_and_slice(*devices("gpu-0"))
    scenario.node("b", cordoned=True)
    scenario.slice(*devices("gpu-1"), node="b", of=2)
    scenario.claim("claim", scenario.exactly(allocationMode="All"))
    scenario.pod("claim", gets=["gpu-0"])


def all_beside_a_node_of_thirty_three(scenario: Scenario) -> None:
    scenario.node()
    scenario.class_and_slice(*devices("gpu-0"))
    scenario.node("b")
    scenario.slice(*devices(*(f"gpu-{number:02}" for number in range(33))), node="b")
    scenario.claim("claim", scenario.exactly(allocationMode="All"))
    scenario.pod("claim", fails=True)


def all_of_thirty_two(scenario: Scenario) -> None:
    names = [f"gpu-{number:02}" for number in range(32)]
    scenario.node()
    scenario.class_and_slice(*devices(*names))
    scenario.claim("claim", scenario.exactly(allocationMode="All"))
    scenario.pod("claim", gets=names)


def a_device_of_a_node_that_is_gone(scenario: Scenario) -> None:
    scenario.node()
    scenario.device_class()
    scenario.slice(*devices("gpu-0"), node="ghost")
    scenario.claim("claim", scenario.exactly())
    scenario.pod("claim")
