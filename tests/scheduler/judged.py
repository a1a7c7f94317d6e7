"""Holds what the scheduler did to what the engine had foretold."""

from typing import Any

from tests.scheduler.play import Act, condition


def it_is_scheduled(act: Act) -> None:
    """The pod runs, on devices that were expected, and its claims say what was foretold for that node."""
    assert condition(act.pod) == condition(act.pod) | {"status": "True"}, condition(act.pod)
    assert act.foretold.refusals == act.foretold.problems == []
    assert act.foretold.previewed is not False
    new = act.foretold.fits[act.node]
    assert [plain(one) for one in act.allocations] == [
        *map(plain, act.foretold.held),
        *(plain(one.as_dict()) for one in new),
    ]
    results = [result for one in act.allocations for result in one["devices"]["results"]]
    assert tuple(result["device"] for result in results) == act.expected.gets


def plain(allocation: Any) -> Any:
    """Leave out what no one can foretell: the instant, and the identity of a share."""
    results = [
        result | ({"shareID": "some"} if "shareID" in result else {})
        for result in allocation["devices"]["results"]
    ]
    kept = {key: value for key, value in allocation.items() if key != "allocationTimestamp"}
    return kept | {"devices": allocation["devices"] | {"results": results}}
