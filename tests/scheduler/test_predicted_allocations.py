"""The allocator predicts where a pod fits and what it gets; the real scheduler does the same."""

from collections.abc import Iterator

import pytest

from demo.controlplane.client import Client
from tests.scheduler.checks import assert_scheduled_as_predicted
from tests.scheduler.messages import normalized, recorded
from tests.scheduler.runner import Outcome, condition, delete_all, run_scenarios
from tests.scheduler.situations import all_scenarios

pytestmark = pytest.mark.controlplane
SITUATIONS = all_scenarios()


@pytest.fixture(scope="module")
def outcomes(controlplane, request) -> Iterator[dict[str, list[Outcome]]]:
    """The scenarios of this run, all at once."""
    mine = (item for item in request.session.items if item.path == request.path)
    scenarios = [SITUATIONS[item.callspec.params["name"]] for item in mine]
    client: Client = controlplane.client()
    try:
        yield run_scenarios(client, scenarios)
    finally:
        delete_all(client)


@pytest.mark.parametrize("name", SITUATIONS)
def test_scheduler_allocates_as_predicted(outcomes, name):
    assert outcomes[name]
    for outcome in outcomes[name]:
        if outcome.expected.waits:
            assert_waits_as_predicted(name, outcome)
        else:
            assert_scheduled_as_predicted(outcome)


def assert_waits_as_predicted(name: str, outcome: Outcome) -> None:
    assert not outcome.prediction.fits or outcome.prediction.refusals
    assert bool(outcome.prediction.refusals) == outcome.expected.fails
    assert outcome.prediction.previewed is not True
    pod_condition = condition(outcome.pod)
    assert pod_condition["status"] == "False"
    assert normalized((pod_condition["reason"], pod_condition["message"])) == normalized(recorded()[name])
    assert not outcome.node
