"""What an import would change, profile by profile, before anything is written."""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from django.utils.translation import gettext as _

from claims.catalogue.files import Entry, document_of, entry_of
from claims.models import Profile
from core.errors import Invalid
from dra.canonical import spec_hash
from dra.manifests import to_yaml
from dra.objects import Json
from dra.reading_order import in_reading_order
from teams.models import Team

NEW, CHANGED, RETURNS, RETIRED, SAME = "new", "changed", "returns", "retired", "same"


@dataclass(frozen=True, slots=True)
class Difference:
    """One key of the file, such as "limits.maxDevices", with its value before and after; "" is none."""

    key: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class Change:
    """
    What happens to one profile: it is new, changed, comes back, is retired, or stays the same.

    `entry` is None for one that is retired, `profile` for a new one. `spec` are the lines of a unified diff.
    """

    kind: str
    slug: str
    entry: Entry | None
    profile: Profile | None
    differences: tuple[Difference, ...] = ()
    spec: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        return self.entry.title if self.entry else str(self.profile.title if self.profile else self.slug)

    @property
    def yaml(self) -> str:
        """The specification of the file."""
        return to_yaml(in_reading_order(self.entry.spec)) if self.entry else ""

    @property
    def changes_something(self) -> bool:
        return self.kind != SAME


def plan_of(entries: Sequence[Entry], *, prune: bool = False) -> list[Change]:
    """
    Return a change for each profile of the file, in its order; with `prune` also for those to be retired.

    Three queries. Raise Invalid for teams that do not exist.
    """
    _require_teams(entries)
    profiles = Profile.objects.select_related("current").prefetch_related("teams").order_by("slug")
    known = {profile.slug: profile for profile in profiles}
    changes = [_change(entry, known.get(entry.slug)) for entry in entries]
    if prune:
        kept = {entry.slug for entry in entries}
        changes += [
            Change(RETIRED, slug, None, profile)
            for slug, profile in known.items()
            if slug not in kept and profile.retired_at is None
        ]
    return changes


def digest_of(changes: Sequence[Change]) -> str:
    """Return what tells whether a plan is still the one that somebody has seen."""
    seen = repr([(one.kind, one.slug, one.differences, one.spec) for one in changes])
    return hashlib.sha256(seen.encode()).hexdigest()


def _require_teams(entries: Sequence[Entry]) -> None:
    known = set(Team.objects.values_list("slug", flat=True))
    problems = [
        _("%(place)s: there is no team %(team)s.") % {"place": entry.place("teams"), "team": team}
        for entry in entries
        for team in entry.teams
        if team not in known
    ]
    if problems:
        raise Invalid(" ".join(problems), problems=problems)


def _change(entry: Entry, profile: Profile | None) -> Change:
    if profile is None or profile.current is None:
        return Change(NEW, entry.slug, entry, profile, tuple(_differences({}, entry)), _spec_lines({}, entry))
    before = entry_of(profile)
    same_spec = spec_hash(before.spec) == spec_hash(entry.spec)
    differences = tuple(_differences(document_of(before), entry))
    spec = () if same_spec else _spec_lines(before.spec, entry)
    kind = CHANGED if differences or spec else SAME
    kind = RETURNS if profile.retired_at is not None else kind
    return Change(kind, entry.slug, entry, profile, differences, spec)


def _differences(before: Json, entry: Entry) -> Iterator[Difference]:
    old, new = (dict(_flat(one)) for one in (before, document_of(entry)))
    for key in dict.fromkeys((*new, *old)):
        if old.get(key, "") != new.get(key, ""):
            yield Difference(key, old.get(key, ""), new.get(key, ""))


def _flat(document: Json, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield the keys that differ from profile to profile, save the specification, with dots between."""
    for key, value in document.items():
        if not path and key in ("apiVersion", "kind", "slug", "spec"):
            continue
        if isinstance(value, dict):
            yield from _flat(value, f"{path}{key}.")
        elif isinstance(value, list):
            yield f"{path}{key}", ", ".join(map(str, value))
        else:
            yield f"{path}{key}", str(value)


def _spec_lines(before: Json, entry: Entry) -> tuple[str, ...]:
    old, new = (to_yaml(in_reading_order(one)).splitlines() if one else [] for one in (before, entry.spec))
    lines = difflib.unified_diff(old, new, lineterm="", n=2)
    return tuple(line for line in lines if not line.startswith(("---", "+++")))
