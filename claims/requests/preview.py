"""
What a request would come to, while one types: what matches now, quota, who decides, the manifest, what is
wrong.
"""

from dataclasses import dataclass, field, replace
from typing import Unpack

from claims.approvals import authority
from claims.approvals.authority import Route
from claims.catalogue.listing import DeviceKind, kinds_for
from claims.catalogue.sharing import cautions
from claims.models import Claim, Profile
from claims.plans import plan
from claims.plans.plan import RequestFields, RequestPlan, plan_request, planned_manifest
from claims.quotas import usage
from claims.quotas.usage import QuotaLine
from claims.requests import replacement
from claims.requests.suggestions import Suggestion, suggestions_for
from dra import match
from dra.cluster_snapshot import ClusterSnapshot
from dra.help import Relaxation, find_relaxations
from dra.manifests import to_yaml
from inventory.cluster_snapshot import current_snapshot
from teams.access import require_role
from teams.models import Role, User


@dataclass(frozen=True, slots=True)
class PricedOption:
    """What of a request has a price of its own: a profile, kinds that match it, devices of all claims."""

    profile: Profile
    kinds: frozenset[DeviceKind]
    devices: int


@dataclass(frozen=True, slots=True)
class RequestPreview:
    """Nothing here is a promise: devices may go and quota may be taken before the request is sent."""

    wish: RequestPlan
    match: match.Preview
    quota_lines: tuple[QuotaLine, ...]
    approval: Route
    manifest: str  # YAML
    kinds: frozenset[DeviceKind]  # of the devices that match, which is what a price depends on
    parts: tuple[PricedOption, ...]  # of profiles together, else empty
    problems: tuple[str, ...]
    snapshot: ClusterSnapshot = field(repr=False)
    help: tuple[Relaxation, ...] = ()  # asked for only where it does not fit, or on demand
    offers: tuple[Suggestion, ...] = ()  # likewise

    @property
    def cautions(self) -> list[str]:
        """What the request needs of the driver that the portal cannot see."""
        return [] if self.problems else cautions(self.wish.spec)

    @property
    def fits_quota(self) -> bool:
        return all(line.fits for line in self.quota_lines)


def preview(
    *, by: User, replaces: Claim | None = None, with_help: bool = False, **fields: Unpack[RequestFields]
) -> RequestPreview:
    """
    Work a request out and write nothing; say what would help if it does not fit, or `with_help` anyway.

    Raises Http404, PermissionDenied, and Conflict for a retired profile.
    """
    require_role(by, fields["team"], at_least=Role.MEMBER)
    wish = plan_request(**fields)
    rows = usage.charged_quotas(team=wish.team, charge=wish.charge, profiles=wish.profiles)
    lines = replacement.lines_for(rows, wish, replacement.carried_to(wish, replaces))
    route = authority.route_for(
        by=by, team=wish.team, asked=wish.asked, duration=wish.duration, together=wish.together
    )
    snapshot = current_snapshot(wish.cluster)
    claims = max(wish.parallel, 1)
    found = match.preview(snapshot, wish.spec, claims=claims)
    seen = RequestPreview(
        wish=wish,
        match=found,
        quota_lines=tuple(lines),
        approval=route,
        manifest=to_yaml(planned_manifest(wish)),
        kinds=kinds_for(wish.cluster.pk, snapshot, wish.spec),
        parts=_parts(wish, snapshot) if wish.together else (),
        problems=(*plan.person_problems(by, wish.spec), *wish.problems),
        snapshot=snapshot,
    )
    if found.fits and not with_help:
        return seen
    helps = find_relaxations(snapshot, wish.spec, claims, found)
    return replace(seen, help=tuple(helps), offers=tuple(_offers(wish, snapshot)))


def _offers(wish: RequestPlan, snapshot: ClusterSnapshot) -> list[Suggestion]:
    """Return other profiles that fit; none beside profiles together, which have no alternatives."""
    if wish.together:
        return []
    return suggestions_for(
        team=wish.team,
        cluster=wish.cluster,
        snapshot=snapshot,
        chosen=[option.profile for option in wish.options],
        devices=wish.options[0].asked,
        parallel=max(wish.parallel, 1),
        delivery=wish.delivery,
    )


def _parts(wish: RequestPlan, snapshot: ClusterSnapshot) -> tuple[PricedOption, ...]:
    return tuple(
        PricedOption(
            option.profile,
            kinds_for(wish.cluster.pk, snapshot, option.spec),
            option.devices * wish.parallel,
        )
        for option in wish.options
    )
