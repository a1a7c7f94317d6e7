"""Export to and import from the YAML file."""

import copy
from datetime import timedelta
from typing import Any

import pytest

from claims.catalogue.definition import current_definition
from claims.catalogue.services import add_profiles, import_profiles, plan_import, retire_profile
from claims.catalogue.yaml_export import catalogue_file, exported, plan_digest
from claims.catalogue.yaml_import import read_definitions
from claims.models import Profile, ProfileVersion
from core.errors import Conflict, Forbidden, Invalid
from tests.factories import make_profile, make_spec, make_team

pytestmark = pytest.mark.django_db

FILE = """\
apiVersion: dragoman.dev/v1
kind: Profile
slug: train
title: Train
use: |-
  First line.
  Second line.
teams:
  - speech
  - vision
scalable: gpu
limits:
  maxDevices: 8
  defaultDuration: 12h
  maxDuration: 2d 12h
  grace: 1h
  extension: 45min
  endPolicy: evict
  deliveries:
    - claim
  approval: admin
  automatic:
    devices: 2
    duration: 8h
spec:
  devices:
    requests:
      - name: gpu
        exactly:
          deviceClassName: gpu.nvidia.com
          count: 2
"""


@pytest.fixture
def teams(db):
    return make_team("speech"), make_team("vision")


def read(text=FILE):
    return read_definitions(text, "catalogue.yaml")


def problems_of(text):
    with pytest.raises(Invalid) as refusal:
        read(text)
    return refusal.value.extra["problems"]


def kinds(changes):
    return [(change.slug, change.kind) for change in changes]


def test_export_of_an_imported_file_is_the_file(root, teams):
    import_profiles(by=root, definitions=read())
    assert catalogue_file(exported()) == FILE


def test_import_writes_the_profile_of_the_file(root, teams):
    import_profiles(by=root, definitions=read())
    version = Profile.objects.get(slug="train").current
    assert version.max_duration == timedelta(days=2, hours=12)
    assert version.extension == timedelta(minutes=45)
    assert version.end_policy == "evict"
    assert (version.grace, version.created_by) == (timedelta(hours=1), root)
    assert (version.deliveries, version.approval, version.automatic_devices) == (["claim"], "admin", 2)


def test_second_import_has_nothing_to_do(root, teams):
    assert kinds(import_profiles(by=root, definitions=read())) == [("train", "new")]
    assert kinds(import_profiles(by=root, definitions=read())) == [("train", "same")]
    assert ProfileVersion.objects.count() == 1


def test_export_is_sorted_by_slug(root, db):
    for slug, title in (("b", "First"), ("a", "Second")):
        Profile.objects.filter(pk=make_profile(slug).pk).update(title=title)
    assert [entry.slug for entry in read(catalogue_file(exported()))] == ["a", "b"]


def test_plan_shows_changes_and_writes_nothing(root, teams):
    import_profiles(by=root, definitions=read())
    text = FILE.replace("maxDevices: 8", "maxDevices: 4").replace("count: 2", "count: 3")
    (change,) = plan_import(by=root, definitions=read(text))
    assert change.kind == "changed"
    assert [(one.key, one.before, one.after) for one in change.differences] == [
        ("limits.maxDevices", "8", "4")
    ]
    assert [line.split() for line in change.spec if line[0] in "+-"] == [
        ["-", "count:", "2"],
        ["+", "count:", "3"],
    ]
    assert Profile.objects.get().current.number == 1
    import_profiles(by=root, definitions=read(text))
    assert Profile.objects.get().current.number == 2


def test_changed_title_makes_no_version(root, teams):
    import_profiles(by=root, definitions=read())
    (change,) = import_profiles(by=root, definitions=read(FILE.replace("title: Train", "title: Learn")))
    assert [one.key for one in change.differences] == ["title"]
    assert (Profile.objects.get().title, ProfileVersion.objects.count()) == ("Learn", 1)


def test_removed_key_is_a_difference(root, teams):
    import_profiles(by=root, definitions=read())
    (change,) = import_profiles(by=root, definitions=read(FILE.replace("  grace: 1h\n", "")))
    assert [(one.key, one.before, one.after) for one in change.differences] == [("limits.grace", "1h", "")]
    assert Profile.objects.get().current.grace == timedelta(0)


def test_equivalent_spec_is_no_change(root, teams):
    import_profiles(by=root, definitions=read())
    text = FILE.replace("count: 2", "count: 2\n          allocationMode: ExactCount")
    assert kinds(import_profiles(by=root, definitions=read(text))) == [("train", "same")]


def test_missing_profile_is_retired_only_with_prune(root, teams):
    other = make_profile("other")
    assert kinds(import_profiles(by=root, definitions=read())) == [("train", "new")]
    other.refresh_from_db()
    assert other.retired_at is None
    changes = import_profiles(by=root, definitions=read(), prune=True)
    assert kinds(changes) == [("train", "same"), ("other", "retired")]
    other.refresh_from_db()
    assert other.retired_at is not None
    assert kinds(import_profiles(by=root, definitions=read(), prune=True)) == [("train", "same")]


def test_retired_profile_stays_retired_if_the_file_repeats_it(root, teams):
    import_profiles(by=root, definitions=read())
    retire_profile(by=root, profile=Profile.objects.get())
    assert exported() == []
    (change,) = import_profiles(by=root, definitions=read())
    assert (change.kind, change.changes_something) == ("stays-retired", False)
    assert Profile.objects.get().retired_at is not None
    assert kinds(import_profiles(by=root, definitions=read(), prune=True)) == [("train", "stays-retired")]


@pytest.mark.parametrize(
    ("old", "new", "number"), [("title: Train", "title: Training", 1), ("maxDevices: 8", "maxDevices: 4", 2)]
)
def test_retired_profile_is_restored_if_the_file_changes_it(root, teams, old, new, number):
    import_profiles(by=root, definitions=read())
    retire_profile(by=root, profile=Profile.objects.get())
    (change,) = import_profiles(by=root, definitions=read(FILE.replace(old, new)))
    assert (change.kind, change.changes_something) == ("restored", True)
    profile = Profile.objects.get()
    assert (profile.retired_at, profile.current.number) == (None, number)
    assert profile.current.restores is (number == 2)


def test_one_invalid_profile_refuses_the_whole_file(root, teams):
    entries = read(FILE + "---\n" + FILE.replace("slug: train", "slug: Not a slug"))
    with pytest.raises(Invalid, match=r"catalogue.yaml, line 33: “Not a slug” is not a valid slug"):
        import_profiles(by=root, definitions=entries)
    assert not Profile.objects.exists()


def test_unknown_team_is_named_with_its_line(root, db):
    make_team("vision")
    with pytest.raises(Invalid, match=r"catalogue.yaml, line 8: there is no team speech\."):
        plan_import(by=root, definitions=read())


def test_import_is_refused_if_the_plan_has_changed(root, teams):
    seen = plan_digest(plan_import(by=root, definitions=read()))
    make_profile("train")
    with pytest.raises(Conflict, match="has changed since you read this plan"):
        import_profiles(by=root, definitions=read(), seen=seen)
    seen = plan_digest(plan_import(by=root, definitions=read()))
    assert kinds(import_profiles(by=root, definitions=read(), seen=seen)) == [("train", "changed")]


def test_only_platform_admin_imports(lena, teams):
    for service in (plan_import, import_profiles, add_profiles):
        with pytest.raises(Forbidden):
            service(by=lena, definitions=read())


def test_adding_leaves_existing_profiles_unchanged(root, teams):
    mine = make_profile("train")
    assert add_profiles(by=root, definitions=read()) == []
    mine.refresh_from_db()
    assert (mine.title, mine.versions.count()) == ("Train", 1)


def test_every_limit_survives_export_and_import(root):
    limits: dict[str, Any] = {
        "max_devices": 3,
        "default_duration": timedelta(hours=25),
        "max_duration": timedelta(days=30),
        "grace": timedelta(minutes=90),
        "extension": timedelta(days=1),
        "deliveries": ["template"],
        "automatic_devices": 2,
    }
    profile = make_profile("one", spec=make_spec(2), **limits)
    before = current_definition(profile)
    (after,) = read(catalogue_file([before]))
    assert after == before
    assert copy.deepcopy(after.limits) == before.limits


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("kind: Profile", "kind: Profil", "line 2: kind must be Profile."),
        ("dragoman.dev/v1", "dragoman.dev/v9", "line 1: apiVersion must be dragoman.dev/v1."),
        ("slug: train", "slug: 7", "line 3: slug must be text; put it in quotes."),
        ("title: Train", "titel: Train", "line 4: there is no key titel; the keys are "),
        ("title: Train", "title: '  '", "line 4: a profile needs a title."),
        ("title: Train", 'title: "a\\0b"', "line 4: title has a character that cannot be stored."),
        ("maxDevices: 8", "maxDevices: many", "line 13: maxDevices must be a number from 1 to 1024."),
        ("maxDevices: 8", "maxDevices: true", "line 13: maxDevices must be a number from 1 to 1024."),
        ("12h\n  maxD", "12\n  maxD", "line 14: defaultDuration must be a duration like 24h, 3d or 1d 12h."),
        ("- claim", "- claims", "line 20: there is no claims; choose from claim, template."),
        ("approval: admin", "approval: nobody", "line 21: there is no nobody; choose from automatic, lead"),
        (
            "    devices: 2",
            "    device: 2",
            "line 23: there is no key device; the keys are devices, duration.",
        ),
        ("gpu.nvidia.com", "nvidia.com/gpu", "line 30: "),
        ("count: 2", "count: -1", "line 31: "),
        ("count: 2", "count: 2026-11-22", "line 31: "),
        ("scalable: gpu", "scalable: gpu\nscalable: cpu", "line 12: scalable appears twice."),
        ("  - speech", "  - {name: speech}", "line 8: teams must be a list of names."),
    ],
)
def test_each_error_names_its_line(old, new, problem):
    assert FILE.count(old) == 1
    assert any(
        problem_text.startswith("catalogue.yaml, " + problem)
        for problem_text in problems_of(FILE.replace(old, new))
    )


def test_all_errors_are_reported_together():
    text = FILE.replace("maxDevices: 8", "maxDevices: 0").replace("approval: admin", "approval: nobody")
    assert len(problems_of(text + "---\n" + text.replace("slug: train", "slug: other"))) == 4


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "catalogue.yaml has no profile."),
        ("---\n---\n", "catalogue.yaml has no profile."),
        ("a: [1\nb: 2", "catalogue.yaml, line 2: this is not YAML: "),
        ("just words", "catalogue.yaml, line 1: expected keys and values"),
        ("a" * (1 << 20 | 1), "catalogue.yaml has 1,048,577 bytes; the limit is 1,048,576."),
        ("[" * 5000, "catalogue.yaml, line 1: the limit is 50 levels."),
        (FILE + "---\n" + FILE, "catalogue.yaml, line 35: 2 profiles have the slug train."),
    ],
    ids=[
        "empty",
        "separators",
        "no-yaml",
        "no-keys",
        "too-large",
        "nested",
        "slug-twice",
    ],
)
def test_file_that_is_no_catalogue_is_refused(text, sentence):
    assert problems_of(text)[0].startswith(sentence)
