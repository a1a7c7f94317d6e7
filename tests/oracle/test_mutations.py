"""The comparison notices when a rule of the engine is missing: each, switched off, turns it red."""

import pytest

from tests.oracle import ours
from tests.oracle.compare import difference
from tests.oracle.corpus import recorded
from tests.oracle.mutations import RULES


@pytest.fixture(scope="module")
def cases() -> list[dict]:
    return recorded()


@pytest.mark.parametrize("rule", RULES)
def test_the_comparison_notices_a_missing_rule(rule, cases, monkeypatch):
    RULES[rule](monkeypatch)
    assert any(difference(one["upstream"], ours.answer(one["case"])) for one in cases)
