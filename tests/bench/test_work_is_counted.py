"""Steps of Python and visits of PostgreSQL are the same each time, and grow with what a call does."""

import sys
from unittest import mock

import pytest

from bench.portal.work import TOOL, counted
from teams.models import Team
from tests.factories import make_team


def test_steps_are_calls_and_iterations():
    def loop(times):
        for number in range(times):
            abs(number)

    few, many = (counted_steps(lambda times=times: loop(times)) for times in (10, 1_010))
    assert many - few == 2 * 1_000
    assert counted_steps(lambda: loop(10)) == few


def counted_steps(run):
    with mock.patch("bench.portal.work._visits", return_value=0):
        return counted(run).steps


@pytest.mark.django_db(transaction=True)
def test_visits_are_pages_and_rows_that_postgresql_reads():
    def read_all():
        return list(Team.objects.all())

    make_team("first")
    one = counted(read_all).visits
    for number in range(100):
        make_team(f"team-{number}")
    assert 100 <= counted(read_all).visits - one < 200
    assert counted(lambda: None).visits == 0


def test_counting_ends_when_a_call_fails():
    with mock.patch("bench.portal.work._visits", return_value=0), pytest.raises(ZeroDivisionError):
        counted(lambda: 1 / 0)
    assert sys.monitoring.get_tool(TOOL) is None
