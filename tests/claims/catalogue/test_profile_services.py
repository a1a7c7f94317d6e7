"""The services that save and retire profiles, and set quotas."""

from datetime import timedelta

import pytest

from claims.catalogue.services import retire_profile
from claims.models import Profile, ProfileVersion
from claims.quotas.services import set_quota
from core.errors import Conflict, Forbidden, Invalid
from tests.factories import make_spec, make_team, save_profile

pytestmark = pytest.mark.django_db


@pytest.fixture
def save(root):
    def save_as_root(profile=None, **fields):
        wanted = {"by": root, "slug": "train-80", "title": "Train 80 GB", "spec": make_spec(), **fields}
        return save_profile(profile=profile, **wanted)

    return save_as_root


def test_profile_is_created_with_its_first_version(save, root):
    version = save(scalable="gpu", max_devices=8)
    assert (version.number, version.created_by, version.profile.current) == (1, root, version)


def test_saving_the_same_profile_makes_no_version(save):
    first = save()
    spec = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com"}}]}}
    assert save(first.profile, spec=spec, title="Other title") == first
    assert Profile.objects.get().title == "Other title"


@pytest.mark.parametrize(
    "change", [{"spec": make_spec(2), "max_devices": 2}, {"max_duration": timedelta(days=2)}]
)
def test_changed_spec_or_limit_makes_a_version_and_keeps_the_old_one(save, change):
    first = save()
    second = save(first.profile, **change)
    assert second.number == 2
    assert Profile.objects.get().current == second
    assert ProfileVersion.objects.get(pk=first.pk).spec == first.spec


def test_all_problems_are_reported_together(save):
    with pytest.raises(Invalid) as refusal:
        save(slug="Not A Slug", title=" ", spec={"devices": {"requests": []}}, deliveries=(), max_devices=1)
    assert len(refusal.value.extra["problems"]) == 4
    assert not Profile.objects.exists()


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"scalable": "other"}, "has no request other with an exact count"),
        ({"spec": make_spec(4), "max_devices": 2}, "requests 4 devices, but a claim may have at most 2"),
        ({"default_duration": timedelta(days=30)}, "longer than the max duration, 14 d"),
        ({"approval": "nobody"}, "not a kind of approval"),
    ],
)
def test_invalid_limits_are_refused(save, fields, sentence):
    with pytest.raises(Invalid, match=sentence):
        save(**fields)


def test_slug_in_use_is_a_conflict(save):
    save()
    with pytest.raises(Conflict, match="already a profile train-80"):
        save()


def test_saving_a_retired_profile_restores_it(save, root):
    profile = save().profile
    retire_profile(by=root, profile=profile)
    assert profile.retired_at
    version = save(profile)
    profile.refresh_from_db()
    assert (profile.retired_at, version.restores) == (None, False)  # no version was made
    retire_profile(by=root, profile=profile)
    assert save(profile, grace=timedelta(hours=1)).restores
    assert not save(profile, grace=timedelta(hours=2)).restores


def test_only_platform_admin_writes_the_catalogue_and_quotas(save, lena):
    with pytest.raises(Forbidden):
        save(by=lena)
    with pytest.raises(Forbidden):
        retire_profile(by=lena, profile=save().profile)
    with pytest.raises(Forbidden):
        set_quota(by=lena, team=make_team(), device_class="gpu.nvidia.com", devices=1)


def test_setting_a_quota_again_updates_it(root):
    team = make_team()
    first = set_quota(by=root, team=team, device_class="gpu.nvidia.com", devices=1)
    again = set_quota(by=root, team=team, device_class="gpu.nvidia.com", devices=2)
    assert (again.pk, again.devices) == (first.pk, 2)


@pytest.mark.parametrize(
    "fields", [{"devices": -1, "device_class": "a"}, {"devices": 1}, {"devices": 10**9, "device_class": "a"}]
)
def test_invalid_quota_is_refused(root, fields):
    with pytest.raises(Invalid):
        set_quota(by=root, team=make_team(), **fields)
