"""A claim that replaces another: what counts meanwhile, and who releases the old one."""

import pytest

from claims.approvals.decide import approve, deny
from claims.delivery import reconcile, tasks
from claims.delivery.reconcile import release_predecessors
from claims.lifecycle.services import approve_extension, extend, release, withdraw
from claims.models import Claim
from claims.quotas import quota_usage
from claims.states import ClaimState
from core.errors import Conflict, Forbidden, Invalid, QuotaExceeded
from inventory.models import ResourceClaim
from tests.claims.mirror import Mirror, result
from tests.factories import make_cluster, make_profile, make_quota, make_spec, make_team

pytestmark = pytest.mark.django_db


@pytest.fixture
def old(ask, lena):
    """Six of the eight devices of vision, in the cluster."""
    claim = ask(devices=6, name="old")
    approve(claim=claim, by=lena, spec_hash=claim.spec_hash)
    tasks.deliver(str(claim.pk))
    claim.refresh_from_db()
    assert claim.state == ClaimState.PROVISIONED
    return claim


def used(*rows):
    return [usage.used for usage in quota_usage.quota_usage(rows)]


def test_only_what_is_more_counts_until_the_old_one_is_over(ask, old, quota, vision, train):
    profile_quota = make_quota(vision, 8, profile=train)
    new = ask(devices=8, name="new", replaces=old)
    assert new.replaces == old
    assert new.carried == 6
    assert new.charges.get().carried == 6
    assert used(quota, profile_quota) == [8, 8]
    with pytest.raises(QuotaExceeded, match="this request needs 1"):
        ask(devices=1)
    old.refresh_from_db()
    assert old.history.last().reason == "new was requested as a replacement."


def test_what_it_carried_counts_as_soon_as_the_old_one_is_over(ask, old, quota, alice):
    new = ask(devices=8, name="new", replaces=old)
    release(claim=old, by=alice)
    Claim.objects.get(pk=old.pk).advance(ClaimState.RELEASED, why="Gone.")
    new.refresh_from_db()
    assert (new.carried, new.charges.get().carried) == (0, 0)
    assert used(quota) == [8]


def test_a_smaller_one_frees_nothing_before_the_old_one_is_over(ask, old, quota):
    ask(devices=2, name="new", replaces=old)
    assert used(quota) == [6]
    Claim.objects.get(pk=old.pk).advance(ClaimState.FAILED, why="Gone.")
    assert used(quota) == [2]


@pytest.mark.parametrize("how", ["denied", "withdrawn"])
def test_where_it_comes_to_nothing_the_old_one_stays(ask, old, quota, alice, lena, how):
    new = ask(devices=8, name="new", replaces=old)
    if how == "denied":
        deny(claim=new, by=lena, reason="No.")
    else:
        withdraw(claim=new, by=alice)
    old.refresh_from_db()
    assert old.state == ClaimState.PROVISIONED
    assert used(quota) == [6]
    assert ask(devices=7, name="again", replaces=old).carried == 6


def test_another_profile_carries_what_both_have_of_a_class(ask, old, quota, vision):
    other = make_profile("fast", spec=make_spec())
    of_other = make_quota(vision, 4, profile=other)
    new = ask(devices=4, name="new", profile=other, replaces=old)
    assert new.carried == 0
    assert new.charges.get().carried == 4
    assert used(quota, of_other) == [6, 4]


def test_nothing_is_carried_where_alternatives_move_the_count(ask, old, quota):
    small = make_profile("slice", spec=make_spec(), scalable="")
    with pytest.raises(QuotaExceeded):
        ask(devices=3, name="new", alternatives=[small], replaces=old)


def test_the_old_one_is_released_when_the_new_one_holds_devices(ask, old, fra, lena):
    new = ask(devices=2, name="new", replaces=old)
    approve(claim=new, by=lena, spec_hash=new.spec_hash)
    tasks.deliver(str(new.pk))
    assert release_predecessors([new.pk]) == []
    mirror = Mirror(fra)
    new.refresh_from_db()
    mirror.claim("new", new, result("gpu-0"), result("gpu-1"))
    tasks.reconcile_objects(str(fra.pk), ["vision/new"])
    old.refresh_from_db()
    assert old.state in (ClaimState.RELEASING, ClaimState.RELEASED)
    why = "Replaced by new, which holds its devices."
    assert why in old.history.values_list("reason", flat=True)
    assert ResourceClaim.objects.count() == 1
    assert release_predecessors([new.pk]) == []


def test_the_sweep_releases_the_old_one_though_another_claim_cannot_be_settled(
    ask, old, fra, lena, monkeypatch
):
    new = ask(devices=2, name="new", replaces=old)
    approve(claim=new, by=lena, spec_hash=new.spec_hash)
    tasks.deliver(str(new.pk))
    new.refresh_from_db()
    monkeypatch.setattr("claims.receivers.reconcile_cluster.delay", lambda *_: None)  # the message is lost
    Mirror(fra).claim("new", new, result("gpu-0"), result("gpu-1"))
    reconcile_claims = reconcile.reconcile_claims

    def settle_all_but_one(claim_ids):
        reconcile_claims(claim_ids)
        raise ExceptionGroup("Claims could not be settled", [RuntimeError("A fault of ours.")])

    monkeypatch.setattr(reconcile, "reconcile_claims", settle_all_but_one)
    with pytest.raises(ExceptionGroup):
        tasks.sweep()
    old.refresh_from_db()
    assert old.state in (ClaimState.RELEASING, ClaimState.RELEASED)


def test_what_is_being_replaced_is_neither_extended_nor_replaced_again(ask, old, alice):
    new = ask(devices=7, name="new", replaces=old)
    with pytest.raises(Conflict, match="is being replaced by new"):
        extend(claim=old, by=alice, until=old.expires_at + old.duration, key="k")
    with pytest.raises(Conflict, match="is already being replaced by new"):
        ask(devices=8, name="newer", replaces=old)
    Claim.objects.get(pk=new.pk).advance(ClaimState.APPROVED, why="Yes.")
    with pytest.raises(Conflict, match="itself replaces old"):
        ask(devices=8, name="newer", replaces=Claim.objects.get(pk=new.pk))


def test_a_wish_for_more_time_is_not_granted_once_something_replaces_the_claim(ask, old, alice, lena):
    requested = extend(claim=old, by=alice, until=old.expires_at + old.duration, key="k")
    ask(devices=7, name="new", replaces=old)
    with pytest.raises(Conflict, match="is being replaced by new"):
        approve_extension(extension=requested, by=lena)


def test_only_a_claim_of_the_same_team_that_runs_can_be_replaced(ask, old, vision, fra, alice, bob, lena):
    request = ask(devices=1, name="waits")
    with pytest.raises(Conflict, match="only a running claim"):
        ask(devices=2, replaces=request)
    audio = make_team("audio", members=(alice,))
    make_quota(audio, 8)
    make_cluster("fra-1").team_namespaces.create(team=audio, namespace="audio")
    with pytest.raises(Invalid, match="belongs to vision"):
        ask(team=audio, devices=2, replaces=old)
    vision.memberships.filter(user=bob).update(role="member")
    with pytest.raises(Forbidden, match="belongs to alice"):
        ask(by=bob, devices=2, replaces=old)
