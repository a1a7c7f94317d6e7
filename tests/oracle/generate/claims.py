"""The claims of a case, sized so that about half of the cases allocate."""

from math import perm, prod

from tests.oracle.generate.devices import EFFECTS, STANDARD, TAINTS
from tests.oracle.generate.dice import Dice
from tests.oracle.generate.selectors import draw_selectors
from tests.oracle.generate.world import CLASSES, World

COUNTS = {0: 2, 1: 62, 2: 22, 3: 7, 4: 3, 5: 2}


SEARCH = 500_000  # looks at a device that a case may take: upstream does about 200,000 a second


def draw_claims(world: World) -> list[dict]:
    dice = world.dice
    claims = [_claim(world, number) for number in range(dice.weighted({1: 62, 2: 27, 3: 10, 0: 1}))]
    _tame(claims, len(world.devices), plenty=world.about("limits"))
    return claims


def _tame(claims: list[dict], devices: int, *, plenty: bool) -> None:
    """Lower counts until even an exhaustive search is over soon, or with `plenty` until all find some."""
    requests = [request for claim in claims for request in claim["spec"]["devices"]["requests"]]

    def too_much() -> bool:
        if plenty:
            return sum(max(ask["count"] for ask in asks_of(one)) for one in requests) > devices
        return devices * prod(sum(_ways(ask, devices) for ask in asks_of(one)) for one in requests) > SEARCH

    while too_much():
        largest = max((ask for one in requests for ask in asks_of(one)), key=lambda ask: ask.get("count", 0))
        if largest.get("count", 0) > 1:
            largest["count"] -= 1
        else:
            requests.pop()
            of_claims = [claim["spec"]["devices"]["requests"] for claim in claims]
            next(filter(None, reversed(of_claims))).pop()


def asks_of(request: dict) -> list[dict]:
    return request.get("firstAvailable") or [request["exactly"]]


def _ways(ask: dict, devices: int) -> int:
    return perm(devices + 1, ask["count"]) if ask["allocationMode"] == "ExactCount" else 1


def _claim(world: World, number: int) -> dict:
    dice = world.dice
    requests = [_request(world, place) for place in range(dice.weighted({1: 50, 2: 32, 3: 14, 4: 3, 0: 1}))]
    devices: dict = {"requests": requests}
    names = request_names(requests)
    constraints = []
    for topic in ("matchAttribute", "distinctAttribute"):
        if world.about(topic):
            constraints += [
                _constraint(world, topic, names) for _ in range(dice.weighted({0: 1, 1: 6, 2: 2}))
            ]
    if world.about("derivedAttributes"):
        constraints.append({"matchAttribute": "derived/kind"})
    if constraints:
        devices["constraints"] = constraints
    if world.about("config"):
        devices["config"] = [_claim_config(world, names) for _ in range(dice.randint(0, 3))]
    return {"metadata": {"name": f"claim-{number}", "namespace": "team-a"}, "spec": {"devices": devices}}


def request_names(requests: list[dict]) -> list[str]:
    """Return what a constraint or configuration may name: "r0", "r0/alt1"."""
    names = []
    for request in requests:
        names.append(request["name"])
        names += [f"{request['name']}/{one['name']}" for one in request.get("firstAvailable", ())]
    return names


def _request(world: World, place: int) -> dict:
    dice, name = world.dice, f"r{place}"
    if world.about("firstAvailable") and dice.chance(0.65):
        count = dice.weighted({1: 10, 2: 40, 3: 30, 4: 10, 8: 2})
        alternatives = [{"name": f"alt{number}"} | _ask(world, picky=0.7) for number in range(count)]
        return {"name": name, "firstAvailable": alternatives}
    ask = _ask(world, picky=0.45)
    if world.about("adminAccess") and dice.chance(0.5):
        ask["adminAccess"] = dice.chance(0.85)
    return {"name": name, "exactly": ask}


def _ask(world: World, *, picky: float) -> dict:
    dice = world.dice
    classes = ("any",) if world.about("limits") else CLASSES
    ask: dict = {"deviceClassName": dice.weighted(dict(zip(classes, (60, 15, 6, 8, 11), strict=False)))}
    if world.about("all") and dice.chance(0.4):
        ask["allocationMode"] = "All"
    else:
        ask["allocationMode"] = "ExactCount"
        ask["count"] = (
            dice.randint(14, 34) if world.about("limits") and dice.chance(0.6) else dice.weighted(COUNTS)
        )
    if world.about("selectors") and dice.chance(picky):
        ask["selectors"] = draw_selectors(world)
    if world.about("taints") and dice.chance(0.55):
        ask["tolerations"] = [_toleration(dice) for _ in range(dice.randint(1, 2))]
    if world.about("capacity") and dice.chance(0.6):
        ask["capacity"] = _capacity(world)
    if world.about("derivedAttributes") and dice.chance(0.8):
        ask["derivedAttributes"] = [{"name": "derived/kind", "expression": _derived(world)}]
    return ask


def _toleration(dice: Dice) -> dict:
    toleration: dict = {"operator": dice.weighted({"Exists": 6, "Equal": 4})}
    if toleration["operator"] == "Equal" or dice.chance(0.6):
        toleration["key"] = dice.choice(TAINTS)
    if toleration["operator"] == "Equal":
        toleration["value"] = dice.choice(["true", "yes"])
    if dice.chance(0.4):
        toleration["effect"] = dice.weighted(EFFECTS)
    if dice.chance(0.15):
        toleration["tolerationSeconds"] = 600
    return toleration


def _capacity(world: World) -> dict:
    dice = world.dice
    asked = {}
    if dice.chance(0.85):
        asked["memory"] = dice.weighted(
            {"1Gi": 4, "2Gi": 3, "5Gi": 3, "512Mi": 2, "0.5Gi": 1, "3e9": 1, "1500Mi": 2, "100Gi": 1, "0": 1}
        )
    if dice.chance(0.2):
        asked["slots"] = dice.choice(["1", "2", "500m", "1250m", "5"])
    if dice.chance(0.04):
        asked["absent"] = "1"
    return {"requests": asked}


def _derived(world: World) -> str:
    driver = world.drivers[0]
    return world.dice.choice(
        [
            f'device.attributes["{driver}"].?model.orValue("none")',
            f'device.attributes["{driver}"].?index.orValue(0) % 2',
            '"same"',
            f'device.attributes["{driver}"].ecc',
        ]
    )


def _constraint(world: World, kind: str, names: list[str]) -> dict:
    dice = world.dice
    driver = dice.choice(world.drivers)
    local = {"model": 5, "index": 3, "ecc": 2, "version": 2, "mixed": 2, "absent": 0.4}
    if world.about("listAttributes"):
        local["links"] = 12
    attribute = dice.choice(STANDARD) if dice.chance(0.35) else f"{driver}/{dice.weighted(local)}"
    constraint: dict = {kind: attribute}
    if dice.chance(0.5):
        constraint["requests"] = dice.some(names, least=1)[:3]
    return constraint


def _claim_config(world: World, names: list[str]) -> dict:
    dice = world.dice
    config = opaque(dice)
    if dice.chance(0.7):
        config["requests"] = dice.some(names, least=1)[:3]
    return config


def opaque(dice: Dice) -> dict:
    parameters = {"kind": "Settings", "value": dice.randint(0, 9)}
    return {"opaque": {"driver": "gpu.example.com", "parameters": parameters}}
