"""The profiles that a request names, and the one spec that is made of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from django.utils.translation import gettext as _

from claims.models import Profile, ProfileVersion
from core.errors import Conflict
from dra import quota
from dra.help.fallback import CannotCombineError, alternative_name, first_available
from dra.help.together import request_names, together
from dra.manifests import with_count
from dra.objects import requests

type Counted = tuple[Profile, int]  # a profile, and devices as somebody typed them


@dataclass(frozen=True, slots=True)
class Option:
    """
    One of the profiles that a wish names, the preferred one first.

    `name` is what the scheduler calls it: "gpu/train-80" of alternatives, "train-80" of profiles together, ""
    where there are no others. `asked` is the number that was typed, `devices` what it comes to; both are per
    ResourceClaim.
    """

    profile: Profile
    version: ProfileVersion
    name: str
    asked: int
    devices: int
    spec: dict[str, Any] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Combined:
    """One spec of all profiles that are named; `problems` say why they cannot stand in one claim."""

    spec: dict[str, Any]
    options: tuple[Option, ...]
    problems: tuple[str, ...] = ()


def combined(
    first: Counted, *, alternatives: Sequence[Profile] = (), further: Sequence[Counted] = ()
) -> Combined:
    """
    Make one spec of a profile and either its `alternatives`, as many of each, or `further` profiles, each
    with its own number, which the claim takes as well.

    Where they cannot be combined the spec is that of the first. Raise Conflict for a profile that cannot be
    asked for at all.
    """
    named = [first, *((each, first[1]) for each in alternatives), *further]
    versions = [current_of(each) for each, _count in named]
    specs = [sized(version, count) for version, (_each, count) in zip(versions, named, strict=True)]
    spec, names, problems = specs[0], [""] * len(named), []
    try:
        if alternatives and further:
            raise CannotCombineError(
                _("A request names either alternatives or further profiles; ask for the others apart.")
            )
        parts = [(each.slug, one) for (each, _count), one in zip(named, specs, strict=True)]
        if alternatives:
            spec = first_available(parts)
            request = requests(spec)[0]["name"]
            names = [f"{request}/{alternative_name(slug)}" for slug, _one in parts]
        elif further:
            spec = together(parts)
            names = [next(iter(request_names(slug, one).values()), "") for slug, one in parts]
    except CannotCombineError as error:
        problems = [error.message]
    options = tuple(
        Option(each, version, name, asked=count, devices=quota.devices(one), spec=one)
        for (each, count), version, name, one in zip(named, versions, names, specs, strict=True)
    )
    return Combined(spec, options, tuple(problems))


def current_of(profile: Profile) -> ProfileVersion:
    """Return the version that a request gets. Raise Conflict for a profile that cannot be asked for."""
    if profile.retired_at is not None or profile.current is None:
        raise Conflict(
            _("The profile %(profile)s is retired and cannot be asked for.") % {"profile": profile}
        )
    return profile.current


def sized(version: ProfileVersion, devices: int) -> dict[str, Any]:
    """Return the spec of a version with its count filled in, where it has one that can be changed."""
    scalable = bool(version.scalable) and devices > 0
    return with_count(version.spec, version.scalable, devices) if scalable else version.spec
