"""On how many nodes a claim fits: told by columns and looks, and by asking the allocator node by node."""

import pytest

from bench.specs import FITS, LARGE, NUMA, SHARE, Question, exactly, spec
from bench.world import DRIVER, Kind, world
from dra.allocator import AllocationError, allocate
from dra.match.funnel import funnel
from dra.match.places import fit
from dra.objects import asks
from dra.picture import Picture

EVERY = {"name": "gpu", "exactly": {"deviceClassName": DRIVER, "allocationMode": "All"}}
MISSING = f"device.attributes['{DRIVER}'].missing == 'x'"
MORE = (
    Question("all of a node", Kind.WHOLE, spec(EVERY)),
    Question("distinct by uuid", Kind.SHARED, spec(exactly(2, **SHARE), distinct=f"{DRIVER}/uuid")),
    Question("an attribute nobody has", Kind.WHOLE, spec(exactly(2), match=f"{DRIVER}/nowhere")),
    Question(
        "two requests in one domain", Kind.WHOLE, spec(exactly(2, LARGE), exactly(name="b"), match=NUMA)
    ),
    Question("a selector that fails", Kind.WHOLE, spec(exactly(1, MISSING))),
)


def picture_of(kind, devices):
    made = world(kind, devices)
    return Picture(made.classes, made.slices, made.claims, made.taint_rules, made.nodes)


@pytest.fixture(scope="module")
def pictures():
    return {(kind, size): picture_of(kind, size) for kind in Kind for size in (16, 320)}


def by_asking(picture, wish, claims):
    """Names of the nodes that take one claim, and how many claims all of them take."""
    claim = {"metadata": {"name": "mine"}, "spec": wish}
    names, total = [], 0
    for node in picture.nodes:
        times = 0
        if (node.get("spec") or {}).get("unschedulable"):
            continue
        while times < claims:
            try:
                if allocate(picture, node, [claim] * (times + 1)) is None:
                    break
            except AllocationError:
                break
            times += 1
        if times:
            names.append(node["metadata"]["name"])
        total += times
    return names, min(total, claims)


@pytest.mark.parametrize(("devices", "claims"), [(320, 1), (320, 2), (16, 4)])
@pytest.mark.parametrize("question", [*FITS, *MORE], ids=lambda question: question.name)
def test_columns_and_looks_say_what_the_allocator_says(pictures, question, devices, claims):
    picture = pictures[question.kind, devices]
    funnels = [funnel(picture, one) for one in asks(question.spec)]
    found = fit(picture, question.spec, funnels, claims)
    assert not found.gave_up
    assert (found.nodes, found.claims) == by_asking(picture, question.spec, claims)
