"""Saving, retiring and importing profiles: every column, every bound; live claims and waits of a profile."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from django.urls import reverse

from claims.catalogue.definition import ProfileDefinition
from claims.catalogue.services import (
    add_profiles,
    import_profiles,
    replace_spec,
    restore_profile,
    retire_profile,
)
from claims.catalogue.versions import draft_count, live_claims, live_versions, versions_with_claim_counts
from claims.models import Draft, Profile, ProfileLimits, ProfileVersion
from claims.states import ClaimState
from core.errors import Conflict, Forbidden, Invalid
from dra.manifests import spec_hash
from tests.claims.columns import columns
from tests.factories import (
    make_claim,
    make_profile,
    make_spec,
    make_team,
    make_user,
    save_profile,
)

pytestmark = pytest.mark.django_db
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)


@pytest.fixture
def save(root):
    def save_as_root(profile=None, **fields):
        wanted = {"by": root, "slug": "train-80", "title": "Train 80 GB", "spec": make_spec(), **fields}
        return save_profile(profile=profile, **wanted)

    return save_as_root


LIMITS = {
    "scalable": "gpu",
    "max_devices": 4,
    "max_duration": 5 * DAY,
    "default_duration": 5 * DAY,
    "grace": HOUR,
    "extension": 2 * HOUR,
    "end_policy": "evict",
    "deliveries": ["template", "claim", "template"],
    "approval": "both",
    "automatic_devices": 2,
    "automatic_duration": 3 * HOUR,
    "idle_percent": 20,
    "idle_after": HOUR,
}


def test_saving_writes_every_column_of_profile_and_version(save, root, vision):
    made = save(title=" Train ", use=" Long runs. ", teams=[vision], **LIMITS)
    profile = Profile.objects.get()
    assert columns(profile, "id", "created_at") == {
        "slug": "train-80",
        "title": "Train",
        "use": "Long runs.",
        "purpose": "other",
        "current_id": made.pk,
        "retired_at": None,
    }
    assert list(profile.teams.all()) == [vision]
    assert columns(made, "id", "created_at") == {
        "profile_id": profile.pk,
        "number": 1,
        "spec": make_spec(),
        "spec_hash": spec_hash(make_spec()),
        "created_by_id": root.pk,
        **LIMITS,
        "deliveries": ["claim", "template"],
        "restores": False,
    }


def test_profile_without_limits_has_the_defaults(save):
    row = columns(save(), "id", "profile_id", "created_at", "created_by_id", "spec", "spec_hash")
    assert row == {"number": 1, "restores": False, **ProfileLimits().columns()}


def test_saving_again_updates_the_profile_and_keeps_the_first_version(save, vision):
    first = save(teams=[vision, make_team("nlp")], use="Long runs.")
    before, other = columns(first), make_user("ruth", admin=True)
    second = save(
        first.profile, by=other, slug="train", title="Other", teams=[], max_devices=2, spec=make_spec(2)
    )
    profile = Profile.objects.get()
    assert (profile.slug, profile.title, profile.use, profile.current) == ("train", "Other", "", second)
    assert not profile.teams.exists()
    assert (second.number, second.created_by, second.spec) == (2, other, make_spec(2))
    assert columns(first) == before


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("scalable", "gpu"),
        ("max_devices", 2),
        ("max_duration", 15 * DAY),
        ("default_duration", HOUR),
        ("grace", HOUR),
        ("extension", HOUR),
        ("end_policy", "ask"),
        ("deliveries", ["claim"]),
        ("approval", "admin"),
        ("automatic_devices", 1),
        ("automatic_duration", HOUR),
    ],
)
def test_each_limit_alone_makes_a_version(save, name, value):
    first = save()
    second = save(first.profile, **{name: value})
    assert (second.number, getattr(second, name)) == (2, value)
    assert save(first.profile, **{name: value}) == second


def test_dry_run_checks_everything_and_saves_nothing(save):
    first = save()
    assert save(first.profile, dry_run=True, title="Other", max_devices=3).number == 2
    assert (Profile.objects.get().title, ProfileVersion.objects.count()) == ("Train 80 GB", 1)
    with pytest.raises(Invalid):
        save(first.profile, dry_run=True, max_devices=0)


def test_conflict_names_who_saved_which_version(save, lena):
    first = save()
    save(first.profile, max_devices=2, base=1)
    with pytest.raises(Conflict) as refusal:
        save(first.profile, max_devices=3, base=1)
    assert refusal.value.message == "root saved version 2 of train-80 after you read version 1."
    assert refusal.value.extra == {"current": 2}
    assert save(first.profile, max_devices=2, base=1).number == 2  # it is what is to be saved already
    ProfileVersion.objects.filter(number=2).update(created_by=None)
    with pytest.raises(Conflict, match="Somebody saved version 2"):
        save(first.profile, max_devices=3, base=1)
    assert save(first.profile, max_devices=3, base=2).number == 3


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        (
            {"slug": "a" * 41},
            f"“{'a' * 41}” is not a valid slug: use 1 to 40 lower-case letters, digits and hyphens.",
        ),
        ({"slug": "a_b"}, "“a_b” is not a valid slug: use 1 to 40 lower-case letters, digits and hyphens."),
        ({"slug": ""}, "“” is not a valid slug: use 1 to 40 lower-case letters, digits and hyphens."),
        ({"slug": "lint"}, "The slug lint is reserved."),
        ({"title": " "}, "A profile needs a title."),
        ({"title": "t" * 81}, "A title has at most 80 characters."),
        ({"scalable": "all"}, "The spec has no request all with an exact count, so it cannot be scaled."),
        ({"spec": make_spec(2)}, "The spec requests 2 devices, but a claim may have at most 1."),
        (
            {"default_duration": timedelta(0)},
            "The default duration must be longer than 0.",
        ),
        (
            {"default_duration": 14 * DAY + HOUR},
            "The default duration, 14 d 1 h, is longer than the max duration, 14 d.",
        ),
        ({"grace": -HOUR}, "The grace period must not be negative."),
        ({"extension": -HOUR}, "The extension without approval must not be negative."),
        ({"deliveries": ["pigeon"]}, "A profile needs at least one kind of delivery."),
        ({"approval": "nobody"}, "“nobody” is not a kind of approval."),
    ],
)
def test_each_problem_has_one_sentence(save, fields, problem):
    with pytest.raises(Invalid) as refusal:
        save(**fields)
    assert refusal.value.extra["problems"] == [problem]


@pytest.mark.parametrize(
    "fields",
    [
        {"slug": "a" * 40},
        {"title": "t" * 80},
        {"spec": make_spec(2), "max_devices": 2},
        {"default_duration": 14 * DAY},
        {"default_duration": timedelta(seconds=1)},
        {"scalable": "gpu"},
        {"grace": timedelta(0), "extension": timedelta(0)},
    ],
)
def test_values_at_the_bounds_are_accepted(save, fields):
    assert save(**fields).number == 1


def test_scalable_request_needs_an_exact_count(save):
    every = {"name": "all", "exactly": {"deviceClassName": "gpu.nvidia.com", "allocationMode": "All"}}
    plain = {"name": "one", "exactly": {"deviceClassName": "gpu.nvidia.com"}}
    spec = {"devices": {"requests": [every, plain]}}
    with pytest.raises(Invalid, match="has no request all with an exact count"):
        save(spec=spec, scalable="all", max_devices=99)
    assert save(spec=spec, scalable="one", max_devices=99).scalable == "one"


def test_slug_of_a_retired_profile_is_in_use(save, root):
    other = make_profile("other")
    retire_profile(by=root, profile=other)
    for profile in (None, save().profile):
        with pytest.raises(Conflict) as refusal:
            save(profile, slug="other")
        assert refusal.value.message == "There is already a profile other."


def test_replaced_spec_keeps_all_limits_of_the_version(save, root):
    first = save(**LIMITS)
    made = replace_spec(by=root, profile=first.profile, version=first, spec=make_spec(3))
    names = ("id", "number", "spec", "spec_hash", "created_at")
    assert columns(made, *names) == columns(first, *names)
    assert (made.number, made.spec, made.spec_hash) == (2, make_spec(3), spec_hash(make_spec(3)))
    assert Profile.objects.get().current == made


def test_replaced_spec_is_refused_if_invalid_or_outdated(save, root, lena):
    first = save(scalable="gpu", max_devices=2)

    def replaced(by=root, version=first, spec=None):
        return replace_spec(by=by, profile=first.profile, version=version, spec=spec or make_spec(2))

    with pytest.raises(Forbidden):
        replaced(by=lena)
    with pytest.raises(Invalid, match="requests 3 devices, but a claim may have at most 2"):
        replaced(spec=make_spec(3))
    with pytest.raises(Invalid):
        replaced(spec={"devices": {"requests": []}})
    second = replaced()
    with pytest.raises(Conflict) as refusal:
        replaced(spec=make_spec())
    assert refusal.value.message == ("train-80 has changed since you read version 1. Open it again.")
    retire_profile(by=root, profile=first.profile)
    with pytest.raises(Conflict):
        replaced(version=second, spec=make_spec())
    assert ProfileVersion.objects.count() == 2


def test_retiring_twice_keeps_the_first_time(root):
    one, other = make_profile("one"), make_profile("other")
    Profile.objects.filter(pk=other.pk).update(retired_at=NOON)
    first = retire_profile(by=root, profile=one).retired_at
    Profile.objects.filter(pk=one.pk).update(retired_at=NOON - DAY)
    assert retire_profile(by=root, profile=one).retired_at == NOON - DAY
    assert first is not None
    assert restore_profile(by=root, profile=one).retired_at is None
    assert restore_profile(by=root, profile=one).retired_at is None
    assert Profile.objects.get(slug="other").retired_at == NOON


def test_only_platform_admin_restores_a_profile(root, lena):
    one = make_profile("one")
    retire_profile(by=root, profile=one)
    with pytest.raises(Forbidden):
        restore_profile(by=lena, profile=one)
    assert Profile.objects.get().retired_at is not None


# From a file.


def definition(slug, **fields):
    return ProfileDefinition(slug=slug, **{"title": slug.title(), "spec": make_spec(), **fields})


def test_import_writes_every_field(root, vision):
    nlp = make_team("nlp")
    limits = replace(ProfileLimits.among(LIMITS), deliveries=("template",))
    definitions = [
        definition("a", title="First", use="One.", teams=("nlp", "vision"), limits=limits),
        definition("b", spec=make_spec(1, "gpu.amd.com")),
    ]
    import_profiles(by=root, definitions=definitions)
    a, b = Profile.objects.order_by("slug")
    assert (a.title, a.use, {team.slug for team in a.teams.all()}) == ("First", "One.", {nlp.slug, "vision"})
    assert a.current.limits == limits
    assert (b.title, b.teams.count(), b.current.spec) == ("B", 0, make_spec(1, "gpu.amd.com"))
    assert (a.current.created_by, b.current.created_by) == (root, root)


def test_prune_retires_missing_profiles_and_keeps_earlier_times(root):
    for slug in ("kept", "gone", "long-gone"):
        make_profile(slug)
    Profile.objects.filter(slug="long-gone").update(retired_at=NOON)
    changes = import_profiles(by=root, definitions=[definition("fresh")], prune=True)
    assert {(change.slug, change.kind) for change in changes} == {
        ("fresh", "new"),
        ("kept", "retired"),
        ("gone", "retired"),
    }
    retired = dict(Profile.objects.values_list("slug", "retired_at"))
    assert (retired["fresh"], retired["long-gone"]) == (None, NOON)
    assert None not in (retired["kept"], retired["gone"])


def test_adding_skips_a_retired_slug(root):
    make_profile("mine")
    Profile.objects.filter(slug="mine").update(retired_at=NOON)
    changes = add_profiles(by=root, definitions=[definition("mine"), definition("one"), definition("two")])
    assert [(change.slug, change.kind) for change in changes] == [("one", "new"), ("two", "new")]
    assert Profile.objects.get(slug="mine").retired_at == NOON
    assert Profile.objects.count() == 3


# Who lives on a profile.


@pytest.fixture
def lived(save, vision, fra, alice):
    """Claims on two versions of train-80, one of them as an alternative, and one on another profile."""
    first = save(max_devices=8, scalable="gpu")
    profile = first.profile
    by_name = {}

    def make(name, state, minutes, of=profile):
        by_name[name] = make_claim(
            vision, by=alice, cluster=fra, profile=of, name=name, state=state,
            created_at=NOON + timedelta(minutes=minutes),
        )  # fmt: skip

    profile = Profile.objects.select_related("current").get()
    make("waits-1", ClaimState.REQUESTED, 3)
    make("runs-1", ClaimState.ALLOCATED, 2)
    make("over-1", ClaimState.RELEASED, 1)
    save(profile, max_devices=4, scalable="gpu")
    profile = Profile.objects.select_related("current").get()
    make("waits-2", ClaimState.REQUESTED, 5, of=profile)
    make("over-2", ClaimState.DENIED, 4, of=profile)
    save(profile, max_devices=3, scalable="gpu")
    other = make_profile("other")
    make("second", ClaimState.PROVISIONED, 0, of=other)
    for position, version in enumerate((other.current, first, profile.current)):
        by_name["second"].alternatives.create(
            position=position, name=f"p{position}", profile_version=version, devices=1
        )
    return Profile.objects.select_related("current").get(slug="train-80")


def test_versions_are_newest_first_with_their_claim_count(lived):
    assert [(row.number, row.used) for row in versions_with_claim_counts(lived)] == [(3, 0), (2, 2), (1, 3)]


def test_live_versions_have_live_and_waiting_claims(lived):
    assert [(row.number, row.live, row.waiting) for row in live_versions(lived)] == [(2, 1, 1), (1, 2, 1)]


def test_live_claims_are_unique_and_oldest_first(lived):
    assert [claim.name for claim in live_claims(lived)] == ["second", "runs-1", "waits-1", "waits-2"]


def test_page_for_retiring_counts_claims_and_requests(client, root, lived, alice, monkeypatch):
    monkeypatch.setattr("claims.catalogue.profile_views.MAX_NAMED", 3)
    Draft.objects.create(by=alice, key="a", fields={"profile": ["train-80"]})
    client.force_login(root)
    page = client.get(reverse("claims:profile_retire", args=["train-80"]))
    context = page.context
    assert (context["live"], context["waiting"], context["drafts"], context["more"]) == (2, 2, 1, 1)
    assert [claim.name for claim in context["claims"]] == ["second", "runs-1", "waits-1"]


def test_drafts_name_a_profile_in_any_role(alice):
    profile = make_profile("train-80")
    for key, fields in (
        ("a", {"profile": ["train-80"]}),
        ("b", {"profile": ["other"], "alternatives": ["small", "train-80"]}),
        ("c", {"profile": ["train-800"], "alternatives": ["small"], "name": ["train-80"]}),
        ("d", {}),
        ("e", {"profile": ["other"], "together": ["small", "train-80"]}),
    ):
        Draft.objects.create(by=alice, key=key, fields=fields)
    assert draft_count(profile) == 3


def test_devices_of_a_malformed_spec_are_not_counted(save):
    with pytest.raises(Invalid) as refusal:
        save(spec={"devices": {"requests": "gpu"}}, scalable="gpu")
    assert not any(
        "scaled" in problem or "more than" in problem for problem in refusal.value.extra["problems"]
    )
