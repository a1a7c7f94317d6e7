"""A claim that takes several profiles together, with fewer devices of each or without one of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from claims.models import Claim, ProfileVersion
from claims.request.alternatives import Standing, standing_of
from claims.request.combining import sized
from dra import quota
from dra.help.together import request_names, together


@dataclass(frozen=True, slots=True)
class Part:
    """One profile of a claim; `name` is what the scheduler calls it, `devices` are per ResourceClaim."""

    version: ProfileVersion
    name: str
    devices: int


@dataclass(frozen=True, slots=True)
class Fewer:
    """
    What is left of a claim. `said` names every difference; with `problems` there is no use in the rest.

    A claim of one part is written as if that profile had been asked for alone.
    """

    spec: dict[str, Any]
    parts: tuple[Part, ...]
    said: tuple[str, ...]
    problems: tuple[str, ...]


def parts_of(claim: Claim) -> list[Standing]:
    """Return the profiles that a claim takes together; none for one of a single profile or alternatives."""
    return [one for one in standing_of(claim, ()) if one.alternative.together]


def fewer(claim: Claim, wanted: Mapping[str, int]) -> Fewer:
    """
    Work out what is left of `claim` with so many devices, as they would be typed, of the profiles in
    `wanted`; 0 leaves one out. The versions stay those that were asked for.
    """
    rows = parts_of(claim)
    known = {one.alternative.profile_version.profile.slug for one in rows}
    problems = [
        _("%(claim)s takes no devices of %(profile)s together with others.")
        % {"claim": claim, "profile": slug}
        for slug in wanted
        if slug not in known
    ]
    kept, said = [], []
    for one in rows:
        version, typed = one.alternative.profile_version, one.typed
        count = wanted.get(version.profile.slug, typed)
        if problem := _problem(one, count):
            problems.append(problem)
        elif count:
            spec = sized(version, count)
            kept.append((version, spec))
            if count != typed:
                said.append(_said(version, typed, count))
        else:
            said.append(_("without %(profile)s") % {"profile": version.profile})
    if rows and not kept and not problems:
        problems.append(_("Nothing would be left of %(claim)s; deny it instead.") % {"claim": claim})
    if problems or not kept:
        return Fewer(claim.spec, (), (), tuple(problems))
    parts = tuple(
        Part(version, next(iter(request_names(version.profile.slug, spec).values()), ""), quota.devices(spec))
        for version, spec in kept
    )
    several = [(version.profile.slug, spec) for version, spec in kept]
    return Fewer(together(several) if len(several) > 1 else kept[0][1], parts, tuple(said), ())


def _problem(one: Standing, count: int) -> str:
    version = one.alternative.profile_version
    values = {"asked": one.typed, "profile": version.profile, "count": count}
    if not version.scalable and count not in (0, one.typed):
        return _("%(profile)s is given whole or left out; %(count)d is neither.") % values
    if not 0 <= count <= one.typed:
        return _("An approver gives from 0 to the %(asked)d × %(profile)s asked for, not %(count)d.") % values
    return ""


def _said(version: ProfileVersion, was: int, now: int) -> str:
    return ngettext(
        "%(profile)s: %(was)d → %(now)d device", "%(profile)s: %(was)d → %(now)d devices", now
    ) % {"profile": version.profile, "was": was, "now": now}
