"""The current request of a claim, profile by profile, and the request that a change results in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any
from urllib.parse import urlencode

from django.urls import reverse

from claims.models import (
    Allocation,
    Alternative,
    Claim,
    Profile,
    ProfileVersion,
)
from claims.plans.plan import plan_request, spec_with_count
from core.text import counted
from core.times import duration as in_words
from core.times import spell_duration
from dra import quota
from dra.combination import combine_specs, request_names
from dra.manifests import spec_hash, with_count
from dra.objects import Json, alternatives, requests


@dataclass(frozen=True, slots=True)
class CurrentPart:
    """
    One profile of a claim, and the number of its devices that the claim holds: 0 if another alternative was
    allocated, or none yet.

    `typed` is the number of devices in the form that gives the same request.
    """

    alternative: Alternative
    held: int
    typed: int


def current_parts(claim: Claim, held: Iterable[Allocation]) -> list[CurrentPart]:
    """Return the profiles of a claim in the order of the request; empty for a claim of one profile."""
    held_by_name = Counter(allocation.request for allocation in held)
    parts, remaining = [], requests(claim.spec)
    for row in claim.alternative_rows:
        version = row.profile_version
        if row.together:
            # The spec lists the requests of combined profiles in the order of the profiles.
            size = len(requests(version.spec))
            own, remaining = remaining[:size], remaining[size:]
            names = [option.result_name for request in own for option in alternatives(request)]
            count = sum(held_by_name[name] for name in names)
        else:
            options = [option for request in remaining for option in alternatives(request)]
            own = [{"exactly": option.raw} for option in options if option.result_name == row.name]
            count = held_by_name[row.name]
        parts.append(CurrentPart(row, count, typed_count(version, own)))
    return parts


def typed_count(version: ProfileVersion, filled_requests: list[Json]) -> int:
    """Return the typed number of devices, from the filled-in requests of a version; 1 if it has no count."""
    for request, filled in zip(requests(version.spec), filled_requests, strict=False):
        exactly: Any = filled.get("exactly") or {}
        if version.scalable and request.get("name") == version.scalable:
            return int(exactly.get("count") or 1)
    return 1


def form_fields(claim: Claim, parts: list[CurrentPart]) -> list[tuple[str, object]]:
    """
    Return the fields of the request form that give the same request as `claim`, without name, team and
    cluster; `parts` are its `current_parts`.
    """
    version, others = claim.profile_version, parts[1:]
    together = bool(others) and others[0].alternative.together
    # Alternatives share the number of the first profile; if that one has no count, another one shows it.
    counts = [part.typed for part in parts if part.alternative.profile_version.scalable]
    first_count = next(iter(counts), typed_count(version, requests(claim.spec)))
    fields: list[tuple[str, object]] = [("profile", version.profile.slug)]
    for part in others:
        slug = part.alternative.profile_version.profile.slug
        if together:
            fields += [("together", slug), ("together_devices", part.typed)]
        else:
            fields.append(("alternatives", slug))
    return [
        *fields,
        ("devices", parts[0].typed if together else first_count),
        ("delivery", claim.delivery),
        ("parallel", claim.parallel),
        ("duration", spell_duration(claim.duration)),
        ("reason", claim.reason),
    ]


def request_again_url(claim: Claim, parts: Sequence[CurrentPart]) -> str:
    """Return the address of the request form, filled with the request of this claim except its name."""
    place = (("team", claim.team.slug), ("cluster", claim.cluster.name))
    return f"{reverse('claims:request')}?{urlencode((*form_fields(claim, list(parts)), *place))}"


def claim_size(claim: Claim) -> str:
    """Return "2 × Train 80 GB + 1 × NIC, 5 d", with the number of pods for a template."""
    return size_in_words(claim.sizes, claim.duration, claim.parallel)


def size_in_words(sizes: str, duration: timedelta, parallel: int) -> str:
    size = f"{sizes}, {in_words(duration)}"
    return size if parallel == 1 else f"{size} · {counted(parallel, 'pod')}"


@dataclass(frozen=True, slots=True)
class RequestPart:
    """One profile of a claim; `name` is the name of its device request, `devices` are per ResourceClaim."""

    version: ProfileVersion
    name: str
    devices: int


@dataclass(frozen=True, slots=True)
class ReducedClaim:
    """
    A claim with fewer devices. `differences` are sentences; with `problems` the other fields have no meaning.

    A claim that is reduced to one part has the spec of that profile alone.
    """

    spec: dict[str, Any]
    parts: tuple[RequestPart, ...]
    differences: tuple[str, ...]
    problems: tuple[str, ...]


def combined_parts(claim: Claim) -> list[CurrentPart]:
    """Return the profiles that a claim combines; empty for a single profile or alternatives."""
    return [part for part in current_parts(claim, ()) if part.alternative.together]


def reduce_parts(claim: Claim, counts: Mapping[str, int]) -> ReducedClaim:
    """
    Return `claim` with the typed number of devices in `counts` for each profile slug; 0 removes the profile.

    The versions stay those of the request.
    """
    current = combined_parts(claim)
    slugs = {part.alternative.profile_version.profile.slug for part in current}
    problems = [f"{claim} has no combined profile {slug}." for slug in counts if slug not in slugs]
    specs, differences = [], []
    for part in current:
        version = part.alternative.profile_version
        count = counts.get(version.profile.slug, part.typed)
        if problem := _count_problem(part, count):
            problems.append(problem)
        elif count:
            specs.append((version, spec_with_count(version, count)))
            if count != part.typed:
                differences.append(f"{version.profile}: {part.typed} → {counted(count, 'device')}")
        else:
            differences.append(f"without {version.profile}")
    if current and not specs and not problems:
        problems.append(f"No devices of {claim} would be left; deny it instead.")
    if problems or not specs:
        return ReducedClaim(claim.spec, (), (), tuple(problems))
    parts = tuple(
        RequestPart(
            version, next(iter(request_names(version.profile.slug, spec).values()), ""), quota.devices(spec)
        )
        for version, spec in specs
    )
    reduced = specs[0][1]
    if len(specs) > 1:
        reduced = combine_specs([(version.profile.slug, spec) for version, spec in specs])
    return ReducedClaim(reduced, parts, tuple(differences), ())


def _count_problem(part: CurrentPart, count: int) -> str:
    version = part.alternative.profile_version
    if not version.scalable and count not in (0, part.typed):
        return f"{version.profile} has a fixed number of devices: approve it in full or set 0, not {count}."
    if not 0 <= count <= part.typed:
        return f"{part.typed} × {version.profile} are requested; approve from 0 to {part.typed}, not {count}."
    return ""


@dataclass(frozen=True, slots=True)
class WantedChange:
    """
    The change that an approver wants; None keeps a field. `devices` is per claim.

    `parts` are for a claim of combined profiles: the slug of each profile that changes, with its number of
    devices as typed in the form; 0 removes the profile.
    """

    devices: int | None = None
    duration: timedelta | None = None
    profile: Profile | None = None
    parts: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class RequestChange:
    """
    A request after a change. `charge` is devices per class of all claims together; `differences` has a text
    for each changed field; `problems` say why the change is refused.
    """

    version: ProfileVersion
    spec: dict[str, Any]
    spec_hash: str
    devices: int
    duration: timedelta
    charge: dict[str, int]
    changes_spec: bool  # False if only the duration differs
    differences: tuple[str, ...]
    problems: tuple[str, ...]
    parts: tuple[RequestPart, ...] = ()  # the combined profiles that remain
    part_differences: tuple[str, ...] = ()


def plan_change(claim: Claim, wanted: WantedChange) -> RequestChange:
    """Return the request after the change; reads the claim's charges and alternatives, writes nothing."""
    duration = claim.duration if wanted.duration is None else wanted.duration
    devices = claim.devices if wanted.devices is None else wanted.devices
    is_other = wanted.profile is not None and wanted.profile.pk != claim.profile_version.profile_id
    other_profile = wanted.profile if is_other else None
    unchanged = RequestChange(
        claim.profile_version,
        claim.spec,
        claim.spec_hash,
        claim.devices,
        duration,
        {row.device_class: row.devices for row in claim.charges.all()},
        changes_spec=False,
        differences=(),
        problems=tuple(_limit_problems(claim, devices, duration)),
    )
    if wanted.parts and (other_profile is not None or wanted.devices is not None):
        problem = "Change either the profile or the number of devices per profile, not both."
        change = replace(unchanged, problems=(*unchanged.problems, problem))
    elif wanted.parts:
        change = _with_parts(claim, unchanged, dict(wanted.parts))
    elif other_profile is not None:
        change = _with_profile(claim, unchanged, other_profile, devices)
    elif devices != claim.devices:
        change = _with_count(claim, unchanged, devices)
    else:
        change = unchanged
    return replace(change, differences=tuple(_differences(claim, change)))


def _with_profile(claim: Claim, change: RequestChange, profile: Profile, devices: int) -> RequestChange:
    plan = plan_request(
        team=claim.team,
        cluster=claim.cluster,
        profile=profile,
        devices=devices,
        parallel=claim.parallel,
        delivery=claim.delivery,
        duration=change.duration,
    )
    problems = [*change.problems, *plan.problems]
    if plan.devices > claim.devices:
        problems.append(
            f"{profile} needs {counted(plan.devices, 'device')}; {claim} requests only {claim.devices}."
        )
    if not Profile.objects.open_to(claim.team).filter(pk=profile.pk).exists():
        problems.append(f"The profile {profile} is not open to {claim.team}.")
    return replace(
        change,
        version=plan.version,
        spec=plan.spec,
        spec_hash=plan.spec_hash,
        devices=plan.devices,
        charge=plan.charge,
        changes_spec=True,
        problems=tuple(problems),
    )


def _with_count(claim: Claim, change: RequestChange, devices: int) -> RequestChange:
    """Change the count of the requested version, which need not be the current one."""
    version = claim.profile_version
    if not version.scalable or claim.alternatives.exists():
        problem = f"The number of devices of {claim} is fixed."
        if combined_parts(claim):
            problem = f"{claim} combines profiles: set the number of devices per profile."
        return replace(change, problems=(*change.problems, problem))
    if devices < 1:
        return change
    return _with_spec(claim, change, with_count(version.spec, version.scalable, devices))


def _with_parts(claim: Claim, change: RequestChange, counts: Mapping[str, int]) -> RequestChange:
    reduced = reduce_parts(claim, counts)
    if reduced.problems or not reduced.differences:
        return replace(change, problems=(*change.problems, *reduced.problems))
    return replace(
        _with_spec(claim, change, reduced.spec),
        version=reduced.parts[0].version,
        parts=reduced.parts,
        part_differences=reduced.differences,
    )


def _with_spec(claim: Claim, change: RequestChange, spec: dict[str, Any]) -> RequestChange:
    return replace(
        change,
        spec=spec,
        spec_hash=spec_hash(spec),
        devices=quota.devices(spec),
        charge={name: count * claim.parallel for name, count in quota.charge(spec).items()},
        changes_spec=True,
    )


def _limit_problems(claim: Claim, devices: int, duration: timedelta) -> list[str]:
    problems = []
    if not 1 <= devices <= claim.devices:
        problems.append(
            f"{counted(claim.devices, 'device')} requested; approve from 1 to {claim.devices}, not {devices}."
        )
    if not timedelta(0) < duration <= claim.duration:
        problems.append(
            f"{in_words(claim.duration)} requested; approve at most that, not {in_words(duration)}."
        )
    return problems


def _differences(claim: Claim, change: RequestChange) -> list[str]:
    differences = []
    if change.version != claim.profile_version and not change.parts:
        differences.append(f"{claim.profile_version} → {change.version}")
    if change.parts:
        differences.extend(change.part_differences)
    elif change.devices != claim.devices:
        differences.append(f"{claim.devices} → {counted(change.devices, 'device')}")
    if change.duration != claim.duration:
        differences.append(f"{in_words(claim.duration)} → {in_words(change.duration)}")
    return differences


def additional_usage(claim: Claim, change: RequestChange) -> tuple[dict[str, int], dict[Profile, int]]:
    """Return the devices per class and per profile that the change needs beyond those already reserved."""
    reserved_classes = {row.device_class: row.devices for row in claim.charges.all()}
    classes = {name: count - reserved_classes.get(name, 0) for name, count in change.charge.items()}
    needed = {part.version.profile: part.devices for part in change.parts} or {
        change.version.profile: change.devices
    }
    reserved = {row.profile_version.profile_id: row.devices for row in claim.alternative_rows} or {
        claim.profile_version.profile_id: claim.devices * claim.parallel
    }
    profiles = {
        profile: count * claim.parallel - reserved.get(profile.pk, 0) for profile, count in needed.items()
    }
    return (
        {name: count for name, count in classes.items() if count > 0},
        {profile: count for profile, count in profiles.items() if count > 0} if change.changes_spec else {},
    )
