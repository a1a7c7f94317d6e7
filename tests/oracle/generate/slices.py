"""The ResourceSlices of a case: pools with generations, counters, places, and slices that are missing."""

from tests.oracle.generate.devices import draw_device
from tests.oracle.generate.places import draw_place
from tests.oracle.generate.world import World

POOLS = ("node-a", "pool-b", "rack/1", "zeta", "node-b", "a")


def draw_slices(world: World) -> list[dict]:
    dice = world.dice
    slices: list[dict] = []
    pools = dice.sample(
        POOLS, dice.weighted({1: 80, 2: 15, 3: 5} if world.stable else {1: 36, 2: 32, 3: 17, 4: 10, 5: 5})
    )
    large = dice.chance(0.05) or world.about("limits")
    for pool in pools:
        driver = dice.choice(world.drivers)
        slices += _pool(world, driver, pool, dice.randint(20, 40) if large else dice.weighted(SIZES))
    if dice.chance(0.5):
        dice.shuffle(slices)
    if world.stable:  # pools in order of their names, so that this order is among those that upstream takes
        slices.sort(key=lambda one: (one["spec"]["driver"], one["spec"]["pool"]["name"]))
    return slices


SIZES = {0: 1, 1: 7, 2: 12, 3: 16, 4: 16, 5: 12, 6: 10, 8: 8, 12: 4}


def _pool(world: World, driver: str, pool: str, size: int) -> list[dict]:
    dice = world.dice
    generation = dice.randint(1, 3)
    counter_sets = _counter_sets(world)
    parts = min(max(size, 1), dice.weighted({1: 55, 2: 30, 3: 15}))
    names = dice.sample(range(size + 3), size)
    place = draw_place(dice, selectors=world.about("nodeSelector"))
    if world.about("limits"):
        place = {"allNodes": True}
    slices = []
    for part in range(parts):
        per_device = world.about("perDevice") and dice.chance(0.7)
        if dice.chance(0.12) and not world.about("limits"):
            place = draw_place(dice, selectors=world.about("nodeSelector"))
        devices = [
            draw_device(world, driver, f"dev-{number}", counter_sets, per_device=per_device)
            for number in names[part::parts]
        ]
        spec = _spec(driver, pool, generation) | ({"perDeviceNodeSelection": True} if per_device else place)
        spec["devices"] = devices
        if world.about("skipNodeOperations") and dice.chance(0.5):
            spec["skipNodeOperations"] = ["NodePrepareResources"]
        slices.append(spec)
        if per_device or place.get("nodeName") != "node-b":
            world.devices += [(driver, pool, device) for device in devices]
    if counter_sets:
        slices += _counter_slices(world, _spec(driver, pool, generation) | place, counter_sets, slices)
    _count(world, slices)
    if world.about("generations"):
        slices += _other_generation(world, slices)
    return [_named(world, spec) for spec in slices]


def _spec(driver: str, pool: str, generation: int) -> dict:
    return {"driver": driver, "pool": {"name": pool, "generation": generation}}


def _named(world: World, spec: dict) -> dict:
    """Give the slice a name that sorts anywhere."""
    return {"metadata": {"name": f"{world.dice.randrange(16**6):06x}"}, "spec": spec}


def _count(world: World, slices: list[dict]) -> None:
    dice = world.dice
    count = len(slices)
    if world.about("incomplete") and dice.chance(0.5):
        count += dice.choice([1, 1, -1]) if count > 1 else 1
    for spec in slices:
        spec["pool"]["resourceSliceCount"] = count


def _counter_sets(world: World) -> list[dict]:
    dice = world.dice
    if not world.about("counters") or dice.chance(0.2):
        return []
    return [
        {
            "name": f"set-{number}",
            "counters": {
                name: {"value": dice.choice(["4", "6", "8", "3500m"])}
                for name in ("memory", "engines")[: dice.randint(1, 2)]
            },
        }
        for number in range(dice.weighted({1: 5, 2: 3, 3: 1}))
    ]


def _counter_slices(world: World, spec: dict, counter_sets: list[dict], slices: list[dict]) -> list[dict]:
    """Publish the counters in slices of their own, or (as before 1.35) beside devices."""
    dice = world.dice
    if dice.chance(0.08):
        slices[0]["sharedCounters"] = counter_sets
        return []
    if dice.chance(0.2):
        return [spec | {"pool": dict(spec["pool"]), "sharedCounters": [one]} for one in counter_sets]
    return [spec | {"sharedCounters": counter_sets}]


def _other_generation(world: World, slices: list[dict]) -> list[dict]:
    """Return what a driver that renews its pool leaves behind, or has ready already."""
    dice = world.dice
    others = []
    for spec in slices:
        if dice.chance(0.4):
            change = -1 if dice.chance(0.75) else 1
            other = spec | {"pool": spec["pool"] | {"generation": spec["pool"]["generation"] + change}}
            if dice.chance(0.3) and "perDeviceNodeSelection" not in spec:
                for key in ("nodeName", "allNodes", "nodeSelector"):
                    other.pop(key, None)
                other |= draw_place(dice, selectors=world.about("nodeSelector"))
            others.append(other)
    return others
