"""Taints of slices and of DeviceTaintRules, tolerations, and access for administrators."""

from tests.scheduler.scenario import Json, Scenario, device, devices

KEY = "example.com/broken"


def _tainted(name: str, effect: str, value: str = "") -> Json:
    return device(name, raw={"taints": [{"key": KEY, "value": value, "effect": effect}]})


def a_slice_says_no_schedule(scenario: Scenario) -> None:
    scenario.class_and_slice(_tainted("gpu-0", "NoSchedule"), device("gpu-1"))
    scenario.claim("claim", scenario.exactly())
    scenario.pod("claim", gets=["gpu-1"])


def a_slice_says_no_execute(scenario: Scenario) -> None:
    scenario.class_and_slice(_tainted("gpu-0", "NoExecute"))
    scenario.claim("claim", scenario.exactly())
    scenario.pod("claim")


def a_slice_notes_only(scenario: Scenario) -> None:
    scenario.class_and_slice(_tainted("gpu-0", "None"), device("gpu-1"))
    scenario.claim("claim", scenario.exactly())
    scenario.pod("claim", gets=["gpu-0"])


def a_tolerated_taint(scenario: Scenario) -> None:
    scenario.class_and_slice(_tainted("gpu-0", "NoSchedule", "yes"), device("gpu-1"))
    tolerations = [{"key": KEY, "operator": "Equal", "value": "yes", "effect": "NoSchedule"}]
    scenario.claim("claim", scenario.exactly(tolerations=tolerations))
    scenario.pod("claim", gets=["gpu-0"])


def a_toleration_of_another_value(scenario: Scenario) -> None:
    scenario.class_and_slice(_tainted("gpu-0", "NoSchedule", "yes"), device("gpu-1"))
    tolerations = [{"key": KEY, "operator": "Equal", "value": "no"}]
    scenario.claim("claim", scenario.exactly(tolerations=tolerations))
    scenario.pod("claim", gets=["gpu-1"])


def a_toleration_of_another_effect(scenario: Scenario) -> None:
    scenario.class_and_slice(_tainted("gpu-0", "NoSchedule"))
    scenario.claim("claim", scenario.exactly(tolerations=[{"operator": "Exists", "effect": "NoExecute"}]))
    scenario.pod("claim")


def a_rule_for_one_device(scenario: Scenario) -> None:
    scenario.class_and_slice(*devices("gpu-0", "gpu-1"))
    scenario.taint_rule("drain", "NoSchedule", pool=scenario.name, device="gpu-0")
    scenario.claim("claim", scenario.exactly())
    scenario.pod("claim", gets=["gpu-1"])


def a_rule_for_the_driver(scenario: Scenario) -> None:
    scenario.class_and_slice(*devices("gpu-0", "gpu-1"))
    scenario.taint_rule("drain", "NoExecute")
    scenario.claim("claim", scenario.exactly())
    scenario.pod("claim")


def a_rule_for_another_pool(scenario: Scenario) -> None:
    scenario.class_and_slice(*devices("gpu-0"))
    scenario.taint_rule("drain", "NoSchedule", pool="elsewhere")
    scenario.claim("claim", scenario.exactly())
    scenario.pod("claim", gets=["gpu-0"])


def a_rule_that_notes_only(scenario: Scenario) -> None:
    scenario.class_and_slice(*devices("gpu-0", "gpu-1"))
    scenario.taint_rule("dry-run", "None")
    scenario.claim("claim", scenario.exactly())
    scenario.pod("claim", gets=["gpu-0"])


def a_tolerated_rule(scenario: Scenario) -> None:
    scenario.class_and_slice(*devices("gpu-0", "gpu-1"))
    scenario.taint_rule("drain", "NoExecute", value="yes")
    tolerations = [{"key": KEY, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 3600}]
    scenario.claim("claim", scenario.exactly(2, tolerations=tolerations))
    scenario.pod("claim", gets=["gpu-0", "gpu-1"])


def all_with_one_tainted(scenario: Scenario) -> None:
    scenario.class_and_slice(device("gpu-0"), _tainted("gpu-1", "NoSchedule"))
    scenario.claim("claim", scenario.exactly(allocationMode="All"))
    scenario.pod("claim")


def an_administrator_is_not_exempt_from_taints(scenario: Scenario) -> None:
    scenario.allow_admin_access()
    scenario.class_and_slice(device("gpu-0"), _tainted("gpu-1", "NoSchedule"))
    scenario.claim("claim", scenario.exactly(allocationMode="All", adminAccess=True))
    scenario.pod("claim")


def an_administrator_who_tolerates_everything(scenario: Scenario) -> None:
    scenario.allow_admin_access()
    scenario.class_and_slice(device("gpu-0"), _tainted("gpu-1", "NoSchedule"))
    scenario.claim("theirs", scenario.exactly())
    scenario.pod("theirs", name="holder", gets=["gpu-0"], earlier=True)
    tolerations = [{"operator": "Exists"}]
    scenario.claim("claim", scenario.exactly(allocationMode="All", adminAccess=True, tolerations=tolerations))
    scenario.pod("claim", gets=["gpu-0", "gpu-1"])


def what_an_administrator_watches_is_free_for_others(scenario: Scenario) -> None:
    scenario.allow_admin_access()
    scenario.class_and_slice(*devices("gpu-0"))
    scenario.claim("watch", scenario.exactly(adminAccess=True))
    scenario.pod("watch", name="watcher", gets=["gpu-0"], earlier=True)
    scenario.claim("claim", scenario.exactly())
    scenario.pod("claim", gets=["gpu-0"])
