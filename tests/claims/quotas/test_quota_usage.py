"""What counts against a quota adds up to the parts that are shown, whatever the situation."""

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some

from claims.models import Alternative, Claim, ClaimCharge, Quota, QuotaIncrease, TeamNamespace
from claims.quotas import resource_quota
from claims.quotas.counts import class_quotas
from claims.quotas.quota_usage import quota_breakdown, quota_usage, team_usage
from claims.states import ClaimState
from inventory.models import DeviceClass, Pod, ResourceClaim
from teams.models import Team
from tests.factories import make_claim, make_quota, make_raise, make_spec, make_team

pytestmark = pytest.mark.django_db


def make_unmanaged(cluster, name, count, *, namespace="vision", device_class="gpu.nvidia.com", **columns):
    raw = {"metadata": {"name": name}, "spec": make_spec(count, device_class=device_class)}
    fields = {"namespace": namespace, "name": name, "raw": raw, "origin": "foreign", **columns}
    return ResourceClaim.objects.create(cluster=cluster, uid=f"uid-{cluster}-{name}", **fields)


def plugin_pod(cluster, name, *, namespace="vision", status=None, phase="Running", **extended):
    names = {key.replace("__", "/").replace("_", "."): count for key, count in extended.items()}
    return Pod.objects.create(
        cluster=cluster, uid=f"uid-{name}", namespace=namespace, name=name, phase=phase,
        extended=names, raw={"status": status or {}},
    )  # fmt: skip


def quota_of_claims(team, most):
    return Quota.objects.create(team=team, counts="claims", devices=most)


def test_what_the_predecessor_counts_for_does_not_count_twice(vision, fra, train, quota):
    profile_quota, claims_quota = make_quota(vision, 8, profile=train), quota_of_claims(vision, 8)
    old = make_claim(vision, cluster=fra, profile=train, devices=2, state=ClaimState.ALLOCATED)
    new = make_claim(vision, cluster=fra, profile=train, devices=3, replaces=old, carried=2)
    new.charges.update(carried=2)
    figures = {row.quota.pk: (row.held, row.reserved) for row in team_usage([vision])}
    assert figures == {quota.pk: (2, 1), profile_quota.pk: (2, 1), claims_quota.pk: (1, 0)}
    parts = {part.claim.pk: (part.devices, part.carried) for part in quota_breakdown(quota).claims}
    assert parts == {old.pk: (2, 0), new.pk: (1, 2)}


def test_a_quota_of_claims_counts_a_template_for_as_many_as_it_may_make(vision, fra, train):
    quota = quota_of_claims(vision, 10)
    make_claim(vision, cluster=fra, profile=train, parallel=4, delivery="template")
    make_claim(vision, cluster=fra, profile=train, devices=3, state=ClaimState.ALLOCATED)
    make_unmanaged(fra, "by-hand", 2)
    (row,) = quota_usage([quota])
    assert (row.held, row.reserved, row.unmanaged, row.free) == (1, 4, 1, 4)
    assert row.sentence.startswith("vision has 1 of 10 claims")


def test_of_a_successor_for_more_pods_only_the_further_ones_count_as_claims(vision, fra, train):
    quota, template = quota_of_claims(vision, 10), {"cluster": fra, "profile": train, "delivery": "template"}
    old = make_claim(vision, parallel=2, state=ClaimState.ALLOCATED, **template)
    make_claim(vision, parallel=5, replaces=old, carried=2, **template)
    (row,) = quota_usage([quota])
    assert (row.held, row.reserved) == (2, 3)


def test_a_raise_adds_to_the_limit_while_it_runs(vision, quota):
    now, hour = timezone.now(), timedelta(hours=1)
    for devices, start, end in ((2, -hour, hour), (4, -2 * hour, -hour), (8, hour, 2 * hour)):
        make_raise(quota, devices, starts_at=now + start, ends_at=now + end)
    (row,) = quota_usage([quota])
    assert (row.limit, row.raised) == (10, 2)
    assert [one.devices for one in quota_breakdown(quota).raises] == [2]


def test_claims_of_kubectl_count_as_unmanaged_and_the_portals_own_do_not(vision, fra, train, quota):
    own = make_claim(vision, cluster=fra, profile=train, devices=2, state=ClaimState.ALLOCATED)
    make_unmanaged(fra, own.name, 2, owner=str(own.pk), origin="portal")
    make_unmanaged(fra, "by-hand", 3)
    make_unmanaged(fra, "gone", 3, gone_at=timezone.now())
    make_unmanaged(fra, "elsewhere", 3, namespace="somebody")
    make_unmanaged(fra, "labeled", 1, owner=str(own.pk), origin="portal")  # not the object of that claim
    (row,) = quota_usage([quota])
    assert (row.held, row.unmanaged, row.free) == (2, 4, 2)
    assert "plus 4 unmanaged" in row.sentence
    assert [(part.use.name, part.devices) for part in quota_breakdown(quota).unmanaged] == [
        ("by-hand", 3),
        ("labeled", 1),
    ]


@pytest.fixture
def left_behind(vision, fra, train, quota):
    """A claim of vision for 3 devices, in a namespace that belongs to nlp now; nlp has a quota of 4."""
    nlp = make_team("nlp")
    make_quota(nlp, 4)
    claim = make_claim(vision, cluster=fra, profile=train, devices=3, state=ClaimState.ALLOCATED)
    TeamNamespace.objects.filter(team=vision, cluster=fra).update(team=nlp)
    return claim


@pytest.mark.parametrize("is_mirrored", [True, False])
def test_a_namespace_of_another_team_admits_what_exists_there_beside_the_quota(left_behind, fra, is_mirrored):
    if is_mirrored:
        make_unmanaged(fra, left_behind.name, 3, owner=str(left_behind.pk), origin="portal")
    make_unmanaged(fra, "by-hand", 1)
    place = TeamNamespace.objects.select_related("team").get(cluster=fra)
    room = resource_quota.headrooms([place])[place.pk]
    assert room.devices == {"gpu.nvidia.com": 7}  # 3 of vision, 1 by hand, 3 free


def test_a_claim_counts_for_its_own_team_alone_when_its_namespace_changes_hands(left_behind, vision, fra):
    make_unmanaged(fra, left_behind.name, 3, owner=str(left_behind.pk), origin="portal")
    usage = {
        row.team.slug: (row.held, row.unmanaged)
        for row in team_usage([vision, *Team.objects.filter(slug="nlp")])
    }
    assert usage == {"vision": (3, 0), "nlp": (0, 0)}
    (row,) = team_usage(Team.objects.filter(slug="nlp"))
    assert (row.held, row.unmanaged, row.free) == (0, 0, 4)


def test_object_of_an_adopted_claim_is_not_unmanaged_use(vision, fra, train, quota):
    row = make_unmanaged(fra, "by-hand", 3)
    make_claim(
        vision, cluster=fra, profile=train, name="by-hand", devices=3, origin="adopted",
        object_uid=row.uid, state=ClaimState.ALLOCATED,
    )  # fmt: skip
    (row,) = quota_usage([quota])
    assert (row.held, row.unmanaged) == (3, 0)


def test_claims_generated_from_a_template_of_the_portal_are_its_own(vision, fra, train, quota):
    own = make_claim(vision, cluster=fra, profile=train, delivery="template", parallel=2)
    row = make_unmanaged(fra, "pod-1-gpu-x", 1, origin="template")
    assert quota_usage([quota])[0].unmanaged == 1
    ResourceClaim.objects.filter(pk=row.pk).update(owner=str(own.pk))
    assert quota_usage([quota])[0].unmanaged == 0


def test_pods_of_a_device_plugin_count_and_pods_with_a_claim_of_the_scheduler_only_once(vision, fra, quota):
    plugin_pod(fra, "legacy", nvidia_com__gpu=2)
    plugin_pod(fra, "done", phase="Succeeded", nvidia_com__gpu=2)
    plugin_pod(fra, "network", vpc_amazonaws_com__eni=1)
    mapped = {"requestMappings": [{"resourceName": "nvidia.com/gpu"}], "resourceClaimName": "made"}
    plugin_pod(fra, "served", status={"extendedResourceClaimStatus": mapped}, nvidia_com__gpu=1)
    make_unmanaged(fra, "made", 1, origin="extended-resource")
    assert quota_usage([quota])[0].unmanaged == 3
    found = {part.use.name: (part.use.kind, part.devices) for part in quota_breakdown(quota).unmanaged}
    assert found == {"legacy": ("Pod", 2), "made": ("ResourceClaim", 1)}


def test_a_pod_counts_for_the_class_that_carries_the_name(vision, fra):
    DeviceClass.objects.create(
        cluster=fra, uid="c", name="big.example.com", extended_resource="nvidia.com/gpu"
    )
    quota = make_quota(vision, 8, device_class="big.example.com")
    plugin_pod(fra, "legacy", nvidia_com__gpu=2)
    assert quota_usage([quota])[0].unmanaged == 2


amounts = some.integers(1, 5)
claims = some.lists(
    some.tuples(some.sampled_from(list(ClaimState)), amounts, some.integers(0, 5), some.booleans()),
    max_size=6,
)


@given(claims=claims, unmanaged=some.lists(amounts, max_size=3), raises=some.lists(amounts, max_size=3))
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_parts_add_up_to_the_figure(vision, fra, train, quota, claims, unmanaged, raises):
    Claim.objects.all().delete()
    ResourceClaim.objects.all().delete()
    QuotaIncrease.objects.all().delete()
    rows = [quota, *Quota.objects.exclude(pk=quota.pk)]
    if len(rows) == 1:
        rows += [make_quota(vision, 9, profile=train), quota_of_claims(vision, 9)]
    for state, devices, carried, alternatives in claims:
        carried = min(carried, devices)
        made = make_claim(vision, cluster=fra, profile=train, devices=devices, state=state, carried=carried)
        made.charges.update(carried=carried)
        if alternatives:
            ClaimCharge.objects.filter(claim=made).update(settled=devices - 1)
            version = made.profile_version
            Alternative.objects.create(
                claim=made, position=0, name="gpu/a", profile_version=version, devices=devices, settled=None
            )
    for number, count in enumerate(unmanaged):
        make_unmanaged(fra, f"hand-{number}", count)
    ends = timezone.now() + timedelta(hours=1)
    for devices in raises:
        make_raise(quota, devices, ends_at=ends)
    for row in quota_usage(rows):
        parts = quota_breakdown(row.quota)
        assert sum(part.devices for part in parts.claims if not part.reserved) == row.held
        assert sum(part.devices for part in parts.claims if part.reserved) == row.reserved
        assert sum(part.devices for part in parts.unmanaged) == row.unmanaged
        assert row.quota.devices + sum(one.devices for one in parts.raises) == row.limit


def test_counting_costs_the_same_for_one_team_and_for_many(
    vision, fra, train, quota, django_assert_num_queries
):
    def fill(team):
        make_quota(team, 1, profile=train)
        quota_of_claims(team, 3)
        make_claim(team, cluster=fra, profile=train)
        make_unmanaged(fra, f"hand-{team}", 1, namespace=team.slug)
        plugin_pod(fra, f"pod-{team}", namespace=team.slug, nvidia_com__gpu=1)

    fill(vision)
    with CaptureQueriesContext(connection) as one:
        team_usage([vision])
    teams = [make_team(f"team-{number}") for number in range(8)]
    for team in teams:
        TeamNamespace.objects.create(team=team, cluster=fra, namespace=team.slug)
        make_quota(team, 2)
        fill(team)
    with django_assert_num_queries(len(one)):
        assert {row.unmanaged for row in team_usage([vision, *teams]) if row.quota.device_class} == {2}


def test_sums_over_device_classes_equal_those_of_each_quota(vision, fra, train):
    """Profiles, claims at once, requests, ended raises and classes without a quota are left out."""
    now = timezone.now()
    large, _small = make_quota(vision, 8), make_quota(vision, 3, device_class="small.nvidia.com")
    make_raise(large, 4, ends_at=now + timedelta(hours=1))
    make_raise(large, 32, starts_at=now - timedelta(hours=2), ends_at=now - timedelta(hours=1))
    profile_quota = make_quota(vision, 64, profile=train)
    make_raise(profile_quota, 128, ends_at=now + timedelta(hours=1))
    quota_of_claims(vision, 256)
    for state in (ClaimState.ALLOCATED, ClaimState.REQUESTED, ClaimState.RELEASED):
        make_claim(vision, cluster=fra, profile=train, devices=2, state=state)
    other = make_claim(vision, cluster=fra, profile=train, devices=1, state=ClaimState.APPROVED)
    other.charges.update(device_class="unlimited.nvidia.com")
    carrying = make_claim(vision, cluster=fra, profile=train, devices=3, state=ClaimState.ALLOCATED)
    carrying.charges.update(carried=2)
    nlp, empty = make_team("nlp"), make_team("empty")
    make_quota(nlp, 5)
    make_claim(nlp, cluster=fra, profile=train, devices=6, state=ClaimState.ALLOCATED)
    expected = {team.pk: (0, 0) for team in (vision, nlp, empty)}
    for row in team_usage([vision, nlp, empty]):
        if row.quota.device_class:
            held, limit = expected[row.team.pk]
            expected[row.team.pk] = held + row.held, limit + row.limit
    assert class_quotas(list(expected)) == expected == {vision.pk: (3, 15), nlp.pk: (6, 5), empty.pk: (0, 0)}
    assert class_quotas([vision.pk]) == {vision.pk: (3, 15)}
