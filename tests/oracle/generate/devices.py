"""One device: attributes, capacity, taints, counters, binding conditions, place."""

from tests.oracle.generate.dice import Dice
from tests.oracle.generate.places import draw_place
from tests.oracle.generate.world import MODELS, World

MEMORY = ("10Gi", "20Gi", "40Gi", "80Gi", "81920Mi", "1.5Gi", "10G", "4e10", "42949672960")
VERSIONS = ("1.2.3", "1.2.3+build", "2.0.0", "8.6.0", "9.0.0-rc.1")
TAINTS = ("maintenance", "example.com/degraded")
EFFECTS = {"NoSchedule": 5, "NoExecute": 3, "None": 2}
STANDARD = ("resource.kubernetes.io/pcieRoot", "resource.kubernetes.io/numaNode")


def draw_device(world: World, driver: str, name: str, counter_sets: list[dict], *, per_device: bool) -> dict:
    dice = world.dice
    device: dict = {
        "name": name,
        "attributes": _attributes(world, driver),
        "capacity": _capacity(world, driver),
    }
    if world.about("capacity"):
        if dice.chance(0.65):
            device["allowMultipleAllocations"] = dice.chance(0.93)
        if device.get("allowMultipleAllocations"):
            for capacity in device["capacity"].values():
                if dice.chance(0.6):
                    capacity["requestPolicy"] = draw_policy(dice, capacity["value"])
    if world.about("taints") and dice.chance(0.4):
        device["taints"] = [_taint(dice) for _ in range(dice.weighted({1: 5, 2: 2}))]
    if counter_sets and dice.chance(0.85):
        device["consumesCounters"] = _consumption(world, counter_sets)
    if world.about("binding") and dice.chance(0.35):
        _bind(dice, device)
    if per_device:
        device |= draw_place(dice, selectors=world.about("nodeSelector"))
    return {key: value for key, value in device.items() if value != {}}


def _attributes(world: World, driver: str) -> dict:
    dice = world.dice
    drawn: dict[str, dict] = {
        "model": {"string": dice.choice(MODELS)},
        "index": {"int": dice.randint(0, 4)},
        "ecc": {"bool": dice.chance(0.5)},
        "version": {"version": dice.choice(VERSIONS)},
        "mixed": dice.choice(
            [{"string": "1"}, {"int": 1}, {"bool": True}, {"version": "1.0.0"}, {"string": "2"}, {"int": 2}]
        ),
        STANDARD[0]: {"string": f"pci0000:{dice.randint(0, 2)}"},
        STANDARD[1]: {"int": dice.randint(0, 1)},
    }
    if world.about("listAttributes"):
        drawn["links"] = _list_attribute(dice)
    attributes = {}
    for name, value in drawn.items():
        if dice.chance(0.92):
            domain = f"{driver}/" if "/" not in name and dice.chance(0.12) else ""
            attributes[domain + name] = value
    return attributes


def _list_attribute(dice: Dice) -> dict:
    values = dice.sample(range(4), dice.randint(1, 2))
    return dice.choice(
        [
            {"ints": values},
            {"strings": [str(value) for value in values]},
            {"versions": [f"{value}.0.0" for value in values]},
            {"bools": [value % 2 == 0 for value in values]},
            {"int": values[0]},
            {"string": str(values[0])},
        ]
    )


def _capacity(world: World, driver: str) -> dict:
    dice = world.dice
    drawn = {}
    if dice.chance(0.92):
        domain = f"{driver}/" if dice.chance(0.1) else ""
        drawn[f"{domain}memory"] = {"value": dice.choice(MEMORY)}
    if dice.chance(0.35):
        drawn["slots"] = {"value": dice.choice(["1", "4", "7", "2500m"])}
    return drawn


def draw_policy(dice: Dice, value: str) -> dict:
    """Return a policy as the API server would take it: ascending values, a default among what is valid."""
    unit = "Gi" if value.endswith("i") else ""
    small = ("1", "2", "4", "8") if unit else ("500m", "1", "1500m", "2", "3")
    policy: dict = {}
    match dice.weighted({"values": 4, "range": 6, "default": 1, "odd": 0.5}):
        case "values":
            policy["validValues"] = [f"{one}{unit}" for one in small[: dice.randint(1, len(small))]]
            policy["default"] = dice.choice(policy["validValues"])
        case "range":
            low, step = dice.choice(small[:2]), dice.choice(small[:3])
            policy["validRange"] = {"min": low + unit}
            if dice.chance(0.7):
                policy["validRange"]["step"] = step + unit
            if dice.chance(0.6):
                policy["validRange"]["max"] = dice.choice(("7", "8") if unit else ("2", "3")) + unit
            policy["default"] = low + unit
        case "default":
            policy["default"] = dice.choice(small) + unit
        case "odd":
            policy["default"], policy["validValues"] = "5", ["1", "2"]
    return policy


def _taint(dice: Dice) -> dict:
    taint = {"key": dice.choice(TAINTS), "effect": dice.weighted(EFFECTS)}
    if dice.chance(0.6):
        taint["value"] = dice.choice(["true", "yes"])
    if dice.chance(0.3):
        taint["timeAdded"] = "2026-11-01T00:00:00Z"
    return taint


def _consumption(world: World, counter_sets: list[dict]) -> list[dict]:
    dice = world.dice
    consumed = []
    for one in dice.sample(counter_sets, min(len(counter_sets), dice.weighted({1: 5, 2: 2}))):
        names = dice.some(sorted(one["counters"]), least=1)
        entry: dict = {
            "counterSet": one["name"],
            "counters": {name: {"value": dice.choice(["1", "2", "3", "500m"])} for name in names},
        }
        if world.about("compatibilityGroups") and dice.chance(0.7):
            entry["compatibilityGroups"] = dice.some(["x", "y", "z"], least=1)[:2]
        consumed.append(entry)
    return consumed


def _bind(dice: Dice, device: dict) -> None:
    if dice.chance(0.9):
        device["bindingConditions"] = dice.some(["ready.example.com", "attached.example.com"], least=0)
    if dice.chance(0.6):
        device["bindingFailureConditions"] = ["failed.example.com"]
    if dice.chance(0.4):
        device["bindsToNode"] = dice.chance(0.9)
