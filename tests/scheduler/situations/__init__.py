"""All scenarios by name: the functions of the modules of this folder, `two_of_three` as "two-of-three"."""

from tests.scheduler.scenario import Scenario, Situation
from tests.scheduler.situations import (
    alternatives,
    constraints,
    counting,
    extended,
    failing,
    holding,
    partitions,
    placing,
    pools,
    sharing,
    taints,
)

TOPICS = (
    alternatives,
    constraints,
    counting,
    extended,
    failing,
    holding,
    partitions,
    placing,
    pools,
    sharing,
    taints,
)


def all_scenarios() -> dict[str, Scenario]:
    scenarios: dict[str, Scenario] = {}
    for topic in TOPICS:
        for name, function in vars(topic).items():
            if getattr(function, "__module__", "") == topic.__name__ and not name.startswith("_"):
                scenarios[name.replace("_", "-")] = _scenario(name.replace("_", "-"), function)
    return scenarios


def _scenario(name: str, situation: Situation) -> Scenario:
    scenario = Scenario(name)
    situation(scenario)
    return scenario
