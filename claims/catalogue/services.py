"""Save, retire, restore and import profiles. A version never changes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models.functions import Now
from django.utils.text import slugify

from claims.catalogue.definition import ProfileDefinition
from claims.catalogue.tasks import catalogue_has_changed
from claims.catalogue.yaml_export import RETIRED, ProfileChange, import_plan, plan_digest
from claims.models import Profile, ProfileLimits, ProfileVersion, Purpose
from core.errors import Conflict, Invalid, violated_constraint
from core.transactions import lock_row, service
from dra import quota, validation
from dra.manifests import spec_hash
from teams.access import require_admin
from teams.models import Team, User, record_change

SLUG_CONSTRAINT = "claims_profile_slug_key"  # of `unique=True`, as PostgreSQL names it
RESERVED = frozenset(("new", "lint", "match", "export", "import", "presets", "compare"))  # of pages


@service
def save_profile(
    *,
    by: User,
    profile: Profile | None,
    definition: ProfileDefinition,
    base: int | None = None,
    dry_run: bool = False,
) -> ProfileVersion:
    """
    Create or change a profile; return its current version, a new one only if the spec or a limit changed.

    Claims and requests keep their version. A retired profile is restored. `base` is the number of the version
    that was edited. With `dry_run` everything is checked and nothing is saved. Raises Forbidden, Invalid with
    all problems, and Conflict for a slug in use or if somebody else saved a version after `base`.
    """
    require_admin(by)
    if profile is not None and base is not None:
        _require_base(profile, base, definition)
    version = write_profile(by=by, profile=profile, definition=definition)
    catalogue_has_changed()
    transaction.set_rollback(dry_run)
    return version


def write_profile(*, by: User, profile: Profile | None, definition: ProfileDefinition) -> ProfileVersion:
    """
    Do what `save_profile` does inside the caller's transaction.

    Raises Invalid with all problems, Conflict for a slug that another profile has.
    """
    if problems := definition_problems(definition):
        raise Invalid(" ".join(problems), problems=problems)
    restores = profile is not None and profile.retired_at is not None
    profile = _save_page(profile, definition)
    profile.teams.set(Team.objects.filter(slug__in=definition.teams))
    return _save_version(profile, by=by, spec=definition.spec, limits=definition.limits, restores=restores)


@service
def replace_spec(
    *, by: User, profile: Profile, version: ProfileVersion, spec: dict[str, Any]
) -> ProfileVersion:
    """
    Make a new version of `profile` with `spec` and the limits of `version`.

    Raises Forbidden, Invalid with all problems, and Conflict if `version` is no longer the current one.
    """
    require_admin(by)
    problems = _limit_problems(spec, version.limits)
    problems += [problem.message for problem in validation.problems(spec)]
    if problems:
        raise Invalid(" ".join(problems), problems=problems)
    locked = _locked(profile)
    if locked.current_id != version.pk or locked.retired_at is not None:
        raise Conflict(f"{profile.slug} has changed since you read version {version.number}. Open it again.")
    catalogue_has_changed()
    return _save_version(profile, by=by, spec=spec, limits=version.limits)


@service
def retire_profile(*, by: User, profile: Profile) -> Profile:
    """Remove a profile from the catalogue. Its claims keep it. Retiring twice is retiring once."""
    require_admin(by)
    if Profile.objects.filter(pk=profile.pk, retired_at=None).update(retired_at=Now()):
        record_change(by=by, of=profile, change="retired", values=[("In the catalogue", "yes", "no")])
    catalogue_has_changed()
    profile.refresh_from_db(fields=["retired_at"])
    return profile


@service
def restore_profile(*, by: User, profile: Profile) -> Profile:
    """Restore a retired profile with its current version. Restoring twice is restoring once."""
    require_admin(by)
    if Profile.objects.filter(pk=profile.pk, retired_at__isnull=False).update(retired_at=None):
        record_change(by=by, of=profile, change="restored", values=[("In the catalogue", "no", "yes")])
    catalogue_has_changed()
    profile.refresh_from_db(fields=["retired_at"])
    return profile


def definition_problems(definition: ProfileDefinition) -> list[str]:
    """Return everything that is wrong with a profile by itself; teams and other profiles are not checked."""
    problems = [
        *_page_problems(definition.slug, definition.title, definition.purpose),
        *_limit_problems(definition.spec, definition.limits),
    ]
    if "\\u0000" in json.dumps(definition.spec):
        problems.append("The spec has a character that cannot be stored.")
    return problems + [problem.message for problem in validation.problems(definition.spec)]


def _require_base(profile: Profile, base: int, definition: ProfileDefinition) -> None:
    """
    Lock the profile; raise Conflict unless its version is still `base`, or already has this definition.
    """
    current = _locked(profile).current
    if current is None or current.number == base or _is_same(current, definition.spec, definition.limits):
        return
    who = current.created_by.label if current.created_by else "Somebody"
    raise Conflict(
        f"{who} saved version {current.number} of {profile.slug} after you read version {base}.",
        current=current.number,
    )


def _locked(profile: Profile) -> Profile:
    return lock_row(Profile.objects.select_related("current__created_by"), profile.pk)


def _is_same(version: ProfileVersion, spec: dict[str, Any], limits: ProfileLimits) -> bool:
    """Return whether a version already has this spec and these limits."""
    return version.spec_hash == spec_hash(spec) and version.limits == limits


def _save_page(profile: Profile | None, definition: ProfileDefinition) -> Profile:
    """Create or update slug, title, use and purpose; an update also locks the row."""
    fields = {
        "slug": definition.slug,
        "title": definition.title.strip(),
        "use": definition.use.strip(),
        "purpose": definition.purpose,
    }
    try:
        with transaction.atomic():
            if profile is None:
                return Profile.objects.create(**fields)
            for name, value in fields.items():
                setattr(profile, name, value)
            profile.retired_at = None
            profile.save(update_fields=[*fields, "retired_at"])
            return profile
    except IntegrityError as error:
        if violated_constraint(error) != SLUG_CONSTRAINT:
            raise
        raise Conflict(f"There is already a profile {definition.slug}.") from error


def _save_version(
    profile: Profile, *, by: User, spec: dict[str, Any], limits: ProfileLimits, restores: bool = False
) -> ProfileVersion:
    """
    Add a version. `_save_page` or `replace_spec` has locked the row of the profile, so two admins do not get
    the same number.
    """
    current = Profile.objects.select_related("current").get(pk=profile.pk).current
    if current and _is_same(current, spec, limits):
        return current
    version = ProfileVersion.objects.create(
        profile=profile,
        number=current.number + 1 if current else 1,
        spec=spec,
        spec_hash=spec_hash(spec),
        created_by=by,
        restores=restores,
        **limits.columns(),
    )
    profile.current = version
    profile.save(update_fields=["current"])
    values = [("Version", str(current.number) if current else "–", str(version.number))]
    change = f"version {version.number}" if current else "added"
    record_change(by=by, of=profile, change=change, values=values)
    return version


def _page_problems(slug: str, title: str, purpose: str) -> list[str]:
    problems = []
    if not slug or slug != slugify(slug) or "_" in slug or len(slug) > 40:
        problems.append(f"“{slug}” is not a valid slug: use 1 to 40 lower-case letters, digits and hyphens.")
    elif slug in RESERVED:
        problems.append(f"The slug {slug} is reserved.")
    if not title.strip():
        problems.append("A profile needs a title.")
    elif len(title.strip()) > 80:
        problems.append("A title has at most 80 characters.")
    if purpose not in Purpose.values:
        problems.append(f"“{purpose}” is not a purpose: choose from {', '.join(Purpose.values)}.")
    return problems


def _limit_problems(spec: dict[str, Any], limits: ProfileLimits) -> list[str]:
    problems = []
    if not validation.problems(spec):  # the devices of a malformed spec cannot be counted
        if limits.scalable and limits.scalable not in _countable(spec):
            problems.append(
                f"The spec has no request {limits.scalable} with an exact count, so it cannot be scaled."
            )
        if limits.max_devices < quota.devices(spec):
            problems.append(
                f"The spec requests {quota.devices(spec)} devices, but a claim may have at most "
                f"{limits.max_devices}."
            )
    return [*problems, *limits.problems().values()]


def _countable(spec: dict[str, Any]) -> set[str]:
    requests = spec.get("devices", {}).get("requests", [])
    return {
        request.get("name", "")
        for request in requests
        if request.get("exactly", {}).get("allocationMode", "ExactCount") == "ExactCount"
        and "exactly" in request
    }


def plan_import(
    *, by: User, definitions: Sequence[ProfileDefinition], prune: bool = False
) -> list[ProfileChange]:
    """
    Return what `import_profiles` would do; write nothing.

    Raises Forbidden, and Invalid whose `problems` each name file and line.
    """
    require_admin(by)
    problems = [
        f"{definition.place()}: {problem}"
        for definition in definitions
        for problem in definition_problems(definition)
    ]
    if problems:
        raise Invalid(" ".join(problems), problems=problems)
    return import_plan(definitions, prune=prune)


def import_profiles(
    *, by: User, definitions: Sequence[ProfileDefinition], prune: bool = False, seen: str = ""
) -> list[ProfileChange]:
    """
    Make the catalogue match the file; return the plan that was carried out. Twice is once.

    Another spec or limit makes a version. A retired profile is restored if the file changes it, and stays
    retired if the file repeats it. With `prune` profiles that the file does not have are retired.
    `seen` is the digest of the plan that was confirmed. Raises Forbidden, Invalid with all problems, and
    Conflict if the catalogue has changed since that plan.
    """
    return _import(by, definitions, prune=prune, seen=seen, only_new=False)


def add_profiles(*, by: User, definitions: Sequence[ProfileDefinition]) -> list[ProfileChange]:
    """
    Add the profiles whose slugs are not in use, and return those; leave the others as they are.

    Raises Forbidden, Invalid with all problems, Conflict.
    """
    return _import(by, definitions, prune=False, seen="", only_new=True)


@service
def _import(
    by: User, definitions: Sequence[ProfileDefinition], *, prune: bool, seen: str, only_new: bool
) -> list[ProfileChange]:
    locked = Profile.objects.select_for_update(no_key=True).order_by("pk")
    slugs = set(locked.values_list("slug", flat=True))
    imported = [row for row in definitions if not only_new or row.slug not in slugs]
    changes = plan_import(by=by, definitions=imported, prune=prune)
    if seen and plan_digest(changes) != seen:
        raise Conflict("The catalogue has changed since you read this plan. Read the new plan below.")
    _write(changes, by)
    catalogue_has_changed()
    return changes


def _write(changes: Sequence[ProfileChange], by: User) -> None:
    for change in changes:
        if change.kind == RETIRED:
            Profile.objects.filter(slug=change.slug, retired_at=None).update(retired_at=Now())
        elif change.definition and change.changes_something:
            write_profile(by=by, profile=change.profile, definition=change.definition)
