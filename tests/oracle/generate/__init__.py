"""Random cases: whole worlds with claims in them, each repeated by its seed and number."""

from tests.oracle.generate.broken import break_something
from tests.oracle.generate.claims import draw_claims, opaque
from tests.oracle.generate.dice import Dice
from tests.oracle.generate.held import draw_held, draw_holder
from tests.oracle.generate.places import draw_node
from tests.oracle.generate.selectors import draw_classes
from tests.oracle.generate.slices import draw_slices
from tests.oracle.generate.world import TOPICS, draw_world

__all__ = ["TOPICS", "make_case"]


def make_case(seed: int, number: int, topic: str = "") -> dict:
    """Return case `number` of a seed, about `topic` for certain if one is named."""
    dice = Dice(f"{seed}/{number}/{topic}")
    world = draw_world(dice, topic)
    config = [opaque(dice) for _ in range(dice.randint(1, 2))] if world.about("config") else []
    case: dict = {
        "name": f"{seed}/{number}",
        "features": world.features,
        "classes": draw_classes(dice, config),
        "slices": draw_slices(world),
        "node": draw_node(dice),
        "claims": draw_claims(world),
        "allocated": draw_held(world),
    }
    if world.about("skipNodeOperations") and dice.chance(0.7):
        case["node"]["status"] = {"declaredFeatures": ["DRAOptionalNodeOperations"]}
    if world.about("malformed"):
        break_something(dice, case)
    case["claims"] = draw_holder(world) + case["claims"]
    return {key: value for key, value in case.items() if value or key in ("name", "node")}
