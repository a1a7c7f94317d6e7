"""Taints of slices and of DeviceTaintRules, tolerations, and access for administrators."""

from tests.scheduler.stage import Json, Stage, device, devices

KEY = "example.com/broken"


def _tainted(name: str, effect: str, value: str = "") -> Json:
    return device(name, raw={"taints": [{"key": KEY, "value": value, "effect": effect}]})


def a_slice_says_no_schedule(at: Stage) -> None:
    at.usual(_tainted("gpu-0", "NoSchedule"), device("gpu-1"))
    at.claim("wish", at.exactly())
    at.pod("wish", gets=["gpu-1"])


def a_slice_says_no_execute(at: Stage) -> None:
    at.usual(_tainted("gpu-0", "NoExecute"))
    at.claim("wish", at.exactly())
    at.pod("wish")


def a_slice_notes_only(at: Stage) -> None:
    at.usual(_tainted("gpu-0", "None"), device("gpu-1"))
    at.claim("wish", at.exactly())
    at.pod("wish", gets=["gpu-0"])


def a_tolerated_taint(at: Stage) -> None:
    at.usual(_tainted("gpu-0", "NoSchedule", "yes"), device("gpu-1"))
    tolerations = [{"key": KEY, "operator": "Equal", "value": "yes", "effect": "NoSchedule"}]
    at.claim("wish", at.exactly(tolerations=tolerations))
    at.pod("wish", gets=["gpu-0"])


def a_toleration_of_another_value(at: Stage) -> None:
    at.usual(_tainted("gpu-0", "NoSchedule", "yes"), device("gpu-1"))
    tolerations = [{"key": KEY, "operator": "Equal", "value": "no"}]
    at.claim("wish", at.exactly(tolerations=tolerations))
    at.pod("wish", gets=["gpu-1"])


def a_toleration_of_another_effect(at: Stage) -> None:
    at.usual(_tainted("gpu-0", "NoSchedule"))
    at.claim("wish", at.exactly(tolerations=[{"operator": "Exists", "effect": "NoExecute"}]))
    at.pod("wish")


def a_rule_for_one_device(at: Stage) -> None:
    at.usual(*devices("gpu-0", "gpu-1"))
    at.taint_rule("drain", "NoSchedule", pool=at.name, device="gpu-0")
    at.claim("wish", at.exactly())
    at.pod("wish", gets=["gpu-1"])


def a_rule_for_the_driver(at: Stage) -> None:
    at.usual(*devices("gpu-0", "gpu-1"))
    at.taint_rule("drain", "NoExecute")
    at.claim("wish", at.exactly())
    at.pod("wish")


def a_rule_for_another_pool(at: Stage) -> None:
    at.usual(*devices("gpu-0"))
    at.taint_rule("drain", "NoSchedule", pool="elsewhere")
    at.claim("wish", at.exactly())
    at.pod("wish", gets=["gpu-0"])


def a_rule_that_notes_only(at: Stage) -> None:
    at.usual(*devices("gpu-0", "gpu-1"))
    at.taint_rule("dry-run", "None")
    at.claim("wish", at.exactly())
    at.pod("wish", gets=["gpu-0"])


def a_tolerated_rule(at: Stage) -> None:
    at.usual(*devices("gpu-0", "gpu-1"))
    at.taint_rule("drain", "NoExecute", value="yes")
    tolerations = [{"key": KEY, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 3600}]
    at.claim("wish", at.exactly(2, tolerations=tolerations))
    at.pod("wish", gets=["gpu-0", "gpu-1"])


def all_with_one_tainted(at: Stage) -> None:
    at.usual(device("gpu-0"), _tainted("gpu-1", "NoSchedule"))
    at.claim("wish", at.exactly(allocationMode="All"))
    at.pod("wish")


def an_administrator_is_not_exempt_from_taints(at: Stage) -> None:
    at.allow_admin_access()
    at.usual(device("gpu-0"), _tainted("gpu-1", "NoSchedule"))
    at.claim("wish", at.exactly(allocationMode="All", adminAccess=True))
    at.pod("wish")


def an_administrator_who_tolerates_everything(at: Stage) -> None:
    at.allow_admin_access()
    at.usual(device("gpu-0"), _tainted("gpu-1", "NoSchedule"))
    at.claim("theirs", at.exactly())
    at.pod("theirs", name="holder", gets=["gpu-0"], earlier=True)
    tolerations = [{"operator": "Exists"}]
    at.claim("wish", at.exactly(allocationMode="All", adminAccess=True, tolerations=tolerations))
    at.pod("wish", gets=["gpu-0", "gpu-1"])


def what_an_administrator_watches_is_free_for_others(at: Stage) -> None:
    at.allow_admin_access()
    at.usual(*devices("gpu-0"))
    at.claim("watch", at.exactly(adminAccess=True))
    at.pod("watch", name="watcher", gets=["gpu-0"], earlier=True)
    at.claim("wish", at.exactly())
    at.pod("wish", gets=["gpu-0"])
