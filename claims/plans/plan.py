"""The request plan: the profiles of a request as one checked spec, and the manifest that delivers it."""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, NotRequired, TypedDict
from uuid import UUID

from django.contrib.postgres.expressions import ArraySubquery
from django.db.models import OuterRef, QuerySet, Subquery

from claims.models import Claim, Delivery, Profile, ProfileVersion, TeamNamespace
from cluster.protocol import RESOURCE_CLAIM, RESOURCE_CLAIM_TEMPLATE, Kind, Manifest
from core.errors import Conflict, Forbidden, Invalid
from core.prepared import Prepared
from core.text import counted
from core.times import duration as in_words
from dra import manifests, quota, validation, workloads
from dra.combination import (
    CannotCombineError,
    alternative_name,
    combine_specs,
    first_available,
    request_names,
)
from dra.manifests import spec_hash, with_count
from dra.objects import device_requests, requests
from dra.placement import Placement
from dra.workload_parts import (
    ClaimUse,
    WorkloadOptions,
    is_partial,
    is_separate,
    limits_each_process,
    memory_part,
    request_counts,
)
from inventory.models import Cluster, DeviceClass, Namespace, ResourceClaim, ResourceClaimTemplate
from teams.access import is_platform_admin
from teams.models import Team, User

type ProfileCount = tuple[Profile, int]  # a profile and the number of devices that was typed for it


@dataclass(frozen=True, slots=True)
class ProfileOption:
    """
    One profile of a request.

    `name` is the name of its device request: "gpu/train-80" for an alternative, "train-80" for a combined
    profile, "" for a single one. `typed` is the number in the form and `devices` the number of devices that
    results; both are per ResourceClaim.
    """

    profile: Profile
    version: ProfileVersion
    name: str
    typed: int
    devices: int
    spec: dict[str, Any] = field(repr=False)


@dataclass(frozen=True, slots=True)
class CombinedSpec:
    """One spec for all profiles of a request; `problems` say why they cannot be combined in one claim."""

    spec: dict[str, Any]
    options: tuple[ProfileOption, ...]
    problems: tuple[str, ...] = ()


def combine(
    first: ProfileCount, *, alternatives: Sequence[Profile] = (), further: Sequence[ProfileCount] = ()
) -> CombinedSpec:
    """
    Build one spec from a profile and either its `alternatives`, with the same number of devices, or
    `further` profiles in the same claim, each with its own number.

    If they cannot be combined, the spec is that of the first. Raise Conflict for a retired profile.
    """
    counts = [first, *((profile, first[1]) for profile in alternatives), *further]
    versions = [current_version(profile) for profile, _count in counts]
    specs = [spec_with_count(version, count) for version, (_, count) in zip(versions, counts, strict=True)]
    spec, names, problems = specs[0], [""] * len(counts), []
    try:
        if alternatives and further:
            raise CannotCombineError(
                "A request has either alternatives or further profiles. Send a separate request for the rest."
            )
        parts = [(profile.slug, part) for (profile, _count), part in zip(counts, specs, strict=True)]
        if alternatives:
            spec = first_available(parts)
            request = requests(spec)[0]["name"]
            names = [f"{request}/{alternative_name(slug)}" for slug, _part in parts]
        elif further:
            spec = combine_specs(parts)
            names = [next(iter(request_names(slug, part).values()), "") for slug, part in parts]
    except CannotCombineError as error:
        problems = [error.message]
    options = tuple(
        ProfileOption(profile, version, name, typed=count, devices=quota.devices(part), spec=part)
        for (profile, count), version, name, part in zip(counts, versions, names, specs, strict=True)
    )
    return CombinedSpec(spec, options, tuple(problems))


def current_version(profile: Profile) -> ProfileVersion:
    """Return the version that a new request gets. Raise Conflict for a retired profile."""
    if profile.retired_at is not None or profile.current is None:
        raise Conflict(f"The profile {profile} is retired and cannot be requested.")
    profile.current.profile = profile  # its sentences name it
    return profile.current


def spec_with_count(version: ProfileVersion, devices: int) -> dict[str, Any]:
    """Return the spec of a version, with `devices` as the count of its scalable request if it has one."""
    scalable = bool(version.scalable) and devices > 0
    return with_count(version.spec, version.scalable, devices) if scalable else version.spec


# The value is exactly "true": the API server compares bytes.
ADMIN_ACCESS_LABEL, ADMIN_ACCESS_VALUE = "resource.kubernetes.io/admin-access", "true"


def has_admin_access(spec: Mapping[str, Any]) -> bool:
    return any(request.admin for request in device_requests(spec))


def permission_problems(by: User, spec: Mapping[str, Any]) -> list[str]:
    """Return why `by` may not request the well-formed ResourceClaim `spec`; empty if they may."""
    if not has_admin_access(spec) or is_platform_admin(by):
        return []
    return ["Only a platform admin may request admin access, which includes devices that others hold."]


def require_permission(by: User, spec: Mapping[str, Any]) -> None:
    """Raise Forbidden for a spec with admin access, unless `by` is a platform admin."""
    if problems := permission_problems(by, spec):
        raise Forbidden(problems[0])


def namespace_problems(spec: Mapping[str, Any], cluster: Cluster, namespace: str) -> list[str]:
    """
    Return why the API server would refuse `spec` in this namespace, according to the mirror.

    One query for a spec with admin access, none for others.
    """
    if not namespace or not has_admin_access(spec):
        return []
    labels = (
        Namespace.objects.filter(cluster=cluster, name=namespace, gone_at=None)
        .values_list("labels", flat=True)
        .first()
    )
    if (labels or {}).get(ADMIN_ACCESS_LABEL) == ADMIN_ACCESS_VALUE:
        return []
    return [
        f"Admin access needs a namespace with the label {ADMIN_ACCESS_LABEL}: “{ADMIN_ACCESS_VALUE}”, which "
        f"{namespace} of {cluster} does not have. A cluster admin can set it: kubectl label "
        f"namespace {namespace} {ADMIN_ACCESS_LABEL}={ADMIN_ACCESS_VALUE}"
    ]


DNS_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
MAX_PARALLEL = 1000  # keeps devices × parallel within the column; in practice quota is the limit


@dataclass(frozen=True, slots=True)
class RequestPlan:
    """
    The result of planning a request.

    `charge` is devices per class for all `parallel` claims together, for alternatives the worst case. With
    `together` all of `options` are taken, else the first that fits.
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
    mirrored: tuple[int, str] | None = None  # revision and version of the cluster, when the plan was made
    problems: list[str] = field(default_factory=list)

    @property
    def total_devices(self) -> int:
        """Devices of all claims that may exist at once."""
        return self.devices * self.parallel

    @property
    def devices_by_version(self) -> list[tuple[ProfileVersion, int]]:
        """The profile versions, each with the devices of all claims together."""
        return [(option.version, option.devices * self.parallel) for option in self.options]

    @property
    def devices_by_profile(self) -> dict[Profile, int]:
        """Devices that are charged per profile, for all claims together."""
        return {option.profile: option.devices * self.parallel for option in self.options}


class RequestFields(TypedDict):
    """The fields of a request; `plan_request` has the defaults."""

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
    like: RequestPlan | None = None,
) -> RequestPlan:
    """
    Return the plan of a request with all its problems.

    `alternatives` are tried in their order if `profile` does not fit; the profiles in `together` are taken
    as well, each with its own number of devices. `duration` None is the default of the profile; without a
    `name` one is generated. What `like` knows of the same team, cluster and name is not read again. Raise
    Conflict for a retired profile.
    """
    combined = combine((profile, devices), alternatives=alternatives, further=together)
    spec, version = combined.spec, combined.options[0].version
    if like is not None:
        place: tuple[Any, ...] = (like.namespace, (), *(like.mirrored or (0, "")))
    else:
        (place,) = PLACE.rows(team.pk, cluster.pk)
    namespace, classes, revision, version_of_cluster = place
    plan = RequestPlan(
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
        options=combined.options,
        together=bool(together),
        mirrored=(revision, version_of_cluster),
    )
    plan.problems.extend(
        list(combined.problems)
        + _cluster_problems(plan)
        + namespace_problems(plan.spec, plan.cluster, plan.namespace)
        + _size_problems(plan)
        + _name_problems(plan, given=bool(name) and like is None)
    )
    spec_problems = validation.problems(spec, set(classes) or None)  # None: no classes in the mirror yet
    plan.problems.extend(problem.message for problem in spec_problems)
    if _above_limit(plan):  # of the profile, so the higher limit of Kubernetes misleads
        plan.problems[:] = [problem for problem in plan.problems if "the limit per claim is" not in problem]
    return plan


def _place(team: UUID, cluster: UUID) -> QuerySet[Cluster, Any]:
    """
    Return the namespace of the team in the cluster, null without one, and the classes of the cluster, its
    revision and its version.
    """
    namespace = TeamNamespace.objects.filter(team=team, cluster=OuterRef("pk")).values("namespace")
    classes = DeviceClass.objects.filter(cluster=OuterRef("pk"), gone_at=None).order_by().values("name")
    columns = (Subquery(namespace), ArraySubquery(classes), "revision", "version")
    return Cluster.objects.filter(pk=cluster).order_by().values_list(*columns)


PLACE = Prepared(_place, UUID, UUID)


def require_valid(plan: RequestPlan) -> None:
    """Raise Invalid with every problem of the plan."""
    if plan.problems:
        raise Invalid(" ".join(plan.problems), problems=plan.problems)


def new_name(profile: Profile) -> str:
    """Return a random DNS label that starts with the slug of the profile."""
    return f"{profile.slug.replace('_', '-').lower().strip('-')[:56]}-{secrets.token_hex(3)}"


def _cluster_problems(plan: RequestPlan) -> list[str]:
    if not plan.namespace:
        return [f"{plan.team} has no namespace in {plan.cluster}."]
    if not plan.cluster.enabled:
        return [f"{plan.cluster} is disabled in the portal."]
    if plan.cluster.read_only:
        return [f"{plan.cluster} is read-only for the portal; it cannot create claims there."]
    return []


def _above_limit(plan: RequestPlan) -> list[ProfileOption]:
    return [option for option in plan.options if option.devices > option.version.max_devices]


def _size_problems(plan: RequestPlan) -> list[str]:
    counted_options = plan.options if plan.together else plan.options[:1]  # alternatives share one number
    problems = ["Request at least 1 device."] if any(option.typed < 1 for option in counted_options) else []
    problems += [
        f"{option.profile} always has {counted(option.devices, 'device')} per claim."
        for option in counted_options
        if option.typed >= 1 and not option.version.scalable and option.typed not in (1, option.devices)
    ]
    problems += [
        (
            f"{option.profile} allows {counted(option.version.max_devices, 'device')} per claim; "
            f"this request needs {option.devices}."
        )
        for option in _above_limit(plan)
    ]
    return problems + _delivery_problems(plan) + _duration_problems(plan)


def _delivery_problems(plan: RequestPlan) -> list[str]:
    label = str(dict(Delivery.choices).get(plan.delivery, plan.delivery)).lower()
    problems = [
        f"{option.profile} is not available as a {label}."
        for option in plan.options
        if plan.delivery not in option.version.deliveries
    ]
    if not 1 <= plan.parallel <= MAX_PARALLEL:
        problems.append(f"Concurrent pods must be from 1 to {MAX_PARALLEL}, not {plan.parallel}.")
    elif plan.delivery == Delivery.CLAIM and plan.parallel != 1:
        problems.append("Concurrent pods apply to a template only; a named claim is one claim.")
    return problems


def _duration_problems(plan: RequestPlan) -> list[str]:
    if plan.duration <= timedelta(0):
        return ["The duration must be longer than 0."]
    return [
        (
            f"{option.profile} allows at most {in_words(option.version.max_duration)}; this "
            f"request is for {in_words(plan.duration)}."
        )
        for option in plan.options
        if plan.duration > option.version.max_duration
    ]


def _name_problems(plan: RequestPlan, *, given: bool) -> list[str]:
    if not given:
        return []
    if not DNS_LABEL.fullmatch(plan.name):
        return [
            f"“{plan.name}” is not a valid Kubernetes name: use up to 63 lower-case letters, "
            "digits and hyphens, with a letter or digit at both ends."
        ]
    place = {"cluster": plan.cluster, "namespace": plan.namespace, "name": plan.name}
    mirror_model = ResourceClaimTemplate if plan.delivery == Delivery.TEMPLATE else ResourceClaim
    in_use = (
        Claim.objects.live().filter(**place).exists()
        or mirror_model.objects.filter(**place, gone_at=None).exists()
    )
    return [f"The name {plan.name} is already used in {plan.namespace} of {plan.cluster}."] if in_use else []


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
    """Return the patch that sets the portal's labels on an existing object."""
    identity = {"name": claim.name, "namespace": claim.namespace, "uid": claim.object_uid}
    return {"metadata": {**identity, "labels": _labels(claim)}}


def _labels(claim: Claim) -> dict[str, str]:
    return {
        CLAIM_LABEL: str(claim.pk),
        TEAM_LABEL: claim.team.slug,
        PROFILE_LABEL: claim.profile_version.profile.slug,
    }


def planned_manifest(plan: RequestPlan) -> Manifest:
    """Return the manifest of a planned request, without the label of the claim, whose id is not known yet."""
    labels = {TEAM_LABEL: plan.team.slug, PROFILE_LABEL: plan.profile.slug}
    return MANIFESTS[plan.delivery](plan.name, plan.namespace, plan.spec, labels)


def claim_use(claim: Claim, placement: Placement | None = None) -> ClaimUse:
    """Return the claim as workloads use it; `placement` has the matching devices."""
    return ClaimUse(
        name=claim.name,
        namespace=claim.namespace,
        template=claim.delivery == Delivery.TEMPLATE,
        parallel=claim.parallel,
        requests=request_counts(claim.spec),
        vendor=placement.vendor if placement else "",
        claim_id=str(claim.pk),
        separate=is_separate(claim.spec),
        partial=is_partial(claim.spec),
        memory_part=memory_part(claim.spec, placement.memory if placement else 0),
        each_process=limits_each_process(claim.spec),
    )


def example_pod(claim: Claim) -> Manifest:
    """Return a pod that uses the claim and lists its devices."""
    (pod,) = workloads.pod(claim_use(claim), WorkloadOptions())
    return pod


def owner_id(manifest: Manifest) -> str:
    """Return the id of the claim in the labels of an object, "" for an unmanaged object."""

    return str((manifest["metadata"].get("labels") or {}).get(CLAIM_LABEL, ""))
