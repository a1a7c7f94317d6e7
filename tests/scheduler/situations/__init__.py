"""Every situation by name: the functions of the modules of this folder, `two_of_three` as "two-of-three"."""

from tests.scheduler.situations import (
    alternatives,
    constraints,
    counting,
    extended,
    failing,
    holding,
    partitions,
    placing,
    sharing,
    taints,
)
from tests.scheduler.stage import Situation, Stage

TOPICS = (
    alternatives,
    constraints,
    counting,
    extended,
    failing,
    holding,
    partitions,
    placing,
    sharing,
    taints,
)


def every() -> dict[str, Stage]:
    found: dict[str, Stage] = {}
    for topic in TOPICS:
        for name, function in vars(topic).items():
            if getattr(function, "__module__", "") == topic.__name__ and not name.startswith("_"):
                found[name.replace("_", "-")] = _staged(name.replace("_", "-"), function)
    return found


def _staged(name: str, situation: Situation) -> Stage:
    stage = Stage(name)
    situation(stage)
    return stage
