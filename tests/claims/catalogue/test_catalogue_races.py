"""Two admins change the catalogue at the same time, with and without the lock."""

from dataclasses import replace
from functools import partial

import pytest
from django.db import IntegrityError
from django.utils import timezone

from claims.catalogue import availability, services
from claims.catalogue import services as catalogue
from claims.catalogue import services as profiles
from claims.catalogue.definition import ProfileDefinition, current_definition
from claims.catalogue.yaml_export import plan_digest
from claims.models import ClusterAvailability, Profile, ProfileAvailability, ProfileVersion
from core.errors import Conflict
from inventory.models import Cluster
from tests.factories import make_spec, make_user, make_violation, save_profile
from tests.threads import Race, without_lock

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def ada(db):
    return make_user("ada", admin=True)


def save(profile, by, count, **fields):
    definition = {"slug": profile.slug, "title": profile.title, "spec": make_spec(count), "max_devices": 8}
    return save_profile(by=by, profile=profile, **definition, **fields)


def counts_of(profile):
    """Return how many devices each version asks for, the first version first."""
    specs = ProfileVersion.objects.filter(profile=profile).order_by("number").values_list("spec", flat=True)
    return [spec["devices"]["requests"][0]["exactly"]["count"] for spec in specs]


@pytest.mark.parametrize("locked", [True, False])
def test_saving_over_another_admin_is_a_conflict(train, root, ada, monkeypatch, locked):
    race = Race(monkeypatch)
    race.hold_before(profiles, "write_profile")
    if not locked:
        without_lock(monkeypatch, "claims.catalogue.services._locked")
    first, second = race.run(partial(save, train, root, 2, base=1), partial(save, train, ada, 3, base=1))
    assert race.waited is locked
    assert isinstance(first, ProfileVersion)
    if locked:
        assert isinstance(second, Conflict)
        assert second.message.startswith("root saved version 2 of train-80")
    assert counts_of(train) == ([1, 2] if locked else [1, 3, 2])


@pytest.mark.parametrize("locked", [True, False])
def test_fixing_over_another_admin_is_a_conflict(train, root, ada, monkeypatch, locked):
    mend = partial(services.replace_spec, profile=train, version=train.current)
    race = Race(monkeypatch)
    race.hold_before(profiles, "_save_version")
    if not locked:
        without_lock(monkeypatch, "claims.catalogue.services._locked")
    first, second = race.run(
        partial(mend, by=root, spec=make_spec(2)), partial(mend, by=ada, spec=make_spec(3))
    )
    assert race.waited is locked
    assert isinstance(first, ProfileVersion)
    assert isinstance(second, Conflict if locked else ProfileVersion)
    assert counts_of(train) == ([1, 2] if locked else [1, 3, 2])


def test_two_admins_without_a_base_make_two_versions(train, root, ada, monkeypatch):
    """The row is written before the number is taken, so the second waits."""
    race = Race(monkeypatch)
    race.hold_before(ProfileVersion.objects, "create")
    race.run(partial(save, train, root, 2), partial(save, train, ada, 3))
    assert race.waited
    assert counts_of(train) == [1, 2, 3]
    assert Profile.objects.get().current.number == 3


@pytest.mark.parametrize("locked", [True, False])
def test_import_locks_the_profiles_of_its_plan(train, root, ada, monkeypatch, locked):
    train.refresh_from_db()
    definition = replace(current_definition(train), spec=make_spec(2))
    seen = plan_digest(services.plan_import(by=root, definitions=[definition]))
    race = Race(monkeypatch)
    race.hold_before(catalogue, "_write")
    if not locked:
        without_lock(monkeypatch, "claims.catalogue.services._import")
    imported, saved = race.run(
        partial(services.import_profiles, by=root, definitions=[definition], seen=seen),
        partial(save, train, ada, 3, base=1),
    )
    assert race.waited is locked
    assert isinstance(imported, list)
    assert isinstance(saved, Conflict if locked else ProfileVersion)
    assert counts_of(train) == ([1, 2] if locked else [1, 3, 2])


def test_two_new_profiles_with_one_slug_are_one_profile_and_a_conflict(root, ada, monkeypatch):
    race = Race(monkeypatch)
    race.hold_after(Profile.objects, "create")
    new = partial(save_profile, slug="train", title="Train", spec=make_spec())
    first, second = race.run(partial(new, by=root), partial(new, by=ada))
    assert race.waited
    assert isinstance(first, ProfileVersion)
    assert isinstance(second, Conflict)
    assert second.message == "There is already a profile train."
    assert Profile.objects.get().current == first


def test_file_with_a_slug_that_another_admin_saves_now_is_a_conflict(root, ada, monkeypatch):
    race = Race(monkeypatch)
    race.hold_after(Profile.objects, "create")
    definition = ProfileDefinition(slug="train", title="Train", spec=make_spec())
    saved, imported = race.run(
        partial(save_profile, by=root, slug="train", title="Train", spec=make_spec()),
        partial(services.import_profiles, by=ada, definitions=[definition]),
    )
    assert race.waited
    assert isinstance(saved, ProfileVersion)
    assert isinstance(imported, Conflict)
    assert imported.message == "There is already a profile train."


def test_violation_of_another_constraint_is_raised(root, monkeypatch):
    def fail(**_fields):
        raise make_violation("something_else")

    monkeypatch.setattr(Profile.objects, "create", fail)
    with pytest.raises(IntegrityError, match="something_else"):
        save_profile(by=root, slug="train", title="Train", spec=make_spec())


@pytest.mark.parametrize("locked", [True, False])
def test_older_computation_cannot_overwrite_newer_rows(fra, train, monkeypatch, locked):
    Cluster.objects.filter(pk=fra.pk).update(revision=9)
    ClusterAvailability.objects.update_or_create(
        cluster=fra, defaults={"revision": 3, "computed_at": timezone.now()}
    )

    def computed(revision, free):
        figures = {
            train.current_id: availability.Figures(matching=4, free=free, nodes=1, most=free, kinds=[])
        }
        return availability._Computed(revision, timezone.now(), figures, {}, {}, {}, {})

    race = Race(monkeypatch)
    race.hold_before(availability, "_differences")
    if not locked:
        without_lock(monkeypatch, "claims.catalogue.availability._write")
    race.run(
        partial(availability._write, fra, computed(5, free=4)),
        partial(availability._write, fra, computed(7, free=1)),
    )
    assert race.waited is locked
    row = ProfileAvailability.objects.select_related("computation").get(version=train.current_id)
    assert (row.computation.revision, row.free) == ((7, 1) if locked else (5, 4))
