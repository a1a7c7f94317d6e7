"""What a case is about: its topics, and the names that all parts of it share."""

from dataclasses import dataclass, field

from tests.oracle.generate.dice import Dice

NODE = "node-a"
DRIVERS = ("gpu.example.com", "nic.example.org")
MODELS = ("A", "B", "C")
CLASSES = ("any", "gpu", "nic", "big", "model-a")

# topic → how often it comes into a case by itself
TOPICS = {
    "all": 0.14,
    "adminAccess": 0.1,
    "binding": 0.12,
    "capacity": 0.25,
    "config": 0.2,
    "counters": 0.2,
    "distinctAttribute": 0.12,
    "firstAvailable": 0.25,
    "generations": 0.2,
    "held": 0.4,
    "incomplete": 0.06,
    "limits": 0.04,
    "malformed": 0.18,
    "matchAttribute": 0.2,
    "nodeSelector": 0.17,
    "perDevice": 0.15,
    "selectors": 0.42,
    "taints": 0.25,
    # alpha in 1.37: the experimental allocator alone knows them
    "compatibilityGroups": 0.04,
    "derivedAttributes": 0.04,
    "listAttributes": 0.06,
    "skipNodeOperations": 0.03,
}
ALPHA = ("compatibilityGroups", "derivedAttributes", "listAttributes", "skipNodeOperations")

# topic → the switch it needs
SWITCHES = {
    "adminAccess": "AdminAccess",
    "binding": "DeviceBindingAndStatus",
    "capacity": "ConsumableCapacity",
    "compatibilityGroups": "CompatibilityGroups",
    "counters": "PartitionableDevices",
    "derivedAttributes": "DerivedAttributes",
    "firstAvailable": "PrioritizedList",
    "listAttributes": "ListTypeAttributes",
    "perDevice": "PartitionableDevices",
    "skipNodeOperations": "OptionalNodeOperations",
    "taints": "DeviceTaints",
}
STABLE = ("AdminAccess", "DeviceTaints", "PartitionableDevices", "PrioritizedList")
INCUBATING = (*STABLE, "ConsumableCapacity", "DeviceBindingAndStatus", "FractionalCapacityRange")
EXPERIMENTAL = (
    *INCUBATING,
    "CompatibilityGroups",
    "DerivedAttributes",
    "ListTypeAttributes",
    "OptionalNodeOperations",
)


@dataclass
class World:
    """The plan of one case; `devices` gathers (driver, pool, device) of those that the node may reach."""

    dice: Dice
    topics: set[str]
    drivers: list[str] = field(default_factory=list)
    features: dict[str, bool] = field(default_factory=dict)
    devices: list[tuple[str, str, dict]] = field(default_factory=list)

    @property
    def stable(self) -> bool:
        """Whether upstream's stable allocator will be asked: it takes pools in no order."""
        return {switch for switch, on in self.features.items() if on} <= set(STABLE)

    def about(self, topic: str) -> bool:
        return topic in self.topics


def draw_world(dice: Dice, always: str = "") -> World:
    topics = {topic for topic, share in TOPICS.items() if dice.chance(share)}
    if always:
        topics.add(always)
    if "limits" in topics:  # with devices in plenty: a search that fails among so many never ends
        topics &= {"limits", "firstAvailable", "adminAccess", "config"}
    if "compatibilityGroups" in topics:
        topics.add("counters")
    drivers = list(DRIVERS[: 1 + dice.chance(0.3)])
    return World(dice, topics, drivers, _features(dice, topics))


def _features(dice: Dice, topics: set[str]) -> dict[str, bool]:
    """Return mostly what the topics need, in sets that let each of upstream's three allocators run."""
    weights = {"default": 35, "needed": 22, "stable": 11, "random": 17, "everything": 5, "lacking": 10}
    kind = dice.weighted(weights)
    if kind == "default":
        on = set(INCUBATING)
    elif kind == "stable":
        on = set(STABLE)
    elif kind == "everything":
        on = set(EXPERIMENTAL)
    elif kind == "lacking":  # what a topic needs, so that a request of the case is an error
        needed = [SWITCHES[topic] for topic in sorted(topics) if topic in SWITCHES]
        on = set(INCUBATING) - {dice.choice([*needed, "ConsumableCapacity"])}
    elif kind == "needed":
        on = {SWITCHES[topic] for topic in topics if topic in SWITCHES}
    else:
        on = {switch for switch in INCUBATING if dice.chance(0.7)}
    if kind != "random":
        on |= {SWITCHES[topic] for topic in ALPHA if topic in topics and dice.chance(0.85)}
    return {switch: True for switch in EXPERIMENTAL if switch in on} | {
        switch: False for switch in EXPERIMENTAL if switch not in on and dice.chance(0.1)
    }
