"""What Prometheus reads about claims."""

import pytest
from prometheus_client import REGISTRY

from claims.metrics import ClaimCollector
from claims.states import ClaimState
from tests.factories import make_claim, make_cluster

pytestmark = pytest.mark.django_db


def test_claims_are_counted_by_cluster_and_state(client, vision, fra, train, alice):
    for _ in range(2):
        make_claim(vision, by=alice, cluster=fra)
    make_claim(vision, by=alice, cluster=fra, state=ClaimState.ALLOCATED)
    make_cluster("ams-1")
    text = client.get("/metrics").text
    assert 'dragoman_claims{cluster="fra-1",state="requested"} 2.0' in text
    assert 'dragoman_claims{cluster="fra-1",state="allocated"} 1.0' in text
    assert 'dragoman_claims{cluster="ams-1",state="requested"} 0.0' in text  # a series that is always there
    assert '"vision"' not in text
    assert '"alice"' not in text


def test_claims_cost_two_queries_however_many(vision, fra, train, alice, django_assert_num_queries):
    for _ in range(20):
        make_claim(vision, by=alice, cluster=fra)
    with django_assert_num_queries(2):
        list(ClaimCollector().collect())


def test_the_collector_is_registered_once(client, db):
    text = client.get("/metrics").text
    assert text.count("# TYPE dragoman_claims gauge") == 1
    assert sum(isinstance(one, ClaimCollector) for one in REGISTRY._collector_to_names) == 1
