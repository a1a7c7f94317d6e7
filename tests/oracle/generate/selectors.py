"""CEL selectors: enough of the language to choose devices; the language has a comparison of its own."""

from tests.oracle.generate.dice import Dice
from tests.oracle.generate.world import MODELS, World


def draw_selectors(world: World) -> list[dict]:
    dice = world.dice
    return [{"cel": {"expression": _expression(world)}} for _ in range(dice.weighted({1: 75, 2: 22, 3: 3}))]


def _expression(world: World) -> str:
    dice, driver = world.dice, world.dice.choice(world.drivers)
    attributes, capacity = f'device.attributes["{driver}"]', f'device.capacity["{driver}"]'
    model, size = dice.choice(MODELS), dice.choice(["10Gi", "20Gi", "40Gi", "2Gi"])
    texts = {
        f'device.driver == "{driver}"': 3,
        f'{attributes}.?model.orValue("") == "{model}"': 8,
        f'{attributes}.?model.orValue("") != "{model}"': 8,
        f'{attributes}.?model.orValue("") in ["A", "{model}"]': 5,
        f"{attributes}.?index.orValue(0) < {dice.randint(1, 5)}": 8,
        f"{attributes}.?index.orValue(0) % 2 == {dice.randint(0, 1)}": 5,
        f"has({attributes}.ecc) && {attributes}.ecc": 4,
        f'{capacity}.?memory.orValue(quantity("0")).compareTo(quantity("{size}")) >= 0': 8,
        f'{attributes}.?version.orValue(semver("0.0.0")).compareTo(semver("2.0.0")) >= 0': 5,
        'device.attributes["resource.kubernetes.io"].?numaNode.orValue(0) == 0': 5,
        'device.attributes["resource.kubernetes.io"].?pcieRoot.orValue("").endsWith("1")': 2,
        f'"{driver}" in device.attributes || device.driver == "other"': 2,
        f'!format.dns1123Label().validate({attributes}.?model.orValue("a.b")).hasValue()': 1.5,
        f'format.named("dns1035Label").value().validate({attributes}.?model.orValue("a")).hasValue()': 1.5,
        "true": 2,
        "false": 0.6,
        # These fail on a device without the attribute, or of another type.
        f'{attributes}.model == "{model}"': 1.2,
        f"{attributes}.index >= 1": 1,
        f'{attributes}.?mixed.orValue("") == "1"': 1,
    }
    if world.about("capacity"):
        texts |= {"device.allowMultipleAllocations": 6, "!device.allowMultipleAllocations": 3}
    if world.about("listAttributes"):
        texts[f"{attributes}.?links.orValue([1]).includes({dice.randint(0, 3)})"] = 5
    return dice.weighted(texts)


def draw_classes(dice: Dice, config: list[dict]) -> list[dict]:
    """Return the classes that claims name; `config` goes to two of them."""
    driver, other = 'device.driver == "gpu.example.com"', 'device.driver == "nic.example.org"'
    big = 'device.capacity["gpu.example.com"].?memory.orValue(quantity("0")).compareTo(quantity("20Gi")) >= 0'
    model = 'device.attributes["gpu.example.com"].?model.orValue("") == "A"'
    texts = {"any": [], "gpu": [driver], "nic": [other], "big": [big], "model-a": ["true", model]}
    classes: list[dict] = [
        {
            "metadata": {"name": name},
            "spec": {"selectors": [{"cel": {"expression": text}} for text in selectors]},
        }
        for name, selectors in texts.items()
    ]
    for one in dice.sample(classes, 2) if config else ():
        one["spec"]["config"] = config
    return classes
