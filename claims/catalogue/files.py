"""
Profiles as a YAML file: what `manage.py catalogue export` writes and `import` reads, one document a profile.

The order of profiles and of keys, and the spelling of durations, are always the same, so that a file under
version control changes only where the catalogue does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from claims.forms.durations import spell
from claims.models import Approval, Delivery, Profile
from dra.manifests import to_yaml
from dra.objects import Json, Manifest
from dra.reading_order import in_reading_order

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
class Entry:
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


def entry_of(profile: Profile) -> Entry:
    """Return a profile that has a version; no query if its version and teams are fetched."""
    version = profile.current
    if version is None:
        raise ValueError(f"{profile} has no version.")
    return Entry(
        slug=profile.slug,
        title=profile.title,
        use=profile.use,
        teams=tuple(sorted(team.slug for team in profile.teams.all())),
        limits={name: getattr(version, name) for name in DEFAULTS},
        spec=version.spec,
    )


def exported() -> list[Entry]:
    """Return what the catalogue offers now, by slug: every profile that is not retired."""
    offered = Profile.objects.filter(retired_at=None, current__isnull=False)
    return [
        entry_of(one) for one in offered.select_related("current").prefetch_related("teams").order_by("slug")
    ]


def written(entries: Iterable[Entry]) -> str:
    """Return the file of these profiles; what has its default and says nothing is left out."""
    return to_yaml(*(document_of(one) for one in sorted(entries, key=lambda one: one.slug)))


def document_of(entry: Entry) -> Json:
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
    return said | {"limits": _limits(entry.limits), "spec": in_reading_order(entry.spec)}


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
