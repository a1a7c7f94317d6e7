"""One thing made wrong in a case that was whole: what the API server lets through, or an older one stored."""

from collections.abc import Callable

from tests.oracle.generate.dice import Dice

NUMBERS = (5, 1.5, "1.5")
NO_VALUES = ({"string": 1}, {"int": "1"}, {"int": 1.0}, {"string": None})

Break = Callable[[Dice, dict], None]


def break_something(dice: Dice, case: dict) -> None:
    """Make one thing wrong; a case that lacks what would be broken stays whole."""
    dice.choice(BREAKS)(dice, case)


def _asks(case: dict) -> list[dict]:
    return [
        ask
        for claim in case["claims"]
        for request in claim["spec"]["devices"]["requests"]
        for ask in request.get("firstAvailable") or [request["exactly"]]
    ]


def _devices(case: dict) -> list[dict]:
    return [device for one in case["slices"] for device in one["spec"].get("devices", ())]


def _on_ask(change: Callable[[Dice, dict], object]) -> Break:
    def apply(dice: Dice, case: dict) -> None:
        if asks := _asks(case):
            change(dice, dice.choice(asks))

    return apply


def _on_device(change: Callable[[Dice, dict], object]) -> Break:
    def apply(dice: Dice, case: dict) -> None:
        if devices := _devices(case):
            change(dice, dice.choice(devices))

    return apply


def _on_claim(change: Callable[[Dice, dict], object]) -> Break:
    def apply(dice: Dice, case: dict) -> None:
        if case["claims"]:
            change(dice, dice.choice(case["claims"])["spec"]["devices"])

    return apply


def _on_slice(change: Callable[[Dice, dict], object]) -> Break:
    def apply(dice: Dice, case: dict) -> None:
        if case["slices"]:
            change(dice, dice.choice(case["slices"])["spec"])

    return apply


def _select(*texts: str) -> Break:
    def change(dice: Dice, holder: dict) -> None:
        holder["selectors"] = [*holder.get("selectors", ()), {"cel": {"expression": dice.choice(texts)}}]

    return _on_ask(change)


def _in_class(dice: Dice, case: dict) -> None:
    spec = dice.choice(case["classes"])["spec"]
    text = dice.choice(["device.attributes[", 'device.attributes["gpu.example.com"].absent == 1', "1 + 1"])
    spec["selectors"] = [*spec["selectors"], {"cel": {"expression": text}}]


def _twice(dice: Dice, case: dict) -> None:
    """Give two devices of a pool one name."""
    if devices := _devices(case):
        name = dice.choice(devices)["name"]
        for one in case["slices"]:
            if devices := one["spec"].get("devices"):
                dice.choice(devices)["name"] = name


def _strange_counters(dice: Dice, spec: dict) -> None:
    sets = spec.get("sharedCounters")
    if not sets:
        return
    match dice.randrange(3):
        case 0:
            sets.append(sets[0])
        case 1:
            sets.pop()
        case 2:
            sets[0]["counters"].popitem()


def _policy(dice: Dice, device: dict) -> None:
    """Give a policy that no API server takes."""
    for capacity in device.get("capacity", {}).values():
        capacity["requestPolicy"] = dice.choice(
            [
                {},
                {"validRange": {"max": "5Gi"}},
                {"validValues": []},
                {"validValues": ["4Gi", "1Gi"]},
                {"default": "1Gi", "validRange": {"min": "2Gi", "step": "3Gi", "max": "4Gi"}},
                {"validRange": {"min": "1", "step": "1"}},
            ]
        )


def _one_name(dice: Dice, devices: dict) -> None:
    """Give requests of one form one name: with one of each form, upstream panics."""
    form = dice.choice(["exactly", "firstAvailable"])
    for request in devices["requests"]:
        if form in request:
            request["name"] = "same"


def _limits(dice: Dice, devices: dict) -> None:
    """Ask for more than 32 devices, in one request or in several."""
    plain = [request["exactly"] for request in devices["requests"] if "exactly" in request]
    for ask in plain:
        ask |= {"allocationMode": "ExactCount", "count": 17 if len(plain) > 1 else dice.choice([33, 1000])}


BREAKS: list[Break] = [
    _on_ask(lambda dice, ask: ask.update(deviceClassName="unknown")),
    _on_ask(lambda dice, ask: ask.update(deviceClassName="")),
    _on_ask(lambda dice, ask: ask.update(allocationMode="Some")),
    _on_ask(lambda dice, ask: ask.pop("allocationMode")),
    _on_ask(lambda dice, ask: ask.pop("count", None)),
    _on_ask(lambda dice, ask: ask.update(selectors=[{}])),
    _select("device.attributes[", "device.nothing == 1", "1 + 1", '"text"', ""),
    _select(
        'device.attributes["gpu.example.com"].absent == 1',
        "[1][device.attributes.size() + 5] == 1",
        "1 / 0 == 1",
    ),
    _in_class,
    _on_ask(
        lambda dice, ask: ask.update(
            capacity={"requests": {"memory": dice.choice(["-1Gi", "x", "", "1e400", "9Ei"])}}
        )
    ),
    _on_ask(lambda dice, ask: ask.update(capacity=dice.choice([{}, {"requests": {}}]))),
    _on_ask(
        lambda dice, ask: ask.update(
            tolerations=[{"operator": dice.choice(["", "Unknown"]), "key": "maintenance"}]
        )
    ),
    _on_device(
        lambda dice, device: device.update(capacity={"memory": {"value": dice.choice(["-5Gi", "x", "10Gi"])}})
    ),
    _on_device(lambda dice, device: device.update(attributes={"model": {}})),
    _on_device(
        lambda dice, device: device.update(
            consumesCounters=[{"counterSet": "none", "counters": {"memory": {"value": "1"}}}]
        )
    ),
    _on_device(lambda dice, device: device.update(nodeName="node-b")),
    _on_device(
        lambda dice, device: device.update(taints=[{"key": "odd", "effect": dice.choice(["", "Evict"])}])
    ),
    _on_device(_policy),
    _twice,
    _on_slice(_strange_counters),
    _on_slice(lambda dice, spec: [spec.pop(key, None) for key in ("nodeName", "allNodes", "nodeSelector")]),
    _on_slice(lambda dice, spec: spec.update(nodeSelector={"nodeSelectorTerms": dice.choice([[], [{}]])})),
    _on_slice(lambda dice, spec: spec.update(allNodes=False)),
    _on_slice(lambda dice, spec: spec.update(nodeSelector=_odd_selector(dice)) or spec.pop("nodeName", None)),
    _on_slice(lambda dice, spec: spec["pool"].update(resourceSliceCount=dice.randint(0, 3))),
    _on_slice(lambda dice, spec: spec.update(sharedCounters=[])),
    _on_claim(lambda dice, devices: devices.update(constraints=[{"requests": ["r0"]}])),
    _on_claim(
        lambda dice, devices: devices.update(constraints=[{"matchAttribute": dice.choice(["model", ""])}])
    ),
    _on_claim(
        lambda dice, devices: devices.update(
            constraints=[{"matchAttribute": "gpu.example.com/model", "requests": ["nobody"]}]
        )
    ),
    _on_claim(lambda dice, devices: devices.update(requests=[])),
    _on_claim(_one_name),
    _on_claim(lambda dice, devices: devices.update(config=[{"requests": ["nobody"]}, {}])),
    _on_claim(_limits),
    _on_ask(lambda dice, ask: ask.update({dice.choice(["selectors", "tolerations", "capacity"]): None})),
    _on_ask(lambda dice, ask: ask.update(count=dice.choice(["1", 1.5, True, [1], 2**63, -1.0]))),
    _on_ask(lambda dice, ask: ask.update({dice.choice(["adminAccess", "tolerations"]): "yes"})),
    _on_ask(lambda dice, ask: ask.update({"future": {"field": 1}})),
    _on_device(lambda dice, device: device.update(capacity={"memory": {"value": dice.choice(NUMBERS)}})),
    _on_device(lambda dice, device: device.update({dice.choice(["attributes", "taints"]): None})),
    _on_device(lambda dice, device: device.update(bindingConditions=None)),
    _on_device(lambda dice, device: device.update(attributes={"model": dice.choice(NO_VALUES)})),
    _on_slice(lambda dice, spec: spec.update(devices=dice.choice([None, {}]))),
    _on_slice(lambda dice, spec: spec["pool"].update(generation=dice.choice(["1", 1.5, -1, 0]))),
]


def _odd_selector(dice: Dice) -> dict:
    odd = [
        {"key": "zone", "operator": "Like", "values": ["z1"]},
        {"key": "cores", "operator": "Gt", "values": ["many"]},
        {"key": "cores", "operator": "Gt", "values": ["1", "2"]},
        {"key": "zone", "operator": "In"},
        {"key": "zone", "operator": "Exists", "values": ["z1"]},
        {"key": "-", "operator": "Exists"},
    ]
    fine = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["z1"]}]}
    return dice.choice(
        [
            {"nodeSelectorTerms": [{"matchExpressions": [dice.choice(odd)]}]},
            {"nodeSelectorTerms": [fine, fine]},
            {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "Exists"}]}]},
            {
                "nodeSelectorTerms": [
                    {"matchFields": [{"key": "spec.podCIDR", "operator": "In", "values": ["x"]}]}
                ]
            },
        ]
    )
