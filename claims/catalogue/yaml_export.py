"""
The catalogue as a YAML file, one document per profile, and what an import of such a file would change.

The order of profiles and keys and the spelling of durations are fixed, so a file under version control
changes only where the catalogue does.
"""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from claims.catalogue.definition import ProfileDefinition, current_definition
from claims.models import LIMITS, Profile, Purpose
from core.errors import Invalid
from core.times import spell_duration
from core.yaml_documents import API_VERSION
from dra.manifests import in_key_order, spec_hash, to_yaml
from dra.objects import Json
from teams.models import Team

KIND = "Profile"


def exported() -> list[ProfileDefinition]:
    """Return every profile that is not retired, by slug."""
    offered = Profile.objects.filter(retired_at=None, current__isnull=False)
    rows = offered.select_related("current").prefetch_related("teams").order_by("slug")
    return [current_definition(profile) for profile in rows]


def catalogue_file(definitions: Iterable[ProfileDefinition]) -> str:
    """Return the YAML file of these profiles."""
    return to_yaml(*(document(row) for row in sorted(definitions, key=lambda row: row.slug)))


def document(definition: ProfileDefinition) -> Json:
    """Return one profile as a YAML document; empty values and the purpose “other” are left out."""
    values: Json = {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "slug": definition.slug,
        "title": definition.title,
        "use": definition.use,
        "purpose": "" if definition.purpose == Purpose.OTHER else str(definition.purpose),
        "teams": list(definition.teams),
    }
    made = {key: value for key, value in values.items() if value}
    limits = definition.limits
    if not limits.automatic_devices:
        limits = replace(limits, automatic_duration=None)  # has no effect then
    for limit in LIMITS:
        if value := getattr(limits, limit.name):
            _put(made, limit.path, value)
    return made | {"spec": in_key_order(definition.spec)}


def _put(mapping: dict[str, Any], path: Sequence[str], value: Any) -> None:
    """Write `value` as YAML spells it at `path` of a mapping."""
    *parents, key = path
    for parent in parents:
        mapping = mapping.setdefault(parent, {})
    if isinstance(value, timedelta):
        value = spell_duration(value)
    elif isinstance(value, tuple):
        value = list(value)
    mapping[key] = str(value) if isinstance(value, str) else value


NEW, CHANGED, SAME = "new", "changed", "same"
RETIRED = "retired"  # by this import
RESTORED = "restored"  # retired before, and the file changes it
STAYS_RETIRED = "stays-retired"  # retired before, and the file only repeats it


@dataclass(frozen=True, slots=True)
class KeyDifference:
    """One key of the file, such as "limits.maxDevices", with its value before and after; "" is none."""

    key: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class ProfileChange:
    """
    What an import does to one profile; `kind` is one of the constants above.

    `definition` is None for one that is retired, `profile` for a new one. `spec` has the lines of a unified
    diff.
    """

    kind: str
    slug: str
    definition: ProfileDefinition | None
    profile: Profile | None
    differences: tuple[KeyDifference, ...] = ()
    spec: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        row = self.definition or self.profile
        return row.title if row else self.slug

    @property
    def yaml(self) -> str:
        """The spec of the file."""
        return to_yaml(in_key_order(self.definition.spec)) if self.definition else ""

    @property
    def changes_something(self) -> bool:
        return self.kind not in (SAME, STAYS_RETIRED)


def import_plan(definitions: Sequence[ProfileDefinition], *, prune: bool = False) -> list[ProfileChange]:
    """
    Return a change for each profile of the file, in its order; with `prune` also for those to retire.

    Three queries. Raises Invalid for teams that do not exist.
    """
    _require_teams(definitions)
    rows = Profile.objects.select_related("current").prefetch_related("teams").order_by("slug")
    profiles = {profile.slug: profile for profile in rows}
    changes = [_change(definition, profiles.get(definition.slug)) for definition in definitions]
    if prune:
        in_file = {definition.slug for definition in definitions}
        changes += [
            ProfileChange(RETIRED, slug, None, profile)
            for slug, profile in profiles.items()
            if slug not in in_file and profile.retired_at is None
        ]
    return changes


def plan_digest(changes: Sequence[ProfileChange]) -> str:
    """Return a digest that differs if the plan does, in hex."""
    plan = repr([(change.kind, change.slug, change.differences, change.spec) for change in changes])
    return hashlib.sha256(plan.encode()).hexdigest()


def _require_teams(definitions: Sequence[ProfileDefinition]) -> None:
    slugs = set(Team.objects.values_list("slug", flat=True))
    problems = [
        f"{definition.place('teams')}: there is no team {team}."
        for definition in definitions
        for team in definition.teams
        if team not in slugs
    ]
    if problems:
        raise Invalid(" ".join(problems), problems=problems)


def _change(definition: ProfileDefinition, profile: Profile | None) -> ProfileChange:
    if profile is None or profile.current is None:
        differences = tuple(_differences({}, definition))
        return ProfileChange(
            NEW, definition.slug, definition, profile, differences, _spec_diff({}, definition.spec)
        )
    before = current_definition(profile)
    same_spec = spec_hash(before.spec) == spec_hash(definition.spec)
    differences = tuple(_differences(document(before), definition))
    spec = () if same_spec else _spec_diff(before.spec, definition.spec)
    changed = bool(differences or spec)
    if profile.retired_at is None:
        kind = CHANGED if changed else SAME
    else:
        kind = RESTORED if changed else STAYS_RETIRED
    return ProfileChange(kind, definition.slug, definition, profile, differences, spec)


def _differences(before: Json, definition: ProfileDefinition) -> Iterator[KeyDifference]:
    old, new = dict(_flat(before)), dict(_flat(document(definition)))
    for key in dict.fromkeys((*new, *old)):
        if old.get(key, "") != new.get(key, ""):
            yield KeyDifference(key, old.get(key, ""), new.get(key, ""))


def _flat(document: Json, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield dotted keys and their values as text, without the spec and what identifies a profile."""
    for key, value in document.items():
        if not path and key in ("apiVersion", "kind", "slug", "spec"):
            continue
        if isinstance(value, dict):
            yield from _flat(value, f"{path}{key}.")
        elif isinstance(value, list):
            yield f"{path}{key}", ", ".join(map(str, value))
        else:
            yield f"{path}{key}", str(value)


def _spec_diff(before: Json, after: Json) -> tuple[str, ...]:
    old, new = (to_yaml(in_key_order(spec)).splitlines() if spec else [] for spec in (before, after))
    lines = difflib.unified_diff(old, new, lineterm="", n=2)
    return tuple(line for line in lines if not line.startswith(("---", "+++")))
