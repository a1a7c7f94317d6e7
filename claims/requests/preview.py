"""The preview of a request: matching devices, quota, approval, manifest and problems. It writes nothing."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Unpack

from claims.approvals import authority
from claims.approvals.authority import ApprovalRoute
from claims.budgets.use import current_uses
from claims.catalogue.listing import DeviceKind, kinds_for, max_prices
from claims.catalogue.sharing import cautions
from claims.delivery.eviction import pods_after_end
from claims.models import AtLimit, BudgetUse, Claim, Profile
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
from claims.requests.verdict import Verdict, verdict_on
from dra import match
from dra.cluster_snapshot import ClusterSnapshot
from dra.manifests import spec_hash, to_yaml
from dra.objects import Json
from dra.relaxations import Relaxation, RelaxationKind, find_relaxations
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
    def verdict(self) -> Verdict:
        """Whether it would be accepted now, and what it would get."""
        return verdict_on(
            self.match,
            self.plan.cluster,
            quota=self.quota_lines,
            budgets=self.budget_lines,
            problems=self.problems,
            could_fit=None if self.match.fits else self.could_fit,
        )

    @property
    def could_fit(self) -> bool | None:
        """Whether it fits now, or would if no device of the cluster were held; None if it is unknown."""
        return could_fit(self.snapshot, self.plan.spec, max(self.plan.parallel, 1))

    @property
    def cautions(self) -> list[str]:
        """Requirements on the driver that the portal cannot check, and a Kubernetes newer than it knows."""
        newer = self.plan.cluster.newer_than_known
        return [] if self.problems else [*([newer] if newer else []), *cautions(self.plan.spec)]

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
    if result.verdict.fits and not with_help:
        return result
    claims = max(plan.parallel, 1)
    relaxations = snapshot.derived(
        ("relaxations", plan.spec_hash, claims),
        lambda: find_relaxations(snapshot, plan.spec, claims, funnel),
    )
    accepts = _Acceptance(by, replaces, fields, plan, usages)
    suggestions = [row for row in _suggestions(plan, snapshot, usages) if accepts.suggestion(row)]
    relaxations = [row for row in relaxations if row.kind != RelaxationKind.CLAIMS]
    help_by_price = _cheapest_first(plan, snapshot, relaxations)
    shown = [*_fewer_pods(accepts, funnel), *(help_by_price or relaxations)]
    if can_change_count(plan):
        fewer = _fewer(accepts, result, shown)
        shown = [*fewer, *(row for row in shown if row.kind != RelaxationKind.COUNT)]
    return replace(
        result,
        help=tuple(shown),
        is_help_by_price=help_by_price is not None,
        suggestions=tuple(suggestions),
    )


def can_change_count(plan: RequestPlan) -> bool:
    """Whether the field "Devices" sets the count of every request of the spec."""
    return len(plan.options) == 1 and bool(plan.version.scalable)


@dataclass(frozen=True)
class _Acceptance:
    """Whether a request that differs from a planned one in some fields would be accepted now."""

    by: User
    replaces: Claim | None
    fields: RequestFields
    plan: RequestPlan
    usages: Sequence[QuotaUsage]

    @cached_property
    def blocking(self) -> list[BudgetUse]:
        return [use for use in current_uses(self.plan.team) if use.budget.at_limit == AtLimit.BLOCK]

    def planned(self, **changed: Any) -> RequestPlan:
        return plan_request(**{**self.fields, **changed}, like=self.plan)

    def accepts(self, plan: RequestPlan) -> bool:
        if plan.problems or permission_problems(self.by, plan.spec):
            return False
        carried = carried_from(self.replaces, plan)
        for with_guarantees in (False, True):  # what needs no query first
            lines = plan_quota_lines(self.usages, plan, carried, with_guarantees=with_guarantees)
            if not all(line.fits for line in lines):
                return False
        budgets = lines_of_plan(plan, replaces=self.replaces, uses=self.blocking)
        return not any(line.blocks for line in budgets)

    def suggestion(self, row: Suggestion) -> bool:
        """Return whether "Use instead" would be accepted."""
        others = [profile for profile in self.fields.get("alternatives", ()) if profile != row.profile]
        plan = self.planned(profile=row.profile, devices=row.devices, alternatives=others)
        return self.accepts(plan)


def _fewer(
    acceptance: _Acceptance, result: RequestPreview, relaxations: Sequence[Relaxation]
) -> list[Relaxation]:
    """Return the largest smaller number of devices that fits now and would be accepted, if there is one."""
    plan = result.plan
    name, typed = str(plan.version.scalable), plan.options[0].typed
    count, most = Relaxation(RelaxationKind.COUNT, name, current=str(typed), fits=True), typed - 1
    if not result.match.fits:
        mine = [row for row in relaxations if (row.kind, row.request) == (RelaxationKind.COUNT, name)]
        found = [row for row in mine if row.fits]
        if not found:
            return []
        count, most = found[0], int(found[0].proposed)
    elif result.verdict.accepted:
        return []
    least = 0  # the largest that is known to be accepted
    while least < most:
        middle = (least + most + 1) // 2
        if acceptance.accepts(acceptance.planned(devices=middle)):
            least = middle
        else:
            most = middle - 1
    if not least:
        return []
    smaller = acceptance.planned(devices=least)
    fits = request_match(result.snapshot, smaller.spec, max(plan.parallel, 1)).fits
    return [replace(count, proposed=str(least), spec=smaller.spec)] if fits else []


def _fewer_pods(acceptance: _Acceptance, match: match.Preview) -> list[Relaxation]:
    """Return the largest smaller number of pods that fits now and would be accepted, if there is one."""
    plan = acceptance.plan
    least, most = 0, min(plan.parallel - 1, match.claims_that_fit or 0)
    while least < most:
        middle = (least + most + 1) // 2
        if acceptance.accepts(acceptance.planned(parallel=middle)):
            least = middle
        else:
            most = middle - 1
    current, proposed = str(plan.parallel), str(least)
    fewer = Relaxation(RelaxationKind.CLAIMS, current=current, proposed=proposed, fits=True, spec=plan.spec)
    return [fewer] if least else []


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
