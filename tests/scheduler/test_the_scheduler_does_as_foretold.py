"""Before a pod is made the engine says where it fits and what it gets; then the real scheduler decides."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.controlplane.client import Client
from tests.scheduler.messages import alike, recorded
from tests.scheduler.play import Act, condition, play, strike
from tests.scheduler.situations import every

pytestmark = pytest.mark.controlplane
SITUATIONS = every()


@pytest.fixture(scope="module")
def acts(controlplane, request) -> Iterator[dict[str, list[Act]]]:
    """The situations that this run asks for, played all at once."""
    mine = (item for item in request.session.items if item.path == request.path)
    stages = [SITUATIONS[item.callspec.params["name"]] for item in mine]
    client: Client = controlplane.client()
    try:
        yield play(client, stages)
    finally:
        strike(client)


@pytest.mark.parametrize("name", SITUATIONS)
def test_the_scheduler_does_as_foretold(acts, name):
    assert acts[name]
    for act in acts[name]:
        if act.expected.waits:
            it_waits(name, act)
        else:
            it_is_scheduled(act)


def it_waits(name: str, act: Act) -> None:
    assert not act.foretold.fits or act.foretold.refusals
    assert bool(act.foretold.refusals) == act.expected.fails
    assert act.foretold.previewed is not True
    said = condition(act.pod)
    assert said["status"] == "False"
    assert alike((said["reason"], said["message"])) == alike(recorded()[name])
    assert not act.node


def it_is_scheduled(act: Act) -> None:
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
