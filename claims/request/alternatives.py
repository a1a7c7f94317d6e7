"""The profiles of a claim that names several: what it holds of each, and what would ask for the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.urls import reverse
from django.utils.translation import ngettext

from claims.forms.durations import spell
from claims.models import (
    Allocation,
    Alternative,
    Claim,
    ProfileVersion,
)
from core.times import duration
from dra.objects import Json, alternatives, requests


@dataclass(frozen=True, slots=True)
class Standing:
    """
    One profile of a claim, and how many devices it holds of it: 0 where another was taken, or none yet.

    `typed` is the number of devices that somebody would type into the form to get the same.
    """

    alternative: Alternative
    held: int
    typed: int


def standing_of(claim: Claim, held: Iterable[Allocation]) -> list[Standing]:
    """Return the profiles in the order in which they were named; none for a claim of one profile."""
    by_name = Counter(row.request for row in held)
    found, asked = [], requests(claim.spec)
    for row in claim.alternatives.all():
        version = row.profile_version
        if row.together:
            # The requests of profiles together stand one behind the other, in the order of the profiles.
            own, asked = asked[: (size := len(requests(version.spec)))], asked[size:]
            names = [one.result_name for request in own for one in alternatives(request)]
            found.append(Standing(row, sum(by_name[name] for name in names), typed_of(version, own)))
        else:
            ways = [one for request in asked for one in alternatives(request)]
            own = [{"exactly": one.raw} for one in ways if one.result_name == row.name]
            found.append(Standing(row, by_name[row.name], typed_of(version, own)))
    return found


def typed_of(version: ProfileVersion, asked: list[Json]) -> int:
    """Return the number that was typed, read off the requests made of a version's; 1 if it has none."""
    for own, made in zip(requests(version.spec), asked, strict=False):
        exactly: Any = made.get("exactly") or {}
        if version.scalable and own.get("name") == version.scalable:
            return int(exactly.get("count") or 1)
    return 1


def wish_of(claim: Claim, profiles: list[Standing]) -> list[tuple[str, object]]:
    """
    Return the fields of the request form that would ask for the same as `claim`, save its name and place;
    `profiles` are those of `standing_of`.
    """
    own, others = claim.profile_version, profiles[1:]
    together = bool(others) and others[0].alternative.together
    # Alternatives take the number of the first profile; where that has none to type, another one tells it.
    counts = [one.typed for one in profiles if one.alternative.profile_version.scalable]
    devices = profiles[0].typed if together else next(iter(counts), typed_of(own, requests(claim.spec)))
    fields: list[tuple[str, object]] = [("profile", own.profile.slug)]
    for one in others:
        slug = one.alternative.profile_version.profile.slug
        if together:
            fields += [("together", slug), ("together_devices", one.typed)]
        else:
            fields.append(("alternatives", slug))
    return [
        *fields,
        ("devices", devices),
        ("delivery", claim.delivery),
        ("parallel", claim.parallel),
        ("duration", spell(claim.duration)),
        ("reason", claim.reason),
    ]


def again_url(claim: Claim, alternatives: Sequence[Standing]) -> str:
    """Return the request form filled with what this claim asked for, except its name."""
    place = (("team", claim.team.slug), ("cluster", claim.cluster.name))
    asked = (*wish_of(claim, list(alternatives)), *place)
    return f"{reverse('claims:request')}?{urlencode(asked)}"


def size_of(claim: Claim) -> str:
    """Say "2 × Train 80 GB + 1 × NIC, 5 d", of a template for how many pods."""
    said = f"{claim.sizes}, {duration(claim.duration)}"
    if claim.parallel == 1:
        return said
    pods = ngettext("%(n)d pod", "%(n)d pods", claim.parallel) % {"n": claim.parallel}
    return f"{said} · {pods}"
