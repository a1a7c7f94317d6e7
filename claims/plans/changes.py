"""A claim taken apart into what was asked for, and what a change of it would ask for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any
from urllib.parse import urlencode

from django.urls import reverse

from claims.durations import spell
from claims.models import (
    Allocation,
    Alternative,
    Claim,
    Profile,
    ProfileVersion,
)
from claims.plans.plan import plan_request, spec_with_count
from core.text import counted
from core.times import duration
from core.times import duration as in_words
from dra import quota
from dra.canonical import spec_hash
from dra.fallback import combine_specs, request_names
from dra.manifests import with_count
from dra.objects import Json, alternatives, requests


@dataclass(frozen=True, slots=True)
class CurrentPart:
    """
    One profile of a claim, and how many devices it holds of it: 0 where another was taken, or none yet.

    `typed` is the number of devices that somebody would type into the form to get the same.
    """

    alternative: Alternative
    held: int
    typed: int


def current_parts(claim: Claim, held: Iterable[Allocation]) -> list[CurrentPart]:
    """Return the profiles in the order in which they were named; none for a claim of one profile."""
    by_name = Counter(row.request for row in held)
    found, asked = [], requests(claim.spec)
    for row in claim.alternatives.all():
        version = row.profile_version
        if row.together:
            # The requests of profiles together stand one behind the other, in the order of the profiles.
            own, asked = asked[: (size := len(requests(version.spec)))], asked[size:]
            names = [one.result_name for request in own for one in alternatives(request)]
            found.append(CurrentPart(row, sum(by_name[name] for name in names), typed_count(version, own)))
        else:
            ways = [one for request in asked for one in alternatives(request)]
            own = [{"exactly": one.raw} for one in ways if one.result_name == row.name]
            found.append(CurrentPart(row, by_name[row.name], typed_count(version, own)))
    return found


def typed_count(version: ProfileVersion, asked: list[Json]) -> int:
    """Return the number that was typed, read off the requests made of a version's; 1 if it has none."""
    for own, made in zip(requests(version.spec), asked, strict=False):
        exactly: Any = made.get("exactly") or {}
        if version.scalable and own.get("name") == version.scalable:
            return int(exactly.get("count") or 1)
    return 1


def form_fields(claim: Claim, profiles: list[CurrentPart]) -> list[tuple[str, object]]:
    """
    Return the fields of the request form that would ask for the same as `claim`, save its name and place;
    `profiles` are those of `standing_of`.
    """
    own, others = claim.profile_version, profiles[1:]
    together = bool(others) and others[0].alternative.together
    # Alternatives take the number of the first profile; where that has none to type, another one tells it.
    counts = [one.typed for one in profiles if one.alternative.profile_version.scalable]
    devices = profiles[0].typed if together else next(iter(counts), typed_count(own, requests(claim.spec)))
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


def request_again_url(claim: Claim, alternatives: Sequence[CurrentPart]) -> str:
    """Return the request form filled with what this claim asked for, except its name."""
    place = (("team", claim.team.slug), ("cluster", claim.cluster.name))
    asked = (*form_fields(claim, list(alternatives)), *place)
    return f"{reverse('claims:request')}?{urlencode(asked)}"


def claim_size(claim: Claim) -> str:
    """Say "2 × Train 80 GB + 1 × NIC, 5 d", of a template for how many pods."""
    said = f"{claim.sizes}, {duration(claim.duration)}"
    if claim.parallel == 1:
        return said
    pods = f"{counted(claim.parallel, 'pod')}"
    return f"{said} · {pods}"


@dataclass(frozen=True, slots=True)
class RequestPart:
    """One profile of a claim; `name` is what the scheduler calls it, `devices` are per ResourceClaim."""

    version: ProfileVersion
    name: str
    devices: int


@dataclass(frozen=True, slots=True)
class ReducedClaim:
    """
    What is left of a claim. `said` names every difference; with `problems` there is no use in the rest.

    A claim of one part is written as if that profile had been asked for alone.
    """

    spec: dict[str, Any]
    parts: tuple[RequestPart, ...]
    said: tuple[str, ...]
    problems: tuple[str, ...]


def combined_parts(claim: Claim) -> list[CurrentPart]:
    """Return the profiles that a claim takes together; none for one of a single profile or alternatives."""
    return [one for one in current_parts(claim, ()) if one.alternative.together]


def reduce_parts(claim: Claim, wanted: Mapping[str, int]) -> ReducedClaim:
    """
    Work out what is left of `claim` with so many devices, as they would be typed, of the profiles in
    `wanted`; 0 leaves one out. The versions stay those that were asked for.
    """
    rows = combined_parts(claim)
    known = {one.alternative.profile_version.profile.slug for one in rows}
    problems = [
        f"{claim} takes no devices of {slug} together with others." for slug in wanted if slug not in known
    ]
    kept, said = [], []
    for one in rows:
        version, typed = one.alternative.profile_version, one.typed
        count = wanted.get(version.profile.slug, typed)
        if problem := _problem(one, count):
            problems.append(problem)
        elif count:
            spec = spec_with_count(version, count)
            kept.append((version, spec))
            if count != typed:
                said.append(_said(version, typed, count))
        else:
            said.append(f"without {version.profile}")
    if rows and not kept and not problems:
        problems.append(f"Nothing would be left of {claim}; deny it instead.")
    if problems or not kept:
        return ReducedClaim(claim.spec, (), (), tuple(problems))
    parts = tuple(
        RequestPart(
            version, next(iter(request_names(version.profile.slug, spec).values()), ""), quota.devices(spec)
        )
        for version, spec in kept
    )
    several = [(version.profile.slug, spec) for version, spec in kept]
    return ReducedClaim(combine_specs(several) if len(several) > 1 else kept[0][1], parts, tuple(said), ())


def _problem(one: CurrentPart, count: int) -> str:
    version = one.alternative.profile_version
    if not version.scalable and count not in (0, one.typed):
        return f"{version.profile} is given whole or left out; {count} is neither."
    if not 0 <= count <= one.typed:
        return f"An approver gives from 0 to the {one.typed} × {version.profile} asked for, not {count}."
    return ""


def _said(version: ProfileVersion, was: int, now: int) -> str:
    return f"{version.profile}: {was} → {counted(now, 'device')}"


@dataclass(frozen=True, slots=True)
class WantedChange:
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
class RequestChange:
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
    parts: tuple[RequestPart, ...] = ()  # the profiles that it is left with, of those that it takes together
    of_parts: tuple[str, ...] = ()  # what becomes of each, in words


def plan_change(claim: Claim, wanted: WantedChange) -> RequestChange:
    """Work out what the request would be; reads the claim's charges and alternatives, writes nothing."""
    duration = claim.duration if wanted.duration is None else wanted.duration
    devices = claim.devices if wanted.devices is None else wanted.devices
    other = (
        wanted.profile if wanted.profile and wanted.profile.pk != claim.profile_version.profile_id else None
    )
    as_it_is = RequestChange(
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
        problem = "Choose either another profile or fewer devices of those that are asked for, not both."
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


def _other_profile(claim: Claim, change: RequestChange, profile: Profile, devices: int) -> RequestChange:
    wish = plan_request(
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
        problems.append(f"{profile} takes {wish.devices} devices, more than the {claim.devices} asked for.")
    if not Profile.objects.open_to(claim.team).filter(pk=profile.pk).exists():
        problems.append(f"The profile {profile} is not open to {claim.team}.")
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


def _other_count(claim: Claim, change: RequestChange, devices: int) -> RequestChange:
    """Keep the version that was asked for, which need not be the current one."""
    version = claim.profile_version
    if not version.scalable or claim.alternatives.exists():
        problem = f"The number of devices of {claim} is fixed by what it asks for."
        if combined_parts(claim):
            problem = f"{claim} takes several profiles: say how many of each."
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


def _other_parts(claim: Claim, change: RequestChange, wanted: Mapping[str, int]) -> RequestChange:
    left = reduce_parts(claim, wanted)
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
            f"An approver gives from 1 to the {counted(claim.devices, 'device')} asked for, not {devices}."
        )
    if not timedelta(0) < duration <= claim.duration:
        problems.append(
            f"An approver gives at most the {in_words(claim.duration)} asked for, not {in_words(duration)}."
        )
    return problems


def _differences(claim: Claim, change: RequestChange) -> list[str]:
    said = []
    if change.version != claim.profile_version and not change.parts:
        said.append(f"{claim.profile_version} → {change.version}")
    if change.parts:
        said.extend(change.of_parts)
    elif change.devices != claim.devices:
        said.append(f"{claim.devices} → {counted(change.devices, 'device')}")
    if change.duration != claim.duration:
        said.append(f"{in_words(claim.duration)} → {in_words(change.duration)}")
    return said


def additional_usage(claim: Claim, change: RequestChange) -> tuple[dict[str, int], dict[Profile, int]]:
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
