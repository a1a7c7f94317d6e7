"""
Profiles as a YAML file, and what importing one would change.

Profiles as a YAML file: what `manage.py catalogue export` writes and `import` reads, one document a profile.

The order of profiles and of keys, and the spelling of durations, are always the same, so that a file under
version control changes only where the catalogue does.
"""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from claims.durations import spell
from claims.models import Approval, Delivery, Profile
from core.errors import Invalid
from dra.canonical import in_key_order, spec_hash
from dra.manifests import to_yaml
from dra.objects import Json, Manifest
from teams.models import Team

API_VERSION, KIND = "dragoman.dev/v1", "Profile"
DEFAULTS: Mapping[str, Any] = {
    "scalable": "",
    "max_devices": 1,
    "default_duration": timedelta(hours=24),
    "max_duration": timedelta(days=14),
    "grace": timedelta(0),
    "extension": timedelta(0),
    "deliveries": list(Delivery.values),
    "approval": str(Approval.LEAD),
    "automatic_devices": 0,
    "automatic_duration": None,
}


@dataclass(frozen=True, slots=True)
class ProfileEntry:
    """
    One profile, as a file or the database has it.

    `teams` are slugs, none for everybody; `limits` has the names of DEFAULTS. `places` says where a key
    stands: "catalogue.yaml, line 12"; the nameless one is the document itself.
    """

    slug: str
    title: str
    use: str
    teams: tuple[str, ...]
    limits: dict[str, Any]
    spec: Manifest
    places: Mapping[str, str] = field(default_factory=dict, compare=False)

    def place(self, key: str = "") -> str:
        return self.places.get(key) or self.places.get("", self.slug)


def entry_of(profile: Profile) -> ProfileEntry:
    """Return a profile that has a version; no query if its version and teams are fetched."""
    version = profile.current
    if version is None:
        raise ValueError(f"{profile} has no version.")
    return ProfileEntry(
        slug=profile.slug,
        title=profile.title,
        use=profile.use,
        teams=tuple(sorted(team.slug for team in profile.teams.all())),
        limits={name: getattr(version, name) for name in DEFAULTS},
        spec=version.spec,
    )


def exported() -> list[ProfileEntry]:
    """Return what the catalogue offers now, by slug: every profile that is not retired."""
    offered = Profile.objects.filter(retired_at=None, current__isnull=False)
    return [
        entry_of(one) for one in offered.select_related("current").prefetch_related("teams").order_by("slug")
    ]


def written(entries: Iterable[ProfileEntry]) -> str:
    """Return the file of these profiles; what has its default and says nothing is left out."""
    return to_yaml(*(document_of(one) for one in sorted(entries, key=lambda one: one.slug)))


def document_of(entry: ProfileEntry) -> Json:
    document: Json = {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "slug": entry.slug,
        "title": entry.title,
        "use": entry.use,
        "teams": list(entry.teams),
        "scalable": entry.limits["scalable"],
    }
    said = {key: value for key, value in document.items() if value}
    return said | {"limits": _limits(entry.limits), "spec": in_key_order(entry.spec)}


def _limits(limits: Mapping[str, Any]) -> Manifest:
    found: Manifest = {
        "maxDevices": limits["max_devices"],
        "defaultDuration": spell(limits["default_duration"]),
        "maxDuration": spell(limits["max_duration"]),
    }
    found |= {name: spell(limits[name]) for name in ("grace", "extension") if limits[name]}
    found |= {"deliveries": list(limits["deliveries"]), "approval": str(limits["approval"])}
    if limits["automatic_devices"]:
        span = limits["automatic_duration"]
        found["automatic"] = {"devices": limits["automatic_devices"]}
        found["automatic"] |= {} if span is None else {"duration": spell(span)}
    return found


NEW, CHANGED, RETURNS, RETIRED, SAME = "new", "changed", "returns", "retired", "same"


@dataclass(frozen=True, slots=True)
class KeyDifference:
    """One key of the file, such as "limits.maxDevices", with its value before and after; "" is none."""

    key: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class ProfileChange:
    """
    What happens to one profile: it is new, changed, comes back, is retired, or stays the same.

    `entry` is None for one that is retired, `profile` for a new one. `spec` are the lines of a unified diff.
    """

    kind: str
    slug: str
    entry: ProfileEntry | None
    profile: Profile | None
    differences: tuple[KeyDifference, ...] = ()
    spec: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        return self.entry.title if self.entry else str(self.profile.title if self.profile else self.slug)

    @property
    def yaml(self) -> str:
        """The specification of the file."""
        return to_yaml(in_key_order(self.entry.spec)) if self.entry else ""

    @property
    def changes_something(self) -> bool:
        return self.kind != SAME


def plan_of(entries: Sequence[ProfileEntry], *, prune: bool = False) -> list[ProfileChange]:
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
            ProfileChange(RETIRED, slug, None, profile)
            for slug, profile in known.items()
            if slug not in kept and profile.retired_at is None
        ]
    return changes


def digest_of(changes: Sequence[ProfileChange]) -> str:
    """Return what tells whether a plan is still the one that somebody has seen."""
    seen = repr([(one.kind, one.slug, one.differences, one.spec) for one in changes])
    return hashlib.sha256(seen.encode()).hexdigest()


def _require_teams(entries: Sequence[ProfileEntry]) -> None:
    known = set(Team.objects.values_list("slug", flat=True))
    problems = [
        f"{entry.place('teams')}: there is no team {team}."
        for entry in entries
        for team in entry.teams
        if team not in known
    ]
    if problems:
        raise Invalid(" ".join(problems), problems=problems)


def _change(entry: ProfileEntry, profile: Profile | None) -> ProfileChange:
    if profile is None or profile.current is None:
        return ProfileChange(
            NEW, entry.slug, entry, profile, tuple(_differences({}, entry)), _spec_lines({}, entry)
        )
    before = entry_of(profile)
    same_spec = spec_hash(before.spec) == spec_hash(entry.spec)
    differences = tuple(_differences(document_of(before), entry))
    spec = () if same_spec else _spec_lines(before.spec, entry)
    kind = CHANGED if differences or spec else SAME
    kind = RETURNS if profile.retired_at is not None else kind
    return ProfileChange(kind, entry.slug, entry, profile, differences, spec)


def _differences(before: Json, entry: ProfileEntry) -> Iterator[KeyDifference]:
    old, new = (dict(_flat(one)) for one in (before, document_of(entry)))
    for key in dict.fromkeys((*new, *old)):
        if old.get(key, "") != new.get(key, ""):
            yield KeyDifference(key, old.get(key, ""), new.get(key, ""))


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


def _spec_lines(before: Json, entry: ProfileEntry) -> tuple[str, ...]:
    old, new = (to_yaml(in_key_order(one)).splitlines() if one else [] for one in (before, entry.spec))
    lines = difflib.unified_diff(old, new, lineterm="", n=2)
    return tuple(line for line in lines if not line.startswith(("---", "+++")))
