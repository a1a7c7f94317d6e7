"""What is guaranteed to one team is not given to another, at any moment."""

from functools import partial

import pytest
from django.utils import timezone

from claims.catalogue.availability import refresh
from claims.models import Claim, Quota
from claims.quotas import quota_usage, services
from claims.states import ClaimState
from core.errors import Invalid, QuotaExceeded
from inventory.models import Cluster, Device, DeviceClass, ResourceSlice
from tests.claims.quotas.test_quota_usage import make_unmanaged
from tests.factories import GPU_CLASS, make_claim, make_cluster, make_quota, make_team, make_user
from tests.threads import Race, without_lock

pytestmark = pytest.mark.django_db


@pytest.fixture
def publish(fra):
    """Publish so many devices of the class in `fra`."""

    def devices(count):
        DeviceClass.objects.get_or_create(cluster=fra, uid="c", defaults={"name": GPU_CLASS})
        fields = {"name": "s", "driver": "d", "pool": "p", "generation": 1, "pool_slices": 1}
        piece, _ = ResourceSlice.objects.get_or_create(cluster=fra, uid="s", defaults=fields)
        for number in range(count):
            Device.objects.create(
                cluster=fra, slice=piece, driver="d", pool="p", name=f"gpu-{number}", classes=[GPU_CLASS]
            )

    return devices


def guarantee(team, devices, limit=20):
    quota, _ = Quota.objects.update_or_create(
        team=team, device_class=GPU_CLASS, defaults={"devices": limit, "guaranteed": devices}
    )
    return quota


def test_a_request_beyond_the_own_guarantee_leaves_others_theirs(ask, vision, quota, fra, publish):
    publish(14)
    guarantee(vision, 8)
    guarantee(make_team("nlp"), 4)
    make_claim(vision, cluster=fra, devices=8, state=ClaimState.ALLOCATED)
    with pytest.raises(QuotaExceeded) as refused:
        ask(devices=3)
    assert refused.value.message == (
        "4 of the 6 free gpu.nvidia.com devices are guaranteed to nlp; "
        "this request needs 3 beyond vision's own guarantee of 8. Release a claim of the team, "
        "request fewer devices, or ask for more quota."
    )
    assert ask(devices=2).state == ClaimState.REQUESTED


def test_a_request_takes_the_rest_of_its_own_guarantee_before_what_is_beyond_it(
    ask, vision, quota, fra, publish
):
    """Of 8 free devices 4 are kept for nlp and 2 are what vision has left of its guarantee: 2 are for all."""
    publish(10)
    guarantee(vision, 4)
    guarantee(make_team("nlp"), 4)
    make_claim(vision, cluster=fra, devices=2, state=ClaimState.ALLOCATED)
    with pytest.raises(QuotaExceeded) as refused:
        ask(devices=5)
    assert refused.value.message == (
        "4 of the 8 free gpu.nvidia.com devices are guaranteed to nlp; "
        "this request needs 3 beyond vision's own guarantee of 4. Release a claim of the team, "
        "request fewer devices, or ask for more quota."
    )
    assert ask(devices=4).state == ClaimState.REQUESTED


def test_a_team_without_a_guarantee_takes_what_is_left(ask, quota, publish):
    publish(6)
    guarantee(make_team("nlp"), 4)
    with pytest.raises(QuotaExceeded, match="this request needs 3, and vision has no guarantee of its own"):
        ask(devices=3)
    ask(devices=2)


def test_within_its_own_guarantee_a_team_is_never_refused_for_others(ask, vision, quota, publish):
    publish(2)  # fewer than are promised: the promises are the admin's to keep
    guarantee(vision, 4)
    guarantee(make_team("nlp"), 4)
    assert ask(devices=4).state == ClaimState.REQUESTED
    with pytest.raises(QuotaExceeded, match="1 beyond vision's own guarantee of 4"):
        ask(devices=1)


@pytest.mark.parametrize("use", ["held", "reserved", "unmanaged"])
def test_what_a_team_uses_of_its_guarantee_is_not_kept_twice(ask, quota, publish, fra, use):
    publish(6)
    nlp = make_team("nlp")
    make_cluster("fra-1", teams=(nlp,))
    guarantee(nlp, 4)
    if use == "unmanaged":
        make_unmanaged(fra, "by-hand", 3, namespace="nlp")
        refresh(fra)
    else:
        state = ClaimState.ALLOCATED if use == "held" else ClaimState.REQUESTED
        make_claim(nlp, cluster=fra, devices=3, state=state)
    ask(devices=2)
    with pytest.raises(QuotaExceeded, match=r"^1 of the 1 free gpu.nvidia.com device is guaranteed to nlp"):
        ask(devices=1)


def test_capacity_that_nobody_shows_is_not_checked(ask, quota):
    guarantee(make_team("nlp"), 4)
    assert quota_usage.device_capacity([GPU_CLASS]) == {}
    ask(devices=8)


@pytest.mark.parametrize(
    ("shown", "change"), [(Cluster, {"enabled": False}), (DeviceClass, {"gone_at": timezone.now()})]
)
def test_the_capacity_of_a_class_that_no_cluster_in_use_shows_is_unknown(fra, publish, shown, change):
    publish(3)
    assert quota_usage.device_capacity([GPU_CLASS]) == {GPU_CLASS: 3}
    shown.objects.update(**change)
    assert quota_usage.device_capacity([GPU_CLASS]) == {}


def test_the_capacity_of_one_class_is_no_look_at_the_others(fra, publish, django_assert_num_queries):
    publish(3)
    for name in ("mig.nvidia.com", "vfio.nvidia.com"):
        DeviceClass.objects.create(cluster=fra, uid=name, name=name)
    # What clusters show and have stored, those that are cut, and the number of the others.
    with django_assert_num_queries(3):
        assert quota_usage.device_capacity([GPU_CLASS]) == {GPU_CLASS: 3}


def test_a_guarantee_is_never_more_than_the_limit(root, vision):
    with pytest.raises(Invalid, match="guarantee of 9 is more than the limit of 8"):
        services.set_quota(by=root, team=vision, device_class=GPU_CLASS, devices=8, guaranteed=9)
    saved = services.set_quota(by=root, team=vision, device_class=GPU_CLASS, devices=8, guaranteed=8)
    assert (saved.devices, saved.guaranteed) == (8, 8)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("locked", [True, False])
def test_two_teams_at_once_cannot_share_what_is_left_beyond_a_guarantee(
    ask, fra, train, quota, publish, monkeypatch, locked
):
    publish(10)
    guarantee(make_team("nlp"), 4)
    eve = make_user("eve")
    speech = make_team("speech", members=(eve,))
    make_cluster("fra-1", teams=(speech,))
    make_quota(speech, 8)
    race = Race(monkeypatch)
    race.hold_after(quota_usage, "used_by_all_teams")
    if not locked:
        without_lock(monkeypatch, "claims.quotas.quota_usage.lock_quotas")
    first, second = race.run(
        partial(ask, devices=5), partial(ask, devices=5, by=eve, team=speech, name="of-speech")
    )
    assert race.waited is locked
    assert isinstance(first, Claim)
    assert isinstance(second, QuotaExceeded if locked else Claim)


def test_partitions_that_exclude_one_another_are_no_capacity_twice(fra, publish):
    """Of three partitions of a GPU one or the other two can be held, beside a plain device."""
    publish(1)
    publish_cut(fra, {"whole": ["a", "b"], "left": ["a"], "right": ["b"]})
    assert quota_usage.device_capacity([GPU_CLASS]) == {GPU_CLASS: 1 + 2}
    Device.objects.filter(name="right").update(classes=[])
    assert quota_usage.device_capacity([GPU_CLASS]) == {GPU_CLASS: 1 + 1}


@pytest.mark.parametrize(
    ("name", "change"), [("cut", {"generation": 2}), ("counters", {"gone_at": timezone.now()})]
)
def test_counters_that_are_older_or_gone_count_for_nothing(fra, publish, name, change):
    publish(1)
    publish_cut(fra, {"left": ["a"], "right": ["b"]})
    assert quota_usage.device_capacity([GPU_CLASS]) == {GPU_CLASS: 1 + 2}
    ResourceSlice.objects.filter(name=name).update(**change)
    assert quota_usage.device_capacity([GPU_CLASS]) == {GPU_CLASS: 1}


def publish_cut(cluster, partitions):
    """Publish devices that take one of each of these counters of one GPU."""
    counters = [{"name": "gpu-0", "counters": {"a": {"value": "1"}, "b": {"value": "1"}}}]
    fields = {"cluster": cluster, "driver": "d", "pool": "cut", "pool_slices": 2, "generation": 1}
    raw = {"spec": {"sharedCounters": counters}}
    ResourceSlice.objects.create(uid="counters", name="counters", raw=raw, **fields)
    piece = ResourceSlice.objects.create(uid="cut", name="cut", raw={"spec": {}}, **fields)
    for name, takes in partitions.items():
        taken = [{"counterSet": "gpu-0", "counters": {one: {"value": "1"} for one in takes}}]
        Device.objects.create(
            cluster=cluster,
            slice=piece,
            driver="d",
            pool="cut",
            name=name,
            classes=[GPU_CLASS],
            counters=taken,
        )
