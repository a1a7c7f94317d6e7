"""
What an approver would make of a request: shorter, fewer devices, another profile, without one of several.
Less, never more.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from claims.models import Claim, Profile, ProfileVersion
from claims.request.parts import Part, fewer, parts_of
from claims.request.wish import make_wish
from core.times import duration as in_words
from dra import quota
from dra.canonical import spec_hash
from dra.manifests import with_count


@dataclass(frozen=True, slots=True)
class Wanted:
    """
    What the approver wants; None leaves it as it is. `devices` is per claim.

    `parts` are for a claim that takes several profiles together: the slugs of those that change, each with
    its number of devices as it would be typed; 0 leaves the profile out.
    """

    devices: int | None = None
    duration: timedelta | None = None
    profile: Profile | None = None
    parts: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Change:
    """
    A request as it would be. `charge` is devices per class of all claims together; `said` names every
    difference; `problems` say why it cannot be so.
    """

    version: ProfileVersion
    spec: dict[str, Any]
    spec_hash: str
    devices: int
    duration: timedelta
    charge: dict[str, int]
    reshaped: bool  # whether the spec is another one, not only the duration
    said: tuple[str, ...]
    problems: tuple[str, ...]
    parts: tuple[Part, ...] = ()  # the profiles that it is left with, of those that it takes together
    of_parts: tuple[str, ...] = ()  # what becomes of each, in words


def change_of(claim: Claim, wanted: Wanted) -> Change:
    """Work out what the request would be; reads the claim's charges and alternatives, writes nothing."""
    duration = claim.duration if wanted.duration is None else wanted.duration
    devices = claim.devices if wanted.devices is None else wanted.devices
    other = (
        wanted.profile if wanted.profile and wanted.profile.pk != claim.profile_version.profile_id else None
    )
    as_it_is = Change(
        claim.profile_version,
        claim.spec,
        claim.spec_hash,
        claim.devices,
        duration,
        {row.device_class: row.devices for row in claim.charges.all()},
        reshaped=False,
        said=(),
        problems=tuple(_too_much(claim, devices, duration)),
    )
    if wanted.parts and (other is not None or wanted.devices is not None):
        problem = _("Choose either another profile or fewer devices of those that are asked for, not both.")
        changed = replace(as_it_is, problems=(*as_it_is.problems, problem))
    elif wanted.parts:
        changed = _other_parts(claim, as_it_is, dict(wanted.parts))
    elif other is not None:
        changed = _other_profile(claim, as_it_is, other, devices)
    elif devices != claim.devices:
        changed = _other_count(claim, as_it_is, devices)
    else:
        changed = as_it_is
    return replace(changed, said=tuple(_differences(claim, changed)))


def _other_profile(claim: Claim, change: Change, profile: Profile, devices: int) -> Change:
    wish = make_wish(
        team=claim.team,
        cluster=claim.cluster,
        profile=profile,
        devices=devices,
        parallel=claim.parallel,
        delivery=claim.delivery,
        duration=change.duration,
        name="",
    )
    problems = [*change.problems, *wish.problems]
    if wish.devices > claim.devices:
        problems.append(
            _("%(profile)s takes %(count)d devices, more than the %(asked)d asked for.")
            % {"profile": profile, "count": wish.devices, "asked": claim.devices}
        )
    if not Profile.objects.open_to(claim.team).filter(pk=profile.pk).exists():
        problems.append(
            _("The profile %(profile)s is not open to %(team)s.") % {"profile": profile, "team": claim.team}
        )
    return replace(
        change,
        version=wish.version,
        spec=wish.spec,
        spec_hash=wish.spec_hash,
        devices=wish.devices,
        charge=wish.charge,
        reshaped=True,
        problems=tuple(problems),
    )


def _other_count(claim: Claim, change: Change, devices: int) -> Change:
    """Keep the version that was asked for, which need not be the current one."""
    version = claim.profile_version
    if not version.scalable or claim.alternatives.exists():
        problem = _("The number of devices of %(claim)s is fixed by what it asks for.") % {"claim": claim}
        if parts_of(claim):
            problem = _("%(claim)s takes several profiles: say how many of each.") % {"claim": claim}
        return replace(change, problems=(*change.problems, problem))
    if devices < 1:
        return change
    spec = with_count(version.spec, version.scalable, devices)
    charge = {name: count * claim.parallel for name, count in quota.charge(spec).items()}
    return replace(
        change,
        spec=spec,
        spec_hash=spec_hash(spec),
        devices=quota.devices(spec),
        charge=charge,
        reshaped=True,
    )


def _other_parts(claim: Claim, change: Change, wanted: Mapping[str, int]) -> Change:
    left = fewer(claim, wanted)
    if left.problems or not left.said:
        return replace(change, problems=(*change.problems, *left.problems))
    return replace(
        change,
        version=left.parts[0].version,
        spec=left.spec,
        spec_hash=spec_hash(left.spec),
        devices=quota.devices(left.spec),
        charge={name: count * claim.parallel for name, count in quota.charge(left.spec).items()},
        reshaped=True,
        parts=left.parts,
        of_parts=left.said,
    )


def _too_much(claim: Claim, devices: int, duration: timedelta) -> list[str]:
    problems = []
    if not 1 <= devices <= claim.devices:
        problems.append(
            ngettext(
                "An approver gives from 1 to the %(asked)d device asked for, not %(count)d.",
                "An approver gives from 1 to the %(asked)d devices asked for, not %(count)d.",
                claim.devices,
            )
            % {"asked": claim.devices, "count": devices}
        )
    if not timedelta(0) < duration <= claim.duration:
        problems.append(
            _("An approver gives at most the %(asked)s asked for, not %(span)s.")
            % {"asked": in_words(claim.duration), "span": in_words(duration)}
        )
    return problems


def _differences(claim: Claim, change: Change) -> list[str]:
    said = []
    if change.version != claim.profile_version and not change.parts:
        said.append(f"{claim.profile_version} → {change.version}")
    if change.parts:
        said.extend(change.of_parts)
    elif change.devices != claim.devices:
        said.append(
            ngettext("%(was)d → %(now)d device", "%(was)d → %(now)d devices", change.devices)
            % {"was": claim.devices, "now": change.devices}
        )
    if change.duration != claim.duration:
        said.append(f"{in_words(claim.duration)} → {in_words(change.duration)}")
    return said


def growth(claim: Claim, change: Change) -> tuple[dict[str, int], dict[Profile, int]]:
    """Return what the change takes beyond what the request already reserves, per class and per profile."""
    has = {row.device_class: row.devices for row in claim.charges.all()}
    classes = {name: count - has.get(name, 0) for name, count in change.charge.items()}
    taken = {part.version.profile: part.devices for part in change.parts} or {
        change.version.profile: change.devices
    }
    reserved = {one.profile_version.profile_id: one.devices for one in claim.alternatives.all()} or {
        claim.profile_version.profile_id: claim.devices * claim.parallel
    }
    more = {profile: count * claim.parallel - reserved.get(profile.pk, 0) for profile, count in taken.items()}
    return (
        {name: count for name, count in classes.items() if count > 0},
        {profile: count for profile, count in more.items() if count > 0} if change.reshaped else {},
    )
