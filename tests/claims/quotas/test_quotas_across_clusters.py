"""One limit in two clusters: together they admit exactly what the team may hold, whatever happens where."""

from contextlib import contextmanager
from datetime import timedelta

import pytest
from django.utils import timezone
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as some

from claims.approvals import decide as approvals_decide
from claims.delivery import deliver
from claims.lifecycle.services import release, withdraw
from claims.models import Claim, Quota, QuotaIncrease, WrittenQuota
from claims.quotas import resource_quota_rounds
from claims.states import ClaimState
from claims.tasks import maintain_quotas
from cluster.protocol import NAMESPACE, RESOURCE_CLAIM, RESOURCE_QUOTA, Refused, Unreachable
from core.errors import QuotaExceeded
from inventory.models import Cluster, ResourceClaim
from tests.claims.quotas.test_quota_usage import make_unmanaged
from tests.factories import GPU_CLASS, make_cluster, make_raise, make_spec
from tests.fakes import FakeGateway

DEVICES = f"{GPU_CLASS}.deviceclass.resource.k8s.io/devices"


class Two:
    """Two clusters that keep quotas, `fra-1` and `osl-1`, and unmanaged claims in them."""

    def __init__(self):
        self.gateways = {"fra-1": FakeGateway(name="fra"), "osl-1": FakeGateway(name="osl")}
        self.order = []  # clusters in the order in which they were asked for
        self.down = set()
        for gateway in self.gateways.values():
            gateway.put(NAMESPACE, {"metadata": {"name": "vision"}})

    @contextmanager
    def connected(self, cluster):
        self.order.append(cluster.name)
        if cluster.name in self.down:
            raise Unreachable("no answer")
        yield self.gateways[cluster.name]

    def hard(self, name):
        found = self.gateways[name].get(RESOURCE_QUOTA, "dragoman", namespace="vision")
        return int(found["spec"]["hard"][DEVICES])

    def by_hand(self, cluster, name, count):
        """Create an unmanaged claim and mirror it; return False if the cluster refuses it."""
        requested = {"metadata": {"name": name, "namespace": "vision"}, "spec": make_spec(count)}
        try:
            self.gateways[cluster.name].create(RESOURCE_CLAIM, requested)
        except Refused:
            return False
        make_unmanaged(cluster, name, count)
        return True

    def held(self):
        """Return the devices of all claims that stand in the clusters."""
        pages = (gateway.list(RESOURCE_CLAIM) for gateway in self.gateways.values())
        specs = [item["spec"] for each in pages for page in each for item in page.items]
        return sum(one["exactly"]["count"] for spec in specs for one in spec["devices"]["requests"])


@pytest.fixture
def osl(vision):
    return make_cluster("osl-1", teams=(vision,))


@pytest.fixture
def two(fra, osl, gateway, monkeypatch):
    Cluster.objects.update(write_quotas=True)
    world = Two()
    monkeypatch.setattr("claims.quotas.resource_quota_rounds.gateway_for", world.connected)
    monkeypatch.setattr("claims.delivery.deliver.gateway_for", world.connected)
    return world


@pytest.fixture
def approve(lena):
    def decide(claim):
        approvals_decide.approve(claim=claim, by=lena, spec_hash=claim.spec_hash)
        return Claim.objects.get(pk=claim.pk)

    return decide


@pytest.mark.django_db(transaction=True)
def test_each_step_of_a_claim_is_told_to_the_other_cluster(two, ask, approve, alice, fra, osl):
    maintain_quotas()
    claim = ask(devices=3)
    assert (two.hard("fra-1"), two.hard("osl-1")) == (5, 5)
    claim = approve(claim)
    assert claim.state == ClaimState.PROVISIONED
    assert (two.hard("fra-1"), two.hard("osl-1")) == (8, 5)
    release(claim=claim, by=alice)
    assert (two.hard("fra-1"), two.hard("osl-1")) == (8, 8)
    withdraw(claim=ask(devices=2), by=alice)
    assert two.hard("osl-1") == 8


@pytest.mark.django_db(transaction=True)
def test_what_is_made_by_hand_is_less_in_the_other_cluster_once_it_is_seen(two, ask, fra, osl):
    maintain_quotas()
    assert two.by_hand(osl, "by-hand", 6)
    resource_quota_rounds.write_changed(osl.pk, {"vision"})
    assert (two.hard("fra-1"), two.hard("osl-1")) == (2, 8)
    assert not two.by_hand(fra, "too-much", 3)


@pytest.mark.parametrize(("before", "after"), [("fra-1", "osl-1"), ("osl-1", "fra-1")])
@pytest.mark.django_db(transaction=True)
def test_what_moves_is_taken_away_in_one_cluster_before_it_is_given_in_the_other(
    two, ask, approve, alice, vision, fra, osl, monkeypatch, before, after
):
    clusters = {"fra-1": fra, "osl-1": osl}
    here = approve(ask(devices=8, cluster=clusters[before]))
    with monkeypatch.context() as lost:  # every message is lost
        lost.setattr("claims.quotas.tasks.write_team.delay", lambda team: None)
        release(claim=here, by=alice)
        there = ask(devices=8, cluster=clusters[after])
        Claim.objects.filter(pk=there.pk).update(state=ClaimState.APPROVED)
    assert (two.hard(before), two.hard(after)) == (8, 0)
    two.order.clear()
    resource_quota_rounds.write_teams([vision.pk])
    assert two.order == [before, after]
    assert (two.hard(before), two.hard(after)) == (0, 8)


@pytest.mark.django_db(transaction=True)
def test_a_delivery_takes_away_elsewhere_first_though_messages_were_lost(
    two, ask, approve, monkeypatch, fra, osl
):
    maintain_quotas()
    monkeypatch.setattr("claims.quotas.tasks.write_team.delay", lambda team: None)
    claim = ask(devices=8)
    assert two.hard("osl-1") == 8
    assert approve(claim).state == ClaimState.PROVISIONED
    assert (two.hard("fra-1"), two.hard("osl-1")) == (8, 0)


@pytest.mark.django_db(transaction=True)
def test_a_cluster_that_is_down_keeps_no_claim_of_another_waiting(two, ask, approve, fra, osl):
    maintain_quotas()
    two.down = {"osl-1"}
    claim = approve(ask(devices=3))
    assert claim.state == ClaimState.PROVISIONED
    assert WrittenQuota.objects.get(team_namespace__cluster=osl).problem == "osl-1: no answer"
    two.order.clear()
    resource_quota_rounds.before_delivery(claim, two.gateways["fra-1"])
    assert two.order == []
    two.down = set()
    maintain_quotas()
    assert (two.hard("fra-1"), two.hard("osl-1")) == (8, 5)


@pytest.mark.django_db(transaction=True)
def test_a_successor_is_delivered_into_another_cluster_at_the_limit(two, ask, approve, alice, fra, osl):
    maintain_quotas()
    old = approve(ask(devices=8))
    new = approve(ask(devices=8, cluster=osl, replaces=old))
    assert (old.state, new.state) == (ClaimState.PROVISIONED, ClaimState.PROVISIONED)
    assert not two.by_hand(fra, "one-more", 1)
    assert not two.by_hand(osl, "one-more", 1)


@pytest.mark.django_db(transaction=True)
def test_nothing_is_counted_for_teams_that_no_cluster_keeps_quotas_of(
    two, vision, fra, django_assert_num_queries
):
    Cluster.objects.update(write_quotas=False)
    with django_assert_num_queries(1):
        resource_quota_rounds.write_teams([vision.pk])
    with django_assert_num_queries(1):
        resource_quota_rounds.write_changed(fra.pk, {"vision"})
    assert two.order == []


actions = some.sampled_from(["ask", "approve", "release", "hand", "tidy", "limit", "raise"])
steps = some.lists(some.tuples(actions, some.integers(0, 1), some.integers(1, 6)), min_size=3, max_size=8)


@pytest.mark.django_db
@given(steps=steps)
@example(steps=[("ask", 0, 6), ("hand", 0, 3), ("hand", 1, 3), ("approve", 0, 1), ("hand", 1, 2)])
@example(steps=[("hand", 1, 6), ("ask", 0, 2), ("limit", 0, 1), ("approve", 0, 1), ("hand", 0, 1)])
@example(steps=[("raise", 0, 3), ("hand", 0, 6), ("ask", 1, 5), ("raise", 0, 1), ("approve", 0, 1)])
@settings(max_examples=6, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_both_together_admit_what_the_limit_says_and_never_more(two, ask, vision, fra, osl, quota, steps):
    """By hand and through the portal alike; what was reserved is delivered whatever was done by hand."""
    for rows in (Claim.objects.all(), ResourceClaim.objects.all(), QuotaIncrease.objects.all()):
        rows.delete()
    two.__init__()
    Quota.objects.filter(pk=quota.pk).update(devices=8)
    clusters, made = (fra, osl), []
    resource_quota_rounds.write_teams([vision.pk])
    for number, (action, where, count) in enumerate(steps):
        limit = Quota.objects.get(pk=quota.pk).devices + sum(
            one.devices for one in QuotaIncrease.objects.all()
        )
        waiting = list(Claim.objects.filter(state=ClaimState.REQUESTED).order_by("pk"))
        before = two.held() + sum(claim.devices for claim in waiting)
        allowed = before + count <= limit
        if action == "ask":
            try:
                ask(devices=count, cluster=clusters[where])
                assert allowed
            except QuotaExceeded:
                assert not allowed
        elif action == "hand":
            assert two.by_hand(clusters[where], f"hand-{number}", count) == allowed
            made += [(clusters[where], f"hand-{number}")] if allowed else []
        elif action == "approve" and waiting:
            assert waiting[0].advance(ClaimState.APPROVED, why="yes")
            deliver.deliver(str(waiting[0].pk))
            assert Claim.objects.get(pk=waiting[0].pk).state == ClaimState.PROVISIONED
        elif action == "release" and (claim := Claim.objects.filter(state=ClaimState.PROVISIONED).first()):
            assert claim.advance(ClaimState.RELEASING, why="done")
            deliver.remove(str(claim.pk))
        elif action == "tidy" and made:
            cluster, name = made.pop()
            two.gateways[cluster.name].remove(RESOURCE_CLAIM, name, namespace="vision")
            ResourceClaim.objects.filter(cluster=cluster, name=name).delete()
        elif action == "limit":
            Quota.objects.filter(pk=quota.pk).update(devices=count * 2)
        elif action == "raise" and not QuotaIncrease.objects.all().delete()[0]:
            make_raise(quota, count, ends_at=timezone.now() + timedelta(days=1))
        resource_quota_rounds.write_teams([vision.pk])
        reserved = Claim.objects.filter(state=ClaimState.REQUESTED)
        after = two.held() + sum(claim.devices for claim in reserved)
        if action not in ("limit", "raise"):
            assert after <= max(limit, before)
