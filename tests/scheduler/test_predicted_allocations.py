"""Before a pod is made the engine says where it fits and what it gets; then the real scheduler decides."""

from collections.abc import Iterator

import pytest

from demo.controlplane.client import Client
from tests.scheduler.judged import it_is_scheduled
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
