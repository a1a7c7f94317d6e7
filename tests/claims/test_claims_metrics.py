"""What Prometheus reads about claims."""

from datetime import timedelta

import pytest
from django.utils import timezone
from prometheus_client import REGISTRY

from claims.metrics import ClaimCollector, UndecidedCollector
from claims.states import ClaimState
from tests.factories import make_claim, make_cluster, make_extension, make_quota_request

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


def test_undecided_requests_are_counted_by_kind_and_age(
    vision, fra, train, alice, lena, quota, django_assert_num_queries
):
    now = timezone.now()
    for hours in (0, 2, 30):
        make_claim(vision, by=alice, cluster=fra, state_since=now - timedelta(hours=hours))
    make_claim(vision, by=alice, cluster=fra, state=ClaimState.ALLOCATED)
    held = make_claim(vision, by=alice, cluster=fra, state=ClaimState.ALLOCATED)
    make_extension(held, requested_at=now - timedelta(hours=5))
    make_quota_request(vision, by=alice, requested_at=now - timedelta(days=4))
    with django_assert_num_queries(4):
        (family,) = UndecidedCollector().collect()
    found = {(row.labels["kind"], row.labels["older_than"]): row.value for row in family.samples}
    counts = {
        kind: [found[kind, age] for age in ("0", "1h", "4h", "1d", "3d")]
        for kind in ("claim", "extension", "quota", "budget")
    }
    assert counts == {
        "claim": [3, 2, 1, 1, 0],
        "extension": [1, 1, 1, 0, 0],
        "quota": [1, 1, 1, 1, 1],
        "budget": [0, 0, 0, 0, 0],
    }
