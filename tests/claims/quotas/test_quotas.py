from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from claims.models import ProfileVersion, Quota, QuotaIncrease
from claims.quotas.quota_usage import contributions, team_usage
from claims.quotas.services import set_quota
from claims.states import LIVE, MAY_HOLD_DEVICES, ClaimState
from core.errors import Forbidden, Invalid
from tests.claims.quotas.test_quota_usage import make_unmanaged
from tests.factories import (
    GPU_CLASS,
    make_claim,
    make_cluster,
    make_profile,
    make_quota,
    make_spec,
    make_team,
)

pytestmark = pytest.mark.django_db


def test_every_state_that_is_not_over_counts_once(vision, fra, train, quota):
    for state in ClaimState:
        make_claim(vision, cluster=fra, profile=train, state=state)
    row = team_usage([vision])[0]
    assert (row.held, row.reserved) == (len(MAY_HOLD_DEVICES), len(LIVE) - len(MAY_HOLD_DEVICES)) == (2, 3)
    assert (row.free, row.over) == (3, 0)


def test_a_quota_lowered_below_what_is_held_shows_as_over(vision, fra, train):
    make_claim(vision, cluster=fra, profile=train, devices=6, state=ClaimState.ALLOCATED)
    make_quota(vision, 4)
    row = team_usage([vision])[0]
    assert (row.free, row.over) == (0, 2)


def test_each_class_of_a_claim_counts_against_its_own_quota(vision, fra, quota):
    mig = make_quota(vision, 4, device_class="mig.nvidia.com")
    spec = make_spec(2)
    spec["devices"]["requests"] += [
        {"name": "part", "exactly": {"deviceClassName": "mig.nvidia.com", "count": 3}}
    ]
    profile = make_profile("mixed", spec=spec)
    make_claim(vision, cluster=fra, profile=profile, devices=2, parallel=1)
    used = {row.label: row.used for row in team_usage([vision])}
    assert used == {"gpu.nvidia.com": 2, mig.device_class: 3}


def test_a_quota_of_a_profile_counts_all_pods_of_its_templates(vision, fra, train, quota):
    own = make_quota(vision, 10, profile=train)
    make_claim(vision, cluster=fra, profile=train, devices=2, parallel=3, delivery="template")
    make_claim(vision, cluster=fra, profile=make_profile("other"), devices=1)
    rows = {row.label: row.used for row in team_usage([vision])}
    assert rows == {"gpu.nvidia.com": 7, "train-80": 6}
    assert [part.devices for part in contributions(own)] == [6]


@pytest.mark.parametrize("person", ["lena", "alice", "bob", "eve"])
def test_a_quota_is_set_by_platform_admins_alone_whoever_calls_the_service(request, vision, quota, person):
    with pytest.raises(Forbidden):
        set_quota(by=request.getfixturevalue(person), team=vision, device_class=GPU_CLASS, devices=9)
    assert Quota.objects.get().devices == 8


@pytest.mark.parametrize(
    ("requested", "said"),
    [
        ({"devices": 4}, "for one device class, for one profile, or"),
        ({"device_class": GPU_CLASS, "counts": "claims", "devices": 4}, "for one device class"),
        ({"device_class": "limits.nvidia.com/gpu", "devices": 4}, "counts nothing"),
        ({"device_class": GPU_CLASS, "devices": -1}, "from 0 to 1000000 devices; it is -1"),
        ({"device_class": GPU_CLASS, "devices": Quota.MOST + 1}, "it is 1000001"),
    ],
)
def test_a_quota_that_kubernetes_could_not_count_is_not_set(root, vision, requested, said):
    with pytest.raises(Invalid, match=said):
        set_quota(by=root, team=vision, **requested)
    assert not Quota.objects.exists()


def test_the_largest_and_the_smallest_quota_can_be_set(root, vision):
    for count in (Quota.MOST, 0):
        assert set_quota(by=root, team=vision, device_class=GPU_CLASS, devices=count).devices == count


def test_teams_do_not_share(vision, fra, train, quota):
    nlp = make_team("nlp")
    make_quota(nlp, 2)
    make_claim(nlp, cluster=fra, profile=train, devices=2)
    assert {row.team.slug: row.used for row in team_usage([vision, nlp])} == {"vision": 0, "nlp": 2}


def test_a_quota_of_a_profile_counts_the_claims_of_all_its_versions(vision, fra, train, quota):
    make_quota(vision, 10, profile=train)
    old = train.current
    make_claim(vision, cluster=fra, profile=train, devices=2)
    train.current = ProfileVersion.objects.create(
        profile=train, number=2, spec=old.spec, spec_hash=old.spec_hash, scalable=old.scalable
    )
    train.save(update_fields=["current"])
    make_claim(vision, cluster=fra, profile=train, devices=3)
    assert {row.label: row.used for row in team_usage([vision])} == {GPU_CLASS: 5, "train-80": 5}


def test_several_teams_count_as_each_alone(vision, train):
    teams = [vision, make_team("nlp"), make_team("audio")]
    now = timezone.now()
    osl = make_cluster("osl-1", teams=tuple(teams))
    for number, team in enumerate(teams, 1):
        row = make_quota(team, 10 * number)
        make_quota(team, 20, profile=train)
        Quota.objects.create(team=team, devices=30, counts=Quota.Counts.CLAIMS)
        for state in (ClaimState.REQUESTED, ClaimState.ALLOCATED, ClaimState.RELEASED):
            make_claim(team, cluster=osl, profile=train, devices=number, state=state)
        make_unmanaged(osl, f"unmanaged-{number}", number, namespace=team.slug)
        QuotaIncrease.objects.create(
            quota=row, devices=number, starts_at=now, ends_at=now + timedelta(days=1)
        )
    alone = [figures for team in teams for figures in figures_of([team])]
    assert sorted(alone) == sorted(figures_of(teams))
    assert ("audio", GPU_CLASS, 33, 3, 3, 3) in alone


def figures_of(teams):
    return [
        (row.team.slug, row.label, row.limit, row.held, row.reserved, row.unmanaged)
        for row in team_usage(teams)
    ]


def test_contributions_add_up_to_the_figure_and_cost_two_queries(
    vision, fra, train, quota, django_assert_num_queries
):
    for count in (1, 2, 3):
        make_claim(vision, cluster=fra, profile=train, devices=count)
    with django_assert_num_queries(2):
        parts = contributions(quota)
        assert all(part.claim.requested_by.username == "alice" for part in parts)
    assert sum(part.devices for part in parts) == team_usage([vision])[0].used == 6


def test_standing_costs_the_same_for_one_and_for_many(vision, train, quota, django_assert_num_queries):
    make_quota(vision, 1, profile=train)
    with CaptureQueriesContext(connection) as one:
        team_usage([vision])
    teams = [make_team(f"team-{number}") for number in range(10)]
    for team in teams:
        make_quota(team, 2)
        make_claim(team, profile=train)
    with django_assert_num_queries(len(one)):
        team_usage([vision, *teams])


def test_the_sentence_knows_one_and_many(vision, fra, train):
    quota = make_quota(vision, 1)
    assert team_usage([vision])[0].sentence == "vision holds 0 of 1 gpu.nvidia.com device"
    quota.devices = 8
    quota.save(update_fields=["devices"])
    for _ in range(2):
        make_claim(vision, cluster=fra, profile=train)
    assert team_usage([vision])[0].sentence == (
        "vision holds 0 of 8 gpu.nvidia.com devices and 2 are reserved"
    )
