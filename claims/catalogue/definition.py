"""What a profile is, without its history: the value that the editor, the API and a file give the service."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from claims.models import LIMITS, Profile, ProfileLimits, ProfileVersion, Purpose
from claims.models.limits import Group
from dra.objects import Manifest


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileDefinition:
    """
    A profile as an editor, a file or the database has it.

    `teams` are slugs, none for everybody. `places` gives the line of each key of a file: "catalogue.yaml,
    line 12"; the key "" is the document itself.
    """

    slug: str
    title: str
    spec: Manifest
    use: str = ""
    purpose: str = Purpose.OTHER
    teams: tuple[str, ...] = ()
    limits: ProfileLimits = field(default_factory=ProfileLimits)
    places: Mapping[str, str] = field(default_factory=dict, compare=False)

    def place(self, key: str = "") -> str:
        return self.places.get(key) or self.places.get("", self.slug)


def sent_definition(fields: Mapping[str, Any]) -> ProfileDefinition:
    """Return what a valid form or request body defines; `teams` are rows, limits stand beside the rest."""
    return ProfileDefinition(
        slug=fields["slug"],
        title=fields["title"],
        use=fields["use"],
        purpose=fields["purpose"],
        teams=tuple(sorted(team.slug for team in fields.get("teams", ()))),
        spec=fields["spec"],
        limits=ProfileLimits.among(fields),
    )


def current_definition(profile: Profile) -> ProfileDefinition:
    """Return a profile that has a version; no query if its version and teams are fetched."""
    version = profile.current
    if version is None:
        raise ValueError(f"{profile} has no version.")
    return ProfileDefinition(
        slug=profile.slug,
        title=profile.title,
        use=profile.use,
        purpose=profile.purpose,
        teams=tuple(sorted(team.slug for team in profile.teams.all())),
        spec=version.spec,
        limits=version.limits,
    )


def limits_in_words(version: ProfileVersion) -> list[tuple[str, str]]:
    """
    Return label and value of each limit, in the order of `LIMITS`, except those of approval: rules for a team
    take precedence over them, so pages show a sentence instead.
    """
    return [
        (limit.label, limit.in_words(getattr(version, limit.name)))
        for limit in LIMITS
        if limit.group != Group.APPROVAL
    ]
