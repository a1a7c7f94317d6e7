"""Waits grow, stay within bounds, and differ."""

from hypothesis import given
from hypothesis import strategies as st

from inventory.sync.list_watch import backoff_delay


@given(attempt=st.integers(0, 10_000), first=st.floats(0.01, 5), longest=st.floats(5, 600))
def test_a_wait_is_never_near_zero_and_never_beyond_the_longest(attempt, first, longest):
    waited = backoff_delay(attempt, first=first, longest=longest)
    assert first / 2 <= waited <= longest


def test_waits_double_until_the_longest():
    assert [
        backoff_delay(attempt, first=1, longest=8) <= ceiling
        for attempt, ceiling in enumerate((1, 2, 4, 8, 8))
    ] == [True] * 5
    assert backoff_delay(20, first=1, longest=8) >= 4


def test_two_workers_do_not_wait_alike():
    waits = [[backoff_delay(attempt) for attempt in range(10)] for _ in range(2)]
    assert waits[0] != waits[1]
