"""Where devices are: the node of the case, node selectors, and the fields of slices and devices for it."""

from tests.oracle.generate.dice import Dice
from tests.oracle.generate.world import NODE

LABELS = {"zone": "z1", "gpu": "h100", "cores": "64", "kubernetes.io/hostname": NODE}


def draw_node(dice: Dice) -> dict:
    if dice.chance(0.05):
        return {"metadata": {"name": NODE}}
    return {"metadata": {"name": NODE, "labels": dict(LABELS)}}


def draw_place(dice: Dice, *, selectors: bool) -> dict:
    """Return the fields of one place; about one in six is not reached from the node."""
    weights = {"here": 56, "all": 24, "selector": 30 if selectors else 5, "elsewhere": 8}
    match dice.weighted(weights):
        case "here":
            return {"nodeName": NODE}
        case "all":
            return {"allNodes": True}
        case "selector":
            return {"nodeSelector": draw_selector(dice)}
    return {"nodeName": "node-b"}


def draw_selector(dice: Dice) -> dict:
    term: dict = {}
    if dice.chance(0.85):
        term["matchExpressions"] = [_requirement(dice) for _ in range(dice.weighted({1: 6, 2: 2}))]
    if dice.chance(0.2):
        fields = {"key": "metadata.name", "operator": "In", "values": [dice.choice([NODE, NODE, "node-b"])]}
        term["matchFields"] = [fields]
    return {"nodeSelectorTerms": [term]}


def _requirement(dice: Dice) -> dict:
    key = dice.choice(["zone", "zone", "gpu", "cores", "absent"])
    operator = dice.weighted({"In": 8, "NotIn": 2, "Exists": 3, "DoesNotExist": 1, "Gt": 1, "Lt": 1})
    if operator in ("Gt", "Lt"):
        return {"key": "cores", "operator": operator, "values": [dice.choice(["8", "64", "100"])]}
    if operator in ("Exists", "DoesNotExist"):
        return {"key": key, "operator": operator}
    right = [LABELS[key]] if key in LABELS and dice.chance(0.8) else []
    values = dice.sample([*right, "z2", "a100"], dice.randint(1, 2)) if not right else [*right, "other"]
    return {"key": key, "operator": operator, "values": values[: dice.randint(1, 2)]}
