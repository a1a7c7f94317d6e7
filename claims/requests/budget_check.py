"""
What a request or an extension may cost until the end of each budget's period, and what is left for it.

Left is the limit less what is used and what the team's live claims may still cost: each counts at the highest
price of its devices until its end or that of the period, as the request itself does. An extension costs the
time after the present end. All of it is stored, or bounded by the live claims of one team. A price that is
not known counts as nothing, and the sentence says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import ROUND_CEILING, Decimal
from uuid import UUID

from django.utils import timezone
from django.utils.safestring import SafeString

from claims.approvals.rules import EffectiveRule
from claims.budgets.use import current_uses, day_words, hours_text, lock_budgets
from claims.catalogue.listing import DeviceKind, max_prices, stored_availability
from claims.models import Alternative, AtLimit, Budget, BudgetUse, Claim, Extension, Profile
from claims.plans.plan import RequestPlan
from claims.states import RUNNING, ClaimState
from core.errors import BudgetExceeded
from core.templatetags.ui import meter
from core.text import money

HOUR = timedelta(hours=1)
CENT = Decimal("0.01")
RESERVING = (ClaimState.REQUESTED, *RUNNING)
type Part = tuple[Profile, int]  # devices of all pods; of the profile only its ids are read


@dataclass(frozen=True, slots=True)
class HourlyCost:
    """The most that an hour may cost: money, None where a price is not known, and whole GPUs."""

    amount: Decimal | None
    gpus: Decimal


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a request or a live claim may hold, and until when; None is until the period ends."""

    cluster: UUID
    parts: tuple[Part, ...]
    together: bool
    until: datetime | None


def wanted_by(plan: RequestPlan, *, now: datetime) -> Wanted:
    parts = tuple((option.profile, option.devices * plan.parallel) for option in plan.options)
    return Wanted(plan.cluster.pk, parts, plan.together, now + plan.duration)


@dataclass(frozen=True, slots=True)
class LimitLine:
    """One limit of a budget with a request: money or GPU-hours. `cost` is None if it is not known."""

    limit: Decimal
    used: Decimal
    reserved: Decimal
    cost: Decimal | None
    currency: str  # "" for GPU-hours

    @property
    def left(self) -> Decimal:
        return self.limit - self.used - self.reserved

    @property
    def fits(self) -> bool:
        return self.left > 0 if self.cost is None else self.cost <= self.left

    def words(self, value: Decimal) -> str:
        return money(value, self.currency) if self.currency else hours_text(value)

    @property
    def before(self) -> str:
        return self.words(self.used + self.reserved)

    @property
    def after(self) -> str:
        return self.words(self.used + self.reserved + (self.cost or 0))

    @property
    def of(self) -> str:
        return self.words(self.limit)

    @property
    def parts(self) -> str:
        """Return what is before the request: "€1,500.00 used, €380.00 reserved for live claims"."""
        return f"{self.words(self.used)} used, {self.words(self.reserved)} reserved for live claims"

    @property
    def bar(self) -> SafeString:
        this = "this" if self.fits else "over"
        segments = {"held": self.used, "pend": self.reserved, this: self.cost or Decimal(0)}
        numbers = {name: float(value) for name, value in segments.items()}
        return meter(
            float(self.limit), label=f"{self.before} → {self.after} of {self.of}", size="tall", **numbers
        )


REQUEST, EXTENSION = "request", "extension"
LESS = {REQUEST: "Request fewer devices or a shorter time", EXTENSION: "Extend it by less"}
NEXT_STEP = {
    AtLimit.NOTIFY: "You can send it: at 100 %, leads and platform admins are notified.",
    AtLimit.APPROVAL: "It needs the approval of a lead.",
    AtLimit.RECLAIM: "You can send it: at 100 %, platform admins see its claims first if devices lack.",
    AtLimit.BLOCK: "{less}, or ask a platform admin to raise the budget.",
}


@dataclass(frozen=True, slots=True)
class BudgetLine:
    """What a request or an extension, which `subject` names, may do to one budget in its current period."""

    budget: Budget
    use: BudgetUse
    limits: tuple[LimitLine, ...]
    subject: str = REQUEST

    @property
    def label(self) -> str:
        return self.budget.title or f"{self.use.first:%B}"

    @property
    def fits(self) -> bool:
        return all(limit.fits for limit in self.limits)

    @property
    def blocks(self) -> bool:
        return not self.fits and self.budget.at_limit == AtLimit.BLOCK

    @property
    def needs_approval(self) -> bool:
        return not self.fits and self.budget.at_limit == AtLimit.APPROVAL

    @property
    def sentence(self) -> str:
        """Return what is left, what the request may cost, and the next step if it is more."""
        limit = next((limit for limit in self.limits if not limit.fits), self.limits[0])
        which = f" of “{self.budget.title}”" if self.budget.title else ""
        left = f"{limit.words(limit.left)} of {limit.of}{which} left"
        if limit.left <= 0:
            left = f"nothing left of {limit.of}{which}"
        have = f"{self.budget.team} has {left} until {day_words(self.use.last)}"
        if limit.cost is None:
            cost = (
                f"what this {self.subject} may cost is not known: a matching device has no rate in "
                f"{limit.currency}."
            )
        else:
            cost = f"this {self.subject} may cost {limit.words(limit.cost)}."
        if self.fits:
            return f"{have}; {cost}"
        step = NEXT_STEP[AtLimit(self.budget.at_limit)].format(less=LESS[self.subject])
        return f"{have}; {cost} {step}"


def budget_lines(
    uses: Sequence[BudgetUse], wanted: Wanted, *, without: Iterable[UUID] = (), now: datetime
) -> list[BudgetLine]:
    """
    Return what a request may do to each of these budgets, which are of one team; no query without budgets.

    The claims `without` reserve nothing: those that the request replaces, and the request itself.
    """
    return _lines_of_each(uses, [wanted], without, now=now)[0]


def _lines_of_each(
    uses: Sequence[BudgetUse], wanted: Sequence[Wanted], without: Iterable[UUID], *, now: datetime
) -> list[list[BudgetLine]]:
    """Return the lines of several requests, each as if the others were not there."""
    currencies = {use.budget.currency for use in uses}
    costs = {
        currency: _hourly_costs(uses[0].budget.team_id, wanted, set(without), currency, now=now)
        for currency in currencies
    }
    return [
        [_line(use, costs[use.budget.currency][index], _hours(one.until, now, use)) for use in uses]
        for index, one in enumerate(wanted)
    ]


class ExtensionBudgets:
    """
    What extensions of one running claim may do to these budgets of its team; everything is read once.

    The claim is a live one, so what it may cost until its present end is reserved; an extension costs the
    time after it. A budget whose period is over by then is not concerned.
    """

    def __init__(self, claim: Claim, uses: Sequence[BudgetUse]) -> None:
        self.claim = claim
        self.uses = uses
        self.now = timezone.now()
        self._costs: dict[str, HourlyCosts] = {}  # by currency

    def lines(self, until: datetime) -> list[BudgetLine]:
        """Return what an extension until then may do to the budgets; no query without budgets."""
        start = max(self.claim.expires_at or self.now, self.now)
        concerned = [use for use in self.uses if start < min(until, use.ends_at)]
        if not concerned:
            return []
        return [
            _line(use, self._costs_in(use.budget.currency), _hours(until, start, use), subject=EXTENSION)
            for use in concerned
        ]

    def _costs_in(self, currency: str) -> HourlyCosts:
        if currency not in self._costs:
            wanted = _wanted_by_claim(self.claim, until=None)
            (found,) = _hourly_costs(self.claim.team_id, [wanted], set(), currency, now=self.now)
            self._costs[currency] = found
        return self._costs[currency]


def require_budget(lines: Sequence[BudgetLine]) -> None:
    """Raise BudgetExceeded if a budget refuses the request or the extension."""
    if sentence := refusal_sentence(lines):
        raise BudgetExceeded(sentence)


def refusal_sentence(lines: Sequence[BudgetLine]) -> str:
    """Return why a budget refuses it, "" if none does."""
    return " ".join(line.sentence for line in lines if line.blocks)


def rule_with_budget(rule: EffectiveRule, lines: Sequence[BudgetLine]) -> EffectiveRule:
    """Return the rule for a request, with the approval that a budget asks for."""
    sentence = approval_sentence(lines)
    if not rule.automatic or not sentence:
        return rule
    return replace(rule, automatic=False, short_reason="over budget", sentence=sentence)


def approval_sentence(lines: Sequence[BudgetLine]) -> str:
    """Return why a budget asks for the approval of a person, "" if none does."""
    return " ".join(line.sentence for line in lines if line.needs_approval)


def lines_of_claim(claim: Claim) -> list[BudgetLine]:
    """Return what a pending request may do to the budgets of its team now; reads its alternatives."""
    now = timezone.now()
    wanted = _wanted_by_claim(claim, until=now + claim.duration)
    without = [pk for pk in (claim.pk, claim.replaces_id) if pk is not None]
    return budget_lines(current_uses(claim.team), wanted, without=without, now=now)


def extension_lines(extension: Extension) -> list[BudgetLine]:
    """Return what a pending extension may do to the budgets of its team now."""
    claim = extension.claim
    return ExtensionBudgets(claim, current_uses(claim.team)).lines(extension.until)


def _wanted_by_claim(claim: Claim, *, until: datetime | None) -> Wanted:
    rows = claim.alternative_rows
    parts = [(row.profile_version.profile, row.devices) for row in rows]
    own = [(claim.profile_version.profile, claim.devices * claim.parallel)]
    together = any(row.together for row in rows)
    return Wanted(claim.cluster_id, tuple(parts or own), together, until)


def lines_of_plan(
    plan: RequestPlan, *, replaces: Claim | None, uses: Sequence[BudgetUse] | None = None
) -> list[BudgetLine]:
    """Return what a planned request may do to the budgets of its team now, or to those of these `uses`."""
    return _of_plan(plan, current_uses(plan.team) if uses is None else uses, replaces)


def clusters_over_budget(
    plan: RequestPlan, lines: Sequence[BudgetLine], clusters: Iterable[UUID], *, replaces: Claim | None
) -> set[UUID]:
    """Return in which clusters, at their prices, a budget of the request's `lines` would refuse it."""
    now, uses = timezone.now(), [line.use for line in lines if line.budget.at_limit == AtLimit.BLOCK]
    there = [replace(wanted_by(plan, now=now), cluster=cluster) for cluster in clusters]
    found = _lines_of_each(uses, there, [replaces.pk] if replaces else [], now=now)
    return {one.cluster for one, of_one in zip(there, found, strict=True) if refusal_sentence(of_one)}


def lock_and_check(plan: RequestPlan, *, replaces: Claim | None) -> list[BudgetLine]:
    """
    Lock the budgets of the team and return what the request may do to them. Call it while the quotas are
    locked, right before the claim is created; of two requests at once the second counts the first.
    """
    return _of_plan(plan, lock_budgets(plan.team), replaces)


def _of_plan(plan: RequestPlan, uses: Sequence[BudgetUse], replaces: Claim | None) -> list[BudgetLine]:
    now = timezone.now()
    without = [replaces.pk] if replaces else []
    return budget_lines(uses, wanted_by(plan, now=now), without=without, now=now)


type HourlyCosts = tuple[HourlyCost, list[tuple[Wanted, HourlyCost]]]


def _hourly_costs(
    team: UUID, wanted: Sequence[Wanted], without: set[UUID], currency: str, *, now: datetime
) -> list[HourlyCosts]:
    """Return what an hour of each of `wanted` may cost, and of each live claim of the team; four queries."""
    live = _live_claims(team, without, now=now)
    prices = _Prices([*wanted, *live], currency)
    reserved = [(one, prices.hourly(one)) for one in live]
    return [(prices.hourly(one), reserved) for one in wanted]


def _line(use: BudgetUse, costs: HourlyCosts, mine: Decimal, *, subject: str = REQUEST) -> BudgetLine:
    """Return the line of a budget for `mine` hours at these costs, which are in its currency."""
    own, live = costs
    limits = []
    spans = [(_hours(one.until, use.as_of, use), cost) for one, cost in live]
    if use.amount is not None and use.used_amount is not None:
        reserved = sum(((cost.amount or Decimal(0)) * hours for hours, cost in spans), Decimal(0))
        cost = None if own.amount is None else _up(own.amount * mine)
        limits.append(LimitLine(use.amount, use.used_amount, _up(reserved), cost, use.budget.currency))
    if use.hours is not None:
        reserved = sum((cost.gpus * hours for hours, cost in spans), Decimal(0))
        limits.append(LimitLine(use.hours, use.used_hours, _up(reserved), _up(own.gpus * mine), ""))
    return BudgetLine(use.budget, use, tuple(limits), subject)


def _up(value: Decimal) -> Decimal:
    return value.quantize(CENT, ROUND_CEILING)


def _hours(until: datetime | None, start: datetime, use: BudgetUse) -> Decimal:
    """Return the hours from `start` until the end, or until the period ends."""
    end = use.ends_at if until is None else min(until, use.ends_at)
    return Decimal(max(end - start, timedelta(0)) / HOUR)


def _live_claims(team: UUID, without: set[UUID], *, now: datetime) -> list[Wanted]:
    """Return what the team's requests and running claims may hold; two queries."""
    rows = Claim.objects.filter(team=team, state__in=RESERVING).exclude(pk__in=without).order_by()
    columns = (
        *("pk", "cluster", "state", "devices", "parallel", "duration", "expires_at"),
        *("profile_version__profile", "profile_version__profile__current"),
    )
    claims = list(rows.values_list(*columns))
    several: dict[UUID, list[tuple[Part, bool]]] = {}
    alternatives = Alternative.objects.filter(claim__in=rows.values("pk")).order_by("position")
    profile = ("profile_version__profile", "profile_version__profile__current")
    for claim, devices, together, *ids in alternatives.values_list("claim", "devices", "together", *profile):
        several.setdefault(claim, []).append(((_profile(*ids), devices), together))
    wanted = []
    for pk, cluster, state, devices, parallel, duration, expires_at, *ids in claims:
        parts = several.get(pk) or [((_profile(*ids), devices * parallel), False)]
        until = now + duration if state == ClaimState.REQUESTED else expires_at
        together = any(is_together for _part, is_together in parts)
        wanted.append(Wanted(cluster, tuple(part for part, _together in parts), together, until))
    return wanted


def _profile(pk: UUID, current: UUID | None) -> Profile:
    return Profile(pk=pk, current_id=current)


class _Prices:
    """
    The highest price in a currency and size of a device of each profile in each cluster, as stored; two
    queries.
    """

    def __init__(self, wanted: Sequence[Wanted], currency: str) -> None:
        profiles = {profile.pk: profile for one in wanted for profile, _devices in one.parts}
        rows = stored_availability({one.cluster for one in wanted}, profiles.values())
        kinds: dict[tuple[UUID, UUID], frozenset[DeviceKind]] = {
            (row.computation_id, profile.pk): frozenset(
                DeviceKind.from_json(row.computation_id, stored) for stored in row.kinds
            )
            for profile in profiles.values()
            for row in rows[profile.current_id]
        }
        self._prices: Mapping[tuple[UUID, UUID], Decimal | None] = dict(
            zip(kinds, max_prices(list(kinds.values()), currency), strict=True)
        )
        self._sizes = {
            key: max(
                (Decimal(kind.fraction.numerator) / kind.fraction.denominator for kind in found), default=1
            )
            for key, found in kinds.items()
        }

    def hourly(self, wanted: Wanted) -> HourlyCost:
        """Return the most that an hour may cost; the dearest of alternatives, the sum of a combination."""
        keys = [((wanted.cluster, profile.pk), devices) for profile, devices in wanted.parts]
        prices = [(self._prices.get(key), devices) for key, devices in keys]
        gpus = [Decimal(self._sizes.get(key, 1)) * devices for key, devices in keys]
        amounts = [price * devices for price, devices in prices if price is not None]
        join = sum if wanted.together else max
        amount = Decimal(join(amounts)) if len(amounts) == len(prices) else None
        return HourlyCost(amount, Decimal(join(gpus)))
