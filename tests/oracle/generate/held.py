"""What is taken already: whole devices, and shares of devices that may be shared."""

from tests.oracle.generate.world import World


def draw_holder(world: World) -> list[dict]:
    """Return a claim that is allocated already, or none."""
    dice = world.dice
    if not world.about("held") or dice.chance(0.75):
        return []
    results = []
    for driver, pool, device in world.devices:
        if dice.chance(0.25):
            result = {"request": "r0", "driver": driver, "pool": pool, "device": device["name"]}
            if device.get("allowMultipleAllocations") and dice.chance(0.9):
                result["shareID"] = "00000000-0000-0000-0000-000000000001"
                if "memory" in device.get("capacity", {}):
                    result["consumedCapacity"] = {"memory": dice.choice(["1Gi", "3Gi", "12Gi"])}
            if dice.chance(0.15):
                result["adminAccess"] = dice.chance(0.8)
            results.append(result)
    ask = {"name": "r0", "exactly": {"deviceClassName": "any", "allocationMode": "ExactCount", "count": 1}}
    metadata = {"name": "holder", "namespace": "team-b"}
    allocation = {"devices": {"results": results}}
    spec = {"devices": {"requests": [ask]}}
    return [{"metadata": metadata, "spec": spec, "status": {"allocation": allocation}}]


def draw_held(world: World) -> dict:
    dice = world.dice
    if not world.about("held"):
        return {}
    share = dice.choice([0.1, 0.2, 0.4])
    devices, shared, consumed = [], [], {}
    for driver, pool, device in world.devices:
        if not dice.chance(share):
            continue
        key = {"driver": driver, "pool": pool, "device": device["name"]}
        if not device.get("allowMultipleAllocations") or dice.chance(0.1):
            devices.append(key)
            continue
        shared += [{**key, "shareID": f"{number:08x}"} for number in range(dice.weighted({0: 1, 1: 6, 2: 3}))]
        if device.get("capacity") and dice.chance(0.85):
            amount = {"memory": ("1Gi", "4Gi", "9Gi", "0"), "slots": ("1", "500m", "3")}
            consumed["/".join(key.values())] = {
                name: dice.choice(amount[name.rpartition("/")[2]])
                for name in dice.some(sorted(device["capacity"]), 1)
            }
    if dice.chance(0.05):
        devices.append({"driver": "gpu.example.com", "pool": "gone", "device": "dev-0"})
    held = {"devices": devices, "shared": shared, "consumedCapacity": consumed}
    return {name: what for name, what in held.items() if what}
