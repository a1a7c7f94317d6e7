"""A line above its budget names what cost most of its time: a statement, a template or a function."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection
from django.template.loader import get_template

from bench.costs import costs_of, sampled_costs
from dra.manifests import spec_hash


def slow_query():
    with connection.cursor() as cursor:
        cursor.execute('SELECT "a"."b", pg_sleep(0.05) FROM (SELECT 1 AS b) "a"')


def rendering():
    for _ in range(50):
        get_template("_empty.html").render({})


def computing():
    for _ in range(2_000):
        spec_hash({"devices": {"requests": [{"name": "gpu"}]}})


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("run", "place"),
    [
        (slow_query, "% statement SELECT … FROM (SELECT 1 AS b) a"),
        (rendering, "% template _empty.html"),
        (computing, "% dra/manifests.py "),
    ],
)
def test_time_counts_for_the_statement_the_template_or_the_function(run, place):
    run()  # imports what it needs
    costs = costs_of(run)
    assert any(place in line for line in costs), costs


def test_a_thread_that_is_not_the_main_one_is_not_sampled():
    def sample():
        with sampled_costs() as costs:
            computing()
        return costs.lines()

    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(sample).result() == []
