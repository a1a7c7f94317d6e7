"""Compares what the scheduler did with what the allocator predicted."""

from typing import Any

from tests.scheduler.runner import Outcome, condition


def assert_scheduled_as_predicted(outcome: Outcome) -> None:
    """The pod runs on the expected devices, and its claims have the allocations predicted for that node."""
    assert condition(outcome.pod) == condition(outcome.pod) | {"status": "True"}, condition(outcome.pod)
    assert outcome.prediction.refusals == outcome.prediction.problems == []
    assert outcome.prediction.previewed is not False
    predicted = outcome.prediction.fits[outcome.node]
    assert [without_random_parts(allocation) for allocation in outcome.allocations] == [
        *map(without_random_parts, outcome.prediction.held),
        *(without_random_parts(allocation.as_dict()) for allocation in predicted),
    ]
    results = [result for allocation in outcome.allocations for result in allocation["devices"]["results"]]
    assert tuple(result["device"] for result in results) == outcome.expected.gets


def without_random_parts(allocation: Any) -> Any:
    """Leave out what cannot be predicted: the instant, and the identity of a share."""
    results = [
        result | ({"shareID": "some"} if "shareID" in result else {})
        for result in allocation["devices"]["results"]
    ]
    comparable = {key: value for key, value in allocation.items() if key != "allocationTimestamp"}
    return comparable | {"devices": allocation["devices"] | {"results": results}}
