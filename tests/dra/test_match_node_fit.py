"""On how many nodes a claim fits: told by columns and looks, and by asking the allocator node by node."""

import pytest

from bench.specs import FITS, LARGE, NUMA, SHARE, Question, exactly, spec
from bench.world import DRIVER, Kind, world
from dra.allocator import AllocationError, allocate
from dra.cluster_snapshot import ClusterSnapshot
from dra.match.funnel import funnel
from dra.match.node_fit import fit
from dra.objects import device_requests

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


def snapshot_of(kind, devices):
    made = world(kind, devices)
    return ClusterSnapshot(made.classes, made.slices, made.claims, made.taint_rules, made.nodes)


@pytest.fixture(scope="module")
def pictures():
    return {(kind, size): snapshot_of(kind, size) for kind in Kind for size in (16, 320)}


def by_asking(snapshot, claim_spec, claims):
    """Names of the nodes that take one claim, and how many claims all of them take."""
    claim = {"metadata": {"name": "mine"}, "spec": claim_spec}
    names, total = [], 0
    for node in snapshot.nodes:
        times = 0
        if (node.get("spec") or {}).get("unschedulable"):
            continue
        while times < claims:
            try:
                if allocate(snapshot, node, [claim] * (times + 1)) is None:
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
    snapshot = pictures[question.kind, devices]
    funnels = [funnel(snapshot, one) for one in device_requests(question.spec)]
    found = fit(snapshot, question.spec, funnels, claims)
    assert not found.gave_up
    assert (found.node_names(), found.claims) == by_asking(snapshot, question.spec, claims)
