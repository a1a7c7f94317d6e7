"""Save, retire and import profiles. A version never changes once it is made."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from datetime import timedelta
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models.functions import Now
from django.utils.text import slugify

from claims.catalogue.yaml_export import RETIRED, ProfileChange, ProfileEntry, digest_of, plan_of
from claims.models import Approval, Delivery, Profile, ProfileVersion
from core.errors import Conflict, Invalid
from core.locking import lock_row
from dra import quota, validation
from dra.canonical import spec_hash
from teams.access import require_admin
from teams.models import Team, User

LIMITS = (
    *("scalable", "max_devices", "max_duration", "default_duration", "grace", "extension", "deliveries"),
    *("approval", "automatic_devices", "automatic_duration"),
)
RESERVED = frozenset(("new", "lint", "match", "export", "import", "presets", "compare"))  # of pages


@transaction.atomic(durable=True)
def save_profile(  # noqa: PLR0913
    *,
    by: User,
    profile: Profile | None,
    slug: str,
    title: str,
    use: str = "",
    teams: Collection[Team] = (),
    spec: dict[str, Any],
    scalable: str = "",
    max_devices: int = 1,
    max_duration: timedelta = timedelta(days=14),
    default_duration: timedelta = timedelta(hours=24),
    grace: timedelta = timedelta(0),
    extension: timedelta = timedelta(0),
    deliveries: Collection[str] = (Delivery.CLAIM, Delivery.TEMPLATE),
    approval: str = Approval.LEAD,
    automatic_devices: int = 0,
    automatic_duration: timedelta | None = None,
    base: int | None = None,
    dry_run: bool = False,
) -> ProfileVersion:
    """
    Make or change a profile; return its current version, which is a new one only if spec or limits changed.
    With `dry_run` everything is checked and nothing is kept.

    Requests keep the version they asked for. `base` is the number of the version that was changed. Raises
    Forbidden, Invalid with all problems, and Conflict for a taken slug or if somebody else has saved another
    version than `base` meanwhile.
    """
    require_admin(by)
    limits = {
        "scalable": scalable,
        "max_devices": max_devices,
        "max_duration": max_duration,
        "default_duration": default_duration,
        "grace": grace,
        "extension": extension,
        "deliveries": [choice for choice in Delivery.values if choice in deliveries],
        "approval": approval,
        "automatic_devices": automatic_devices,
        "automatic_duration": automatic_duration,
    }
    if profile is not None and base is not None:
        _require_unmoved(profile, base, spec, limits)
    version = write_profile(
        by=by, profile=profile, slug=slug, title=title, use=use, teams=teams, spec=spec, limits=limits
    )
    transaction.set_rollback(dry_run)
    return version


def write_profile(
    *,
    by: User,
    profile: Profile | None,
    slug: str,
    title: str,
    use: str,
    teams: Collection[Team],
    spec: dict[str, Any],
    limits: dict[str, Any],
) -> ProfileVersion:
    """
    Do what `save_profile` does inside the caller's transaction; `limits` has every name of LIMITS.

    Raises Conflict for a taken slug, Invalid with all problems.
    """
    if problems := problems_of(slug, title, spec, limits):
        raise Invalid(" ".join(problems), problems=problems)
    taken = Profile.objects.filter(slug=slug).first()
    if taken is not None and taken != profile:
        raise Conflict(f"There is already a profile {slug}.")
    profile = _save_page(profile, slug=slug, title=title.strip(), use=use.strip())
    profile.teams.set(teams)
    return _save_version(profile, by=by, spec=spec, limits=limits)


@transaction.atomic(durable=True)
def replace_spec(
    *, by: User, profile: Profile, version: ProfileVersion, spec: dict[str, Any]
) -> ProfileVersion:
    """
    Make a new version of `profile` that asks for `spec` within the limits of `version`.

    Raises Forbidden, Invalid with all problems, and Conflict if `version` is no longer the current one.
    """
    require_admin(by)
    limits = {name: getattr(version, name) for name in LIMITS}
    problems = _limit_problems(spec, limits)
    problems += [problem.message for problem in validation.problems(spec)]
    if problems:
        raise Invalid(" ".join(problems), problems=problems)
    locked = _locked(profile)
    if locked.current_id != version.pk or locked.retired_at is not None:
        raise Conflict(
            f"{profile.slug} has changed since you read version {version.number}. Look at it again."
        )
    return _save_version(profile, by=by, spec=spec, limits=limits)


@transaction.atomic(durable=True)
def retire_profile(*, by: User, profile: Profile) -> Profile:
    """Take a profile out of the catalogue. Claims that have it keep it. Retiring twice is retiring once."""
    require_admin(by)
    Profile.objects.filter(pk=profile.pk, retired_at=None).update(retired_at=Now())
    profile.refresh_from_db(fields=["retired_at"])
    return profile


@transaction.atomic(durable=True)
def restore_profile(*, by: User, profile: Profile) -> Profile:
    """Put a retired profile back into the catalogue with the version it had. Twice is once."""
    require_admin(by)
    Profile.objects.filter(pk=profile.pk).update(retired_at=None)
    profile.refresh_from_db(fields=["retired_at"])
    return profile


def problems_of(slug: str, title: str, spec: dict[str, Any], limits: dict[str, Any]) -> list[str]:
    """Return everything that is wrong with a profile on its own; teams and other profiles do not count."""
    problems = [*_page_problems(slug, title), *_limit_problems(spec, limits)]
    if "\\u0000" in json.dumps(spec):
        problems.append("The spec has a character that cannot be stored.")
    return problems + [problem.message for problem in validation.problems(spec)]


def _require_unmoved(profile: Profile, base: int, spec: dict[str, Any], limits: dict[str, Any]) -> None:
    """
    Lock the profile; raise Conflict unless its version is still `base`, or already what is to be saved.
    """
    current = _locked(profile).current
    if current is None or current.number == base or _says(current, spec, limits):
        return
    who = current.created_by.label if current.created_by else "Somebody"
    raise Conflict(
        f"{who} has saved version {current.number} of {profile.slug} since you read version {base}.",
        current=current.number,
    )


def _locked(profile: Profile) -> Profile:
    return lock_row(Profile.objects.select_related("current__created_by"), profile.pk)


def _says(version: ProfileVersion, spec: dict[str, Any], limits: dict[str, Any]) -> bool:
    """Say whether a version is already what is to be saved."""
    return version.spec_hash == spec_hash(spec) and all(
        getattr(version, name) == limits[name] for name in limits
    )


def _save_page(profile: Profile | None, **fields: str) -> Profile:
    if profile is None:
        return Profile.objects.create(**fields)
    for name, value in fields.items():
        setattr(profile, name, value)
    profile.retired_at = None
    profile.save(update_fields=[*fields, "retired_at"])
    return profile


def _save_version(
    profile: Profile, *, by: User, spec: dict[str, Any], limits: dict[str, Any]
) -> ProfileVersion:
    """
    Add a version. The row of the profile is locked by then, by `_save_page`, which has written it, or by
    `replace_spec`: two admins do not take one number.
    """
    current = Profile.objects.select_related("current").get(pk=profile.pk).current
    if current and _says(current, spec, limits):
        return current
    version = ProfileVersion.objects.create(
        profile=profile,
        number=current.number + 1 if current else 1,
        spec=spec,
        spec_hash=spec_hash(spec),
        created_by=by,
        **limits,
    )
    profile.current = version
    profile.save(update_fields=["current"])
    return version


def _page_problems(slug: str, title: str) -> list[str]:
    problems = []
    if not slug or slug != slugify(slug) or "_" in slug or len(slug) > 40:
        problems.append(f"“{slug}” is not a short name: up to 40 lower-case letters, digits and hyphens.")
    elif slug in RESERVED:
        problems.append(f"No profile can be called {slug}.")
    if not title.strip():
        problems.append("A profile needs a title.")
    elif len(title.strip()) > 80:
        problems.append("A title has 80 characters at most.")
    return problems


def _limit_problems(spec: dict[str, Any], limits: dict[str, Any]) -> list[str]:
    problems = []
    sound = not validation.problems(spec)  # what is malformed cannot be counted
    if sound and limits["scalable"] and limits["scalable"] not in _countable(spec):
        problems.append(
            f"No request named {limits['scalable']} asks for an exact count, so it cannot be scaled."
        )
    if sound and limits["max_devices"] < quota.devices(spec):
        problems.append(
            f"The spec asks for {quota.devices(spec)} devices, more than the "
            f"{limits['max_devices']} that a claim may have."
        )
    if not timedelta(0) < limits["default_duration"] <= limits["max_duration"]:
        problems.append("The usual duration must be longer than nothing and no longer than the longest.")
    if limits["grace"] < timedelta(0) or limits["extension"] < timedelta(0):
        problems.append("Neither the time after the end nor an extension can be less than nothing.")
    if not limits["deliveries"]:
        problems.append("A profile needs at least one kind of delivery.")
    if limits["approval"] not in Approval.values:
        problems.append(f"“{limits['approval']}” is not an approval rule.")
    return problems


def _countable(spec: dict[str, Any]) -> set[str]:
    requests = spec.get("devices", {}).get("requests", [])
    return {
        request.get("name", "")
        for request in requests
        if request.get("exactly", {}).get("allocationMode", "ExactCount") == "ExactCount"
        and "exactly" in request
    }


def plan_import(*, by: User, entries: Sequence[ProfileEntry], prune: bool = False) -> list[ProfileChange]:
    """
    Return what `import_profiles` would do; write nothing.

    Raises Forbidden, and Invalid whose `problems` each name file and line.
    """
    require_admin(by)
    problems = [
        f"{entry.place()}: {problem}"
        for entry in entries
        for problem in problems_of(entry.slug, entry.title, entry.spec, entry.limits)
    ]
    if problems:
        raise Invalid(" ".join(problems), problems=problems)
    return plan_of(entries, prune=prune)


def import_profiles(
    *, by: User, entries: Sequence[ProfileEntry], prune: bool = False, seen: str = ""
) -> list[ProfileChange]:
    """
    Make the catalogue what the file says, and return the plan as carried out; twice is once.

    Another spec or limit makes a version. With `prune` profiles that the file does not have are retired.
    `seen` is the digest of the plan that somebody agreed to. Raises Forbidden, Invalid with all problems, and
    Conflict if the catalogue is no longer the one of that plan.
    """
    return _import(by, entries, prune=prune, seen=seen, only_new=False)


def add_profiles(*, by: User, entries: Sequence[ProfileEntry]) -> list[ProfileChange]:
    """
    Add the profiles whose short names nobody has used yet, and return those; others stay as they are.

    Raises Forbidden, Invalid with all problems, Conflict.
    """
    return _import(by, entries, prune=False, seen="", only_new=True)


def _import(
    by: User, entries: Sequence[ProfileEntry], *, prune: bool, seen: str, only_new: bool
) -> list[ProfileChange]:
    try:
        with transaction.atomic(durable=True):
            known = Profile.objects.select_for_update(no_key=True).order_by("pk")
            taken = set(known.values_list("slug", flat=True))
            wanted = [entry for entry in entries if not only_new or entry.slug not in taken]
            changes = plan_import(by=by, entries=wanted, prune=prune)
            if seen and digest_of(changes) != seen:
                raise Conflict(
                    "The catalogue has changed since you looked. Look again at what the import does."
                )
            _write(changes, by)
    except IntegrityError as error:
        raise Conflict("Somebody else made one of these profiles meanwhile. Try again.") from error
    return changes


def _write(changes: Sequence[ProfileChange], by: User) -> None:
    teams = {team.slug: team for team in Team.objects.all()}
    for change in changes:
        if change.kind == RETIRED:
            Profile.objects.filter(slug=change.slug, retired_at=None).update(retired_at=Now())
        elif change.entry and change.changes_something:
            write_profile(
                by=by,
                profile=change.profile,
                slug=change.entry.slug,
                title=change.entry.title,
                use=change.entry.use,
                teams=[teams[slug] for slug in change.entry.teams],
                spec=change.entry.spec,
                limits=change.entry.limits,
            )
