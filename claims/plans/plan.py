"""What a request comes to: its profiles as one specification, checked, and the manifest that carries it."""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, NotRequired, TypedDict

from claims.models import Claim, Delivery, Profile, ProfileVersion, TeamNamespace
from cluster.kinds import RESOURCE_CLAIM, RESOURCE_CLAIM_TEMPLATE, Kind
from cluster.protocol import Manifest
from core.errors import Conflict, Forbidden, Invalid
from core.text import counted
from core.times import duration as in_words
from dra import manifests, quota, validation, workloads
from dra.canonical import spec_hash
from dra.fallback import CannotCombineError, alternative_name, combine_specs, first_available, request_names
from dra.manifests import with_count
from dra.objects import device_requests, requests
from dra.workloads import ClaimUse, WorkloadOptions, requests_of
from inventory.models import Cluster, DeviceClass, Namespace, ResourceClaim, ResourceClaimTemplate
from teams.access import is_platform_admin
from teams.models import Team, User

type ProfileCount = tuple[Profile, int]  # a profile, and devices as somebody typed them


@dataclass(frozen=True, slots=True)
class ProfileOption:
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
class CombinedSpec:
    """One spec of all profiles that are named; `problems` say why they cannot stand in one claim."""

    spec: dict[str, Any]
    options: tuple[ProfileOption, ...]
    problems: tuple[str, ...] = ()


def combine(
    first: ProfileCount, *, alternatives: Sequence[Profile] = (), further: Sequence[ProfileCount] = ()
) -> CombinedSpec:
    """
    Make one spec of a profile and either its `alternatives`, as many of each, or `further` profiles, each
    with its own number, which the claim takes as well.

    Where they cannot be combined the spec is that of the first. Raise Conflict for a profile that cannot be
    asked for at all.
    """
    named = [first, *((each, first[1]) for each in alternatives), *further]
    versions = [current_of(each) for each, _count in named]
    specs = [spec_with_count(version, count) for version, (_each, count) in zip(versions, named, strict=True)]
    spec, names, problems = specs[0], [""] * len(named), []
    try:
        if alternatives and further:
            raise CannotCombineError(
                "A request names either alternatives or further profiles; ask for the others apart."
            )
        parts = [(each.slug, one) for (each, _count), one in zip(named, specs, strict=True)]
        if alternatives:
            spec = first_available(parts)
            request = requests(spec)[0]["name"]
            names = [f"{request}/{alternative_name(slug)}" for slug, _one in parts]
        elif further:
            spec = combine_specs(parts)
            names = [next(iter(request_names(slug, one).values()), "") for slug, one in parts]
    except CannotCombineError as error:
        problems = [error.message]
    options = tuple(
        ProfileOption(each, version, name, asked=count, devices=quota.devices(one), spec=one)
        for (each, count), version, name, one in zip(named, versions, names, specs, strict=True)
    )
    return CombinedSpec(spec, options, tuple(problems))


def current_of(profile: Profile) -> ProfileVersion:
    """Return the version that a request gets. Raise Conflict for a profile that cannot be asked for."""
    if profile.retired_at is not None or profile.current is None:
        raise Conflict(f"The profile {profile} is retired and cannot be asked for.")
    return profile.current


def spec_with_count(version: ProfileVersion, devices: int) -> dict[str, Any]:
    """Return the spec of a version with its count filled in, where it has one that can be changed."""
    scalable = bool(version.scalable) and devices > 0
    return with_count(version.spec, version.scalable, devices) if scalable else version.spec


# Exactly so, with a small "true": the API server compares bytes.
LABEL, VALUE = "resource.kubernetes.io/admin-access", "true"


def has_admin_access(spec: Mapping[str, Any]) -> bool:
    return any(ask.admin for ask in device_requests(spec))


def person_problems(by: User, spec: Mapping[str, Any]) -> list[str]:
    """Return why `by` may not ask for `spec`, a well-formed ResourceClaim spec; nothing for most specs."""
    if not has_admin_access(spec) or is_platform_admin(by):
        return []
    return ["Only a platform admin may ask for admin access, which sees devices that others hold."]


def require_person(by: User, spec: Mapping[str, Any]) -> None:
    """Raise Forbidden for a spec with admin access and somebody who is no platform admin."""
    if problems := person_problems(by, spec):
        raise Forbidden(problems[0])


def place_problems(spec: Mapping[str, Any], cluster: Cluster, namespace: str) -> list[str]:
    """
    Return why the API server would refuse `spec` in this namespace, as far as its mirror knows.

    One query for a spec with admin access, none for others.
    """
    if not namespace or not has_admin_access(spec):
        return []
    labels = (
        Namespace.objects.filter(cluster=cluster, name=namespace, gone_at=None)
        .values_list("labels", flat=True)
        .first()
    )
    if (labels or {}).get(LABEL) == VALUE:
        return []
    return [
        f"Admin access needs a namespace with the label {LABEL}: “{VALUE}”, which {namespace} "
        f"of {cluster} does not have. An admin of the cluster sets it: kubectl label "
        f"namespace {namespace} {LABEL}={VALUE}"
    ]


DNS_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
MAX_PARALLEL = 1000  # keeps devices × parallel within the column; quota is the limit that people meet


@dataclass(frozen=True, slots=True)
class RequestPlan:
    """
    A request with everything worked out. `charge` is devices per class for all `parallel` claims together,
    of alternatives the worst. With `together` all of `options` are taken, else the first that fits.
    """

    team: Team
    cluster: Cluster
    namespace: str
    profile: Profile
    version: ProfileVersion
    name: str
    delivery: str
    parallel: int
    duration: timedelta
    spec: dict[str, Any]
    spec_hash: str
    devices: int  # per ResourceClaim, worst case
    charge: dict[str, int]
    options: tuple[ProfileOption, ...] = ()
    together: bool = False
    problems: list[str] = field(default_factory=list)

    @property
    def total(self) -> int:
        """Devices of all claims that may exist at once."""
        return self.devices * self.parallel

    @property
    def asked(self) -> list[tuple[ProfileVersion, int]]:
        """Versions of the profiles, each with the devices of all claims together."""
        return [(option.version, option.devices * self.parallel) for option in self.options]

    @property
    def profiles(self) -> dict[Profile, int]:
        """Devices per profile that are charged for all claims together."""
        return {option.profile: option.devices * self.parallel for option in self.options}


class RequestFields(TypedDict):
    """What a person chooses for a request; `plan_request` has the defaults."""

    team: Team
    cluster: Cluster
    profile: Profile
    devices: NotRequired[int]
    parallel: NotRequired[int]
    delivery: NotRequired[str]
    duration: NotRequired[timedelta | None]
    name: NotRequired[str]
    alternatives: NotRequired[Sequence[Profile]]
    together: NotRequired[Sequence[ProfileCount]]


def plan_request(
    *,
    team: Team,
    cluster: Cluster,
    profile: Profile,
    devices: int = 1,
    parallel: int = 1,
    delivery: str = Delivery.CLAIM,
    duration: timedelta | None = None,
    name: str = "",
    alternatives: Sequence[Profile] = (),
    together: Sequence[ProfileCount] = (),
) -> RequestPlan:
    """
    Work a request out; `alternatives` are tried in their order where `profile` does not fit, those in
    `together` are taken as well, each with a number of devices of its own.

    Raise Conflict for a profile that cannot be asked for at all.
    """
    made = combine((profile, devices), alternatives=alternatives, further=together)
    spec, version = made.spec, made.options[0].version
    namespace = (
        TeamNamespace.objects.filter(team=team, cluster=cluster).values_list("namespace", flat=True).first()
    )
    wish = RequestPlan(
        team=team,
        cluster=cluster,
        namespace=namespace or "",
        profile=profile,
        version=version,
        name=name or new_name(profile),
        delivery=delivery,
        parallel=parallel,
        duration=version.default_duration if duration is None else duration,
        spec=spec,
        spec_hash=spec_hash(spec),
        devices=quota.devices(spec),
        charge={name: count * max(parallel, 0) for name, count in quota.charge(spec).items()},
        options=made.options,
        together=bool(together),
    )
    wish.problems.extend(
        list(made.problems)
        + _place_problems(wish)
        + _admin_problems(wish)
        + _size_problems(wish)
        + _name_problems(wish, given=bool(name))
    )
    classes = DeviceClass.objects.filter(cluster=cluster, gone_at=None).values_list("name", flat=True)
    found = validation.problems(spec, set(classes) or None)  # None: the mirror knows of no classes yet
    wish.problems.extend(problem.message for problem in found)
    return wish


def require_valid(wish: RequestPlan) -> None:
    """Raise Invalid with every problem of the wish."""
    if wish.problems:
        raise Invalid(" ".join(wish.problems), problems=wish.problems)


def new_name(profile: Profile) -> str:
    """Return a free-looking DNS label that starts with the slug of the profile."""
    return f"{profile.slug.replace('_', '-').lower().strip('-')[:56]}-{secrets.token_hex(3)}"


def _place_problems(wish: RequestPlan) -> list[str]:
    if not wish.namespace:
        return [f"{wish.team} has no namespace in {wish.cluster}."]
    if not wish.cluster.enabled:
        return [f"{wish.cluster} is switched off in the portal."]
    if wish.cluster.read_only:
        return [f"The portal may only read {wish.cluster}; it cannot write claims there."]
    return []


def _admin_problems(wish: RequestPlan) -> list[str]:
    return place_problems(wish.spec, wish.cluster, wish.namespace)


def _size_problems(wish: RequestPlan) -> list[str]:
    typed = wish.options if wish.together else wish.options[:1]  # alternatives take the number of the first
    problems = ["At least 1 device must be asked for."] if any(one.asked < 1 for one in typed) else []
    problems += [
        f"A claim of {one.profile} is always for {counted(one.devices, 'device')}."
        for one in typed
        if one.asked >= 1 and not one.version.scalable and one.asked not in (1, one.devices)
    ]
    problems += [
        (
            f"{option.profile} allows {counted(option.version.max_devices, 'device')} per claim; "
            f"this request needs {option.devices}."
        )
        for option in wish.options
        if option.devices > option.version.max_devices
    ]
    return problems + _delivery_problems(wish) + _duration_problems(wish)


def _delivery_problems(wish: RequestPlan) -> list[str]:
    words = dict(Delivery.choices)
    problems = [
        (f"{option.profile} is not offered as {str(words.get(wish.delivery, wish.delivery)).lower()}.")
        for option in wish.options
        if wish.delivery not in option.version.deliveries
    ]
    if not 1 <= wish.parallel <= MAX_PARALLEL:
        problems.append(
            f"The number of claims at once must be from 1 to {MAX_PARALLEL}; it is {wish.parallel}."
        )
    elif wish.delivery == Delivery.CLAIM and wish.parallel != 1:
        problems.append("A named claim is one claim; only a template can make several at once.")
    return problems


def _duration_problems(wish: RequestPlan) -> list[str]:
    if wish.duration <= timedelta(0):
        return ["The duration must be longer than nothing."]
    return [
        (
            f"{option.profile} allows {in_words(option.version.max_duration)} at most; this "
            f"request is for {in_words(wish.duration)}."
        )
        for option in wish.options
        if wish.duration > option.version.max_duration
    ]


def _name_problems(wish: RequestPlan, *, given: bool) -> list[str]:
    if not given:
        return []
    if not DNS_LABEL.fullmatch(wish.name):
        return [
            f"“{wish.name}” is not a name that Kubernetes takes: up to 63 lower-case letters, "
            "digits and hyphens, with a letter or digit at both ends."
        ]
    where = {"cluster": wish.cluster, "namespace": wish.namespace, "name": wish.name}
    mirrored = ResourceClaimTemplate if wish.delivery == Delivery.TEMPLATE else ResourceClaim
    taken = (
        Claim.objects.live().filter(**where).exists()
        or mirrored.objects.filter(**where, gone_at=None).exists()
    )
    return [f"The name {wish.name} is taken in {wish.namespace} of {wish.cluster}."] if taken else []


CLAIM_LABEL = "gpu.dragoman.dev/claim"
TEAM_LABEL = "gpu.dragoman.dev/team"
PROFILE_LABEL = "gpu.dragoman.dev/profile"

MANIFESTS = {
    Delivery.CLAIM.value: manifests.resource_claim,
    Delivery.TEMPLATE.value: manifests.resource_claim_template,
}


def delivery_kind(delivery: str) -> Kind:
    return RESOURCE_CLAIM_TEMPLATE if delivery == Delivery.TEMPLATE else RESOURCE_CLAIM


def claim_manifest(claim: Claim) -> Manifest:
    """Return the ResourceClaim or ResourceClaimTemplate that delivers `claim`."""
    return MANIFESTS[claim.delivery](claim.name, claim.namespace, claim.spec, _labels(claim))


def label_patch(claim: Claim) -> Manifest:
    """Return what is applied to an object that is there already: its identity and the portal's labels."""
    identity = {"name": claim.name, "namespace": claim.namespace, "uid": claim.object_uid}
    return {"metadata": {**identity, "labels": _labels(claim)}}


def _labels(claim: Claim) -> dict[str, str]:
    return {
        CLAIM_LABEL: str(claim.pk),
        TEAM_LABEL: claim.team.slug,
        PROFILE_LABEL: claim.profile_version.profile.slug,
    }


def planned_manifest(wish: RequestPlan) -> Manifest:
    """Return what would be written; the id of the claim is not known yet, so its label is left out."""
    named = {TEAM_LABEL: wish.team.slug, PROFILE_LABEL: wish.profile.slug}
    return MANIFESTS[wish.delivery](wish.name, wish.namespace, wish.spec, named)


def claim_use(claim: Claim, *, vendor: str = "") -> ClaimUse:
    """Return the claim as workloads use it; `vendor` is that of the devices that match."""
    return ClaimUse(
        name=claim.name,
        namespace=claim.namespace,
        template=claim.delivery == Delivery.TEMPLATE,
        parallel=claim.parallel,
        requests=requests_of(claim.spec),
        vendor=vendor,
    )


def example_pod(claim: Claim) -> Manifest:
    """Return a pod that uses the claim and shows what it got."""
    (made,) = workloads.pod(claim_use(claim), WorkloadOptions())
    return made


def owner_id(manifest: Manifest) -> str:
    """Return the id of the portal's claim that an object says it belongs to, "" for a foreign one."""
    return str((manifest["metadata"].get("labels") or {}).get(CLAIM_LABEL, ""))
