"""Counting devices and searching for them say the same, whatever feature gates a cluster has."""

from collections import Counter

import pytest

from dra.allocator import AllocationError, allocate
from dra.cases import CaseError, read_case
from dra.match import NoFitReason, preview
from tests.oracle.generate import TOPICS, make_case

CASES = 25  # per topic
SILENT = {
    NoFitReason.INVALID,
    NoFitReason.NOT_PREVIEWABLE,
    NoFitReason.SELECTOR_FAILS,
    NoFitReason.NO_REQUEST,
}
MALFORMED = "has no value"  # no API server stores such an attribute


def answers(raw):
    """Yield (name, preview, whether the claim is allocated) for each claim of a case alone on its node."""
    try:
        case = read_case(raw)
    except CaseError:
        return
    if not (case.node.get("metadata") or {}).get("name"):
        return
    snapshot = case.snapshot.after(nodes=[case.node])
    for claim in case.claims:
        seen = preview(snapshot, claim.get("spec") or {})
        if seen.reason in SILENT or seen.nodes_that_fit is None:
            continue
        try:
            yield raw["name"], seen, allocate(snapshot, case.node, [claim]) is not None
        except AllocationError as refusal:
            if MALFORMED not in refusal.message:
                yield raw["name"], seen, False


@pytest.mark.parametrize("topic", TOPICS)
def test_preview_and_allocator_agree_with_any_gates(topic):
    seen: Counter[bool] = Counter()
    for number in range(CASES):
        for name, found, allocated in answers(make_case(27, number, topic)):
            assert found.fits is allocated, (name, topic, found.problem)
            assert bool(found.nodes_that_fit) is allocated, (name, topic, found.problem)
            seen[allocated] += 1
    assert seen.total() >= CASES / 2
