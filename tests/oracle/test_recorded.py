"""The engine answers as Kubernetes did: recorded, so that no Go is needed."""

import pytest

from tests.oracle import ours
from tests.oracle.compare import ALLOCATED, DOES_NOT_FIT, ERROR, difference, outcome
from tests.oracle.corpus import permanent, recorded


@pytest.mark.parametrize("one", permanent(), ids=lambda one: one["why"])
def test_what_differed_once_is_as_upstream_has_it(one):
    assert difference(one["upstream"], ours.answer(one["case"])) == ""


def test_the_recorded_cases_are_answered_as_upstream_did():
    differences = {
        one["case"]["name"]: found
        for one in recorded()
        if (found := difference(one["upstream"], ours.answer(one["case"])))
    }
    assert differences == {}


@pytest.mark.parametrize("told", [ALLOCATED, DOES_NOT_FIT, ERROR])
def test_the_recorded_cases_come_to_every_end_often(told):
    assert sum(outcome(one["upstream"]) == told for one in recorded()) >= 50
