"""The preview of a request: matching devices, quota, approval, manifest and problems. It writes nothing."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Unpack

from claims.approvals import authority
from claims.approvals.authority import ApprovalRoute
from claims.catalogue.listing import DeviceKind, kinds_for, max_prices
from claims.catalogue.sharing import cautions
from claims.delivery.eviction import pods_after_end
from claims.models import Claim, Profile
from claims.plans.plan import (
    RequestFields,
    RequestPlan,
    permission_problems,
    plan_request,
    planned_manifest,
)
from claims.quotas import quota_usage
from claims.quotas.quota_usage import QuotaLine, QuotaUsage
from claims.requests.budget_check import BudgetLine, approval_sentence, lines_of_plan
from claims.requests.cluster_choice import could_fit, request_match
from claims.requests.services import carried_from, plan_quota_lines
from claims.requests.suggestions import Suggestion, suggestions_for
from dra import match
from dra.cluster_snapshot import ClusterSnapshot
from dra.manifests import spec_hash, to_yaml
from dra.objects import Json
from dra.relaxations import Relaxation, find_relaxations
from inventory.cluster_snapshot import current_snapshot
from teams.access import require_role
from teams.models import Role, User


@dataclass(frozen=True, slots=True)
class PricedOption:
    """
    One of several profiles for the price: the kinds of devices that match it, devices of all claims, and of
    an alternative whether it fits now, None for a combined profile.
    """

    profile: Profile
    kinds: frozenset[DeviceKind]
    devices: int
    fits: bool | None = None


@dataclass(frozen=True, slots=True)
class PlannedMatch:
    """A planned request and the devices that match it in the snapshot."""

    plan: RequestPlan
    match: match.Preview
    snapshot: ClusterSnapshot = field(repr=False)


@dataclass(frozen=True, slots=True)
class RequestPreview(PlannedMatch):
    """The state at this moment; devices and quota may be used up before the request is sent."""

    quota_lines: tuple[QuotaLine, ...]
    budget_lines: tuple[BudgetLine, ...]
    approval: ApprovalRoute
    manifest: str  # YAML
    kinds: frozenset[DeviceKind]  # of the matching devices, which determine the price
    parts: tuple[PricedOption, ...]  # of combined profiles and of alternatives, else empty
    problems: tuple[str, ...]
    help: tuple[Relaxation, ...] = ()  # only if it does not fit, or on demand
    is_help_by_price: bool = False  # whether of those that fit the cheapest comes first
    suggestions: tuple[Suggestion, ...] = ()  # likewise

    @property
    def could_fit(self) -> bool | None:
        """Whether it fits now, or would if no device of the cluster were held; None if it is unknown."""
        return could_fit(self.snapshot, self.plan.spec, max(self.plan.parallel, 1))

    @property
    def cautions(self) -> list[str]:
        """Requirements on the driver that the portal cannot check."""
        return [] if self.problems else cautions(self.plan.spec)

    @property
    def pods_after_end(self) -> str:
        """What happens to pods that still run at the end, as a clause."""
        return pods_after_end(self.plan.version.end_policy_in(self.plan.cluster))

    @property
    def fits_budget(self) -> bool:
        return all(line.fits for line in self.budget_lines)

    @property
    def fits_quota(self) -> bool:
        return all(line.fits for line in self.quota_lines)


def planned_match(*, by: User, **fields: Unpack[RequestFields]) -> PlannedMatch:
    """
    Return the plan of a request and its match.

    Raises Http404, PermissionDenied, and Conflict for a retired profile.
    """
    require_role(by, fields["team"], at_least=Role.MEMBER)
    plan = plan_request(**fields)
    snapshot = current_snapshot(plan.cluster, plan.mirrored)
    return PlannedMatch(plan, request_match(snapshot, plan.spec, max(plan.parallel, 1)), snapshot)


def preview(
    *, by: User, replaces: Claim | None = None, with_help: bool = False, **fields: Unpack[RequestFields]
) -> RequestPreview:
    """
    Return the preview of a request, with relaxations and suggestions if it does not fit or `with_help`.

    Raises as `planned_match`.
    """
    planned = planned_match(by=by, **fields)
    plan, funnel, snapshot = planned.plan, planned.match, planned.snapshot
    usages = quota_usage.team_usage([plan.team])
    lines = plan_quota_lines(usages, plan, carried_from(replaces, plan))
    budgets = lines_of_plan(plan, replaces=replaces)
    route = authority.approval_route(
        by=by,
        team=plan.team,
        requested=plan.devices_by_version,
        duration=plan.duration,
        together=plan.together,
        required=approval_sentence(budgets),
    )
    result = RequestPreview(
        plan=plan,
        match=funnel,
        quota_lines=tuple(lines),
        budget_lines=tuple(budgets),
        approval=route,
        manifest=to_yaml(planned_manifest(plan)),
        kinds=kinds_for(plan.cluster.pk, snapshot, plan.spec),
        parts=_priced_options(plan, snapshot) if len(plan.options) > 1 else (),
        problems=(*permission_problems(by, plan.spec), *plan.problems),
        snapshot=snapshot,
    )
    if funnel.fits and not with_help:
        return result
    claims = max(plan.parallel, 1)
    relaxations = snapshot.derived(
        ("relaxations", plan.spec_hash, claims),
        lambda: find_relaxations(snapshot, plan.spec, claims, funnel),
    )
    suggestions = _suggestions(plan, snapshot, usages)
    help_by_price = _cheapest_first(plan, snapshot, relaxations)
    return replace(
        result,
        help=tuple(help_by_price or relaxations),
        is_help_by_price=help_by_price is not None,
        suggestions=tuple(suggestions),
    )


def _cheapest_first(
    plan: RequestPlan, snapshot: ClusterSnapshot, relaxations: Sequence[Relaxation]
) -> list[Relaxation] | None:
    """
    Return those with which all claims fit now by the price per device, the others behind them as they are.

    None if fewer than two fit, or one of these has no price.
    """
    fitting = [relaxation for relaxation in relaxations if relaxation.fits]
    if len(fitting) < 2:
        return None
    prices = max_prices([_kinds_of(plan, snapshot, relaxation.spec) for relaxation in fitting])
    known = [price for price in prices if price is not None]
    if len(known) < len(fitting):
        return None
    order = sorted(range(len(fitting)), key=lambda place: known[place])
    return [*(fitting[place] for place in order), *relaxations[len(fitting) :]]


def _kinds_of(plan: RequestPlan, snapshot: ClusterSnapshot, spec: Json) -> frozenset[DeviceKind]:
    """Return the kinds of devices that match `spec`, computed once per snapshot."""
    key = ("kinds", spec_hash(spec))
    return snapshot.derived(key, lambda: kinds_for(plan.cluster.pk, snapshot, spec))


def _suggestions(
    plan: RequestPlan, snapshot: ClusterSnapshot, usages: Sequence[QuotaUsage]
) -> list[Suggestion]:
    """Return other profiles that fit now; none for combined profiles, which have no alternatives."""
    if plan.together:
        return []
    return suggestions_for(
        team=plan.team,
        cluster=plan.cluster,
        snapshot=snapshot,
        chosen=[option.profile for option in plan.options],
        devices=plan.options[0].typed,
        parallel=max(plan.parallel, 1),
        delivery=plan.delivery,
        usages=usages,
        satisfying=plan.options[0].spec,
    )


def _priced_options(plan: RequestPlan, snapshot: ClusterSnapshot) -> tuple[PricedOption, ...]:
    claims = max(plan.parallel, 1)
    return tuple(
        PricedOption(
            option.profile,
            kinds_for(plan.cluster.pk, snapshot, option.spec),
            option.devices * plan.parallel,
            None if plan.together else bool(match.preview(snapshot, option.spec, claims=claims).fits),
        )
        for option in plan.options
    )
