"""
Tolerations without an effect.

They let a pod be scheduled to a device with a NoExecute taint, and against eviction only a toleration with
effect NoExecute counts (pkg/controller/devicetainteviction): the pod starts and is deleted at once.
"""

from __future__ import annotations

from collections.abc import Iterator

from dra.lint.passage import Passage
from dra.lint.report import Code, Finding, Severity
from dra.lint.selectors import Checker, devices
from dra.objects import Json
from dra.taints import tolerates


def evicted_at_once(checker: Checker, made: Passage) -> Iterator[Finding]:
    """Yield tolerations of the request that have no effect: a warning where they lead to such devices now."""
    lasting = [one for one in made.ask.tolerations if one.get("effect") == "NoExecute"]
    for number, toleration in enumerate(made.ask.tolerations):
        if toleration.get("effect"):
            continue
        if any(_covers(one, toleration) for one in lasting):
            continue
        message = (
            f"Request {made.ask.result_name} tolerates {toleration.get('key') or 'every taint'} without an "
            "effect: a pod is scheduled to a device with such a NoExecute taint, and evicted at once. With "
            "effect NoSchedule it gets none of these; a second toleration with effect NoExecute lets it stay."
        )
        tainted = _tainted(checker, made, toleration)
        if tainted:
            message += f" {devices(tainted)} that match {'has' if tainted == 1 else 'have'} one now."
        severity = Severity.WARNING if tainted else Severity.NOTE
        path = f"{made.ask.path}.tolerations[{number}].effect"
        yield checker.found(Code.EVICTED, severity, message, path)


def _tainted(checker: Checker, made: Passage, toleration: Json) -> int:
    """Count devices of the request whose slice has a NoExecute taint that the toleration covers."""
    return sum(
        any(taint.effect == "NoExecute" and tolerates([toleration], taint) for taint in device.taints)
        for device in checker.population.devices(made.accepted)
    )


def _covers(wide: Json, narrow: Json) -> bool:
    """Say whether one toleration is of every key and value that the other is of."""
    if wide.get("key") and wide["key"] != narrow.get("key"):
        return False
    if wide.get("operator") == "Exists":
        return True
    return narrow.get("operator") != "Exists" and (wide.get("value") or "") == (narrow.get("value") or "")
