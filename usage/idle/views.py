"""The page of waste: idle claims with what they cost, snoozing one, and the policy."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import cache, partial
from typing import Any, NamedTuple
from uuid import UUID

from django import forms
from django.contrib import messages
from django.db.models import (
    Aggregate,
    Count,
    DecimalField,
    DurationField,
    ExpressionWrapper,
    F,
    Q,
    Sum,
    Value,
)
from django.db.models.expressions import Combinable
from django.db.models.functions import Extract
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.views.decorators.http import require_http_methods, require_POST, require_safe
from django_filters import FilterSet

from claims.access import may_request, reason_not_to_release
from claims.claim_filters import profile_filter, team_filter
from claims.claim_list.bulk import MAX_CLAIMS, selected_claims
from claims.inbox.views import reminded
from claims.models import Claim, Profile
from core.attempt import Attempt, posted, refusal_as_message
from core.errors import Conflict, Invalid
from core.inputs import DurationText, valid_ids
from core.listing import Column, Listing, sum_of_columns
from core.text import counted, percent
from core.times import moment, utc_moment
from inventory.models import FleetCount
from inventory.states import DeviceUse
from teams.access import is_platform_admin, reader_roles, require_admin, user_of
from teams.models import Role
from usage.cost import CURRENCY_UNIT, rounded
from usage.daily import DAY, stored_until, utc_day
from usage.idle import bulk, reminders, services
from usage.idle.bulk import WasteAction
from usage.idle.evidence import activity_by_hour
from usage.models import DailySum, IdlePeriod, IdlePeriodQuerySet, IdlePolicy, SizeCheck
from usage.overstay import overstaying
from usage.waste import Waste, amounts_text, waste_of

UNREAD = ("spec", "original_request", "reason", "decision_note", "profile_version__spec")

MONEY = DecimalField(max_digits=20, decimal_places=4)


def idle_cost_at(now: datetime) -> Combinable:
    """Return the expression of what a period has cost until `now`; NULL without a price."""
    span = ExpressionWrapper(Value(now) - F("since"), DurationField())
    seconds = ExpressionWrapper(Extract(span, "epoch"), MONEY)
    return ExpressionWrapper(F("per_hour") * seconds / Value(3600), MONEY)


class IdleFilter(FilterSet):
    team, profile = team_filter(), profile_filter(method="by_profile")

    class Meta:
        model = IdlePeriod
        fields: tuple[str, ...] = ()
        form = forms.Form

    def by_profile(self, rows: IdlePeriodQuerySet, name: str, value: Profile) -> IdlePeriodQuerySet:
        return rows.filter(claim__profile_version__profile=value)


def idle_cost(row: Any) -> Decimal | None:
    return None if row.idle_cost is None else Decimal(row.idle_cost).quantize(Decimal("0.01"))


COLUMNS: list[Column[Any]] = [
    Column("claim", "Claim", lambda row: row.claim.name, sort="claim__name", fixed=True),
    Column(
        "owner", "Owner", lambda row: row.claim.requested_by.username, sort="claim__requested_by__username"
    ),
    Column("team", "Team", lambda row: row.claim.team.slug, sort="claim__team__slug", shown=False),
    Column("profile", "Profile", lambda row: row.claim.slugs, shown=False),
    Column("activity", "Utilization, 48 h", lambda row: "", shown=True),
    Column("devices", "Devices", lambda row: row.devices, sort="devices", numeric=True, shown=False),
    Column("since", "Idle for", lambda row: row.since, sort="since"),
    Column("cost", "Idle cost", idle_cost, sort="idle_cost", numeric=True),
    Column("price", "Per hour", lambda row: row.per_hour, sort="per_hour", numeric=True, shown=False),
    Column("currency", "Currency", lambda row: row.currency, shown=False),
    Column("step", "Escalation", lambda row: step_of(row, timezone.now()).label, fixed=True),
]


@dataclass(frozen=True, slots=True)
class StepTaken:
    """
    The last step that was taken: its number of 0 to 3, in words, and `more` about it and the next one, with
    times as `core.times.local_times` reads them.
    """

    number: int
    label: str
    more: str


def step_of(period: IdlePeriod, now: datetime, policy: IdlePolicy | None = None) -> StepTaken:
    policy = policy or IdlePolicy()
    if period.snoozed_until is not None and period.snoozed_until > now:
        more = f"until {utc_moment(period.snoozed_until)}, {period.snoozes} of {policy.snoozes} used"
        return StepTaken(2, "Snoozed", more)
    if period.lead_notified_at is not None:
        return StepTaken(3, "Leads notified", utc_moment(period.lead_notified_at))
    if period.owner_notified_at is not None:
        more = utc_moment(period.owner_notified_at)
        if policy.notify_leads_after is not None:
            more = f"{more}; leads {utc_moment(period.since + policy.notify_leads_after)}"
        return StepTaken(1, "Owner notified", more)
    more = ""
    if policy.notify_owner_after is not None:
        more = f"owner {utc_moment(period.since + policy.notify_owner_after)}"
    return StepTaken(0, "Nobody notified yet", more)


class IdleMonth(NamedTuple):
    """What idle hours of a month (UTC) cost, their share, and the last day of it that is stored."""

    cost: str
    share: str
    last: date | None


def idle_in_month(teams: Iterable[UUID] | None, now: datetime) -> IdleMonth:
    """Return what idle hours of the stored days of the month cost `teams`; None: all teams."""
    first = utc_day(now).replace(day=1)
    until = stored_until() or first
    sums = DailySum.objects.filter(dimension=DailySum.Dimension.TEAM, day__gte=first, day__lt=until)
    if teams is not None:
        sums = sums.filter(key__in=list(teams))
    found = (
        sums.order_by("currency")
        .values_list("currency")
        .annotate(idle=Sum("amount_measured") - Sum("amount_used"), allocated=Sum("amount"))
    )
    priced = [(currency, idle, allocated) for currency, idle, allocated in found if currency]
    text = amounts_text((currency, rounded(int(idle), CURRENCY_UNIT)) for currency, idle, _all in priced)
    share = ""
    if len(priced) == 1 and priced[0][2]:
        share = f"{percent(priced[0][1] / priced[0][2])} of the cost of claims"
    return IdleMonth(text, share, until - DAY if until > first else None)


class Median(Aggregate):
    """The middle of the values, interpolated between two."""

    function = "PERCENTILE_CONT"
    template = "%(function)s(0.5) WITHIN GROUP (ORDER BY %(expressions)s)%(filter)s"
    output_field = DurationField()


class Freed(NamedTuple):
    """Of `ended` idle times with a notice, `freed` ended by a release, `after` the notice in the median."""

    freed: int
    ended: int
    after: timedelta | None


def freed_after_notice(rows: IdlePeriodQuerySet, now: datetime) -> Freed:
    """Return how the idle times with a notice ended that ended in this month (UTC)."""
    begin = now.astimezone(UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    ended = rows.filter(ended_at__gte=begin).exclude(owner_notified_at=None)
    after = ExpressionWrapper(F("ended_at") - F("owner_notified_at"), DurationField())
    was_freed = Q(was_freed=True)
    found = ended.aggregate(
        ended=Count("pk"), freed=Count("pk", filter=was_freed), after=Median(after, filter=was_freed)
    )
    return Freed(**found)


def unmeasured_devices() -> int:
    """Return how many held devices of the fleet have no telemetry."""
    uses = FleetCount.objects.order_by().values_list("uses", flat=True)
    return sum(row.get(DeviceUse.NO_TELEMETRY, 0) for row in uses)


def idle_listing(request: HttpRequest, now: datetime, policy: IdlePolicy) -> Listing[Any]:
    """Return the list with the filters, columns and order of the address."""
    user, roles = user_of(request), reader_roles(request)

    def prepare(rows: list[Any]) -> None:
        hours = activity_by_hour([row.claim_id for row in rows], now)
        for row in rows:
            role = Role.OWNER if user.is_superuser else roles.get(row.claim.team)
            row.spark, row.step = hours[row.claim_id], step_of(row, now, policy)
            row.may_act = not reason_not_to_release(user, row.claim, role)
            row.may_snooze = row.may_act and not services.reason_not_to_snooze(row, policy, now)
            row.may_remind = not reminders.reason_not_to_remind(user, row.claim)
            row.cost = idle_cost(row)

    idle = IdlePeriod.objects.visible_to(user).lasting().annotate(idle_cost=idle_cost_at(now))
    return Listing(
        request,
        idle.select_related("claim__team", "claim__requested_by", "claim__profile_version__profile").defer(
            *(f"claim__{name}" for name in UNREAD)
        ),
        columns=COLUMNS,
        title="Idle claims",
        filters=IdleFilter,
        search=("claim__name", "claim__requested_by__username"),
        sort="-cost",
        prepare=prepare,
    )


def sum_row(listing: Listing[Any], waste_of_all: Callable[[], Waste]) -> SafeString:
    """Draw the sum of all rows that match the filters, one query with filters; nothing for fewer than two."""
    if listing.total < 2:
        return SafeString("")
    found = waste_of_all()
    if listing.conditions:
        found = waste_of(listing.rows, "idle_cost", by="per_hour")
    cells: dict[str, str] = {
        "claim": f"{counted(found.claims, 'claim')}, {counted(found.devices, 'device')}",
        "cost": format_html('{}<span class="sub">{} / h</span>', found.amount, found.per_hour),
        "devices": str(found.devices),
        "price": found.per_hour,
        "step": f"{found.unpriced} without a rate" if found.unpriced else "",
    }
    return sum_of_columns(listing.columns, cells)


@require_safe
def waste(request: HttpRequest) -> HttpResponseBase:
    user, now, policy = user_of(request), timezone.now(), IdlePolicy.load()
    visible = IdlePeriod.objects.visible_to(user)
    idle = visible.lasting().annotate(idle_cost=idle_cost_at(now))
    roles, listing = reader_roles(request), idle_listing(request, now, policy)
    is_admin = is_platform_admin(user)

    @cache
    def waste_of_all() -> Waste:
        return waste_of(idle, "idle_cost", by="per_hour")

    context = {
        "waste": waste_of_all,
        "month": lambda: idle_in_month(None if is_admin else [team.pk for team in roles], now),
        # The report has the same teams.
        "reported": is_admin or (roles and all(role.rank >= Role.LEAD.rank for role in roles.values())),
        "freed": lambda: freed_after_notice(visible, now),
        "unmeasured": unmeasured_devices if is_admin else None,
        "policy": policy,
        "now": now,
        "may_change": is_admin,
        "may_act": is_admin or may_request(request),
        "actions": WasteAction.choices,
        "query": [(name, value) for name, values in request.GET.lists() for value in values],
        "oversized": SizeCheck.objects.visible_to(user).oversized().count,
        "overstays": overstaying(user, now).count,
        "listing_foot": lambda: sum_row(listing, waste_of_all),
        "empty_icon": "zzz",
        "empty_title": "No claim is idle",
        "empty_text": (
            "A claim is listed here when all its devices stayed below the idle limit of its profile, by "
            "default 10 % for 30 minutes."
        ),
    }
    return listing.respond("usage/waste.html", context)


class WasteBulkForm(forms.Form):
    action = forms.ChoiceField(choices=WasteAction.choices, label="Action")
    reason = forms.CharField(
        required=False, max_length=500, label="Reason", help_text="Shown in the history of each claim."
    )


@require_http_methods(["GET", "HEAD", "POST"])
def waste_bulk(request: HttpRequest) -> HttpResponse:
    """Preview an action on several idle claims on GET, run it on POST; each claim says what came of it."""
    user, now = user_of(request), timezone.now()
    data = request.POST if request.method == "POST" else request.GET
    try:
        claims = selected_claims(user, selected_idle(request, now))
    except Invalid as refusal:
        return render(request, "usage/waste_bulk.html", {"refusal": refusal}, status=refusal.status)
    form = WasteBulkForm(data)
    page: dict[str, Any] = {"form": form, "claims": claims}
    if not claims or not form.is_valid():
        status = 422 if request.method == "POST" or (claims and not form.is_valid()) else 200
        return render(request, "usage/waste_bulk.html", page, status=status)
    action = WasteAction(form.cleaned_data["action"])
    page |= {"action": action, "label": action.label}
    if request.method == "POST":
        results = bulk.run(user, claims, action, now=now, reason=form.cleaned_data["reason"])
        done = sum(not result.refusal for result in results)
        page |= {"results": results, "done": done}
        return render(request, "usage/waste_bulk.html", page, status=200 if done == len(results) else 409)
    page["preview"] = bulk.preview(user, claims, action, now=now)
    return render(request, "usage/waste_bulk.html", page)


def selected_idle(request: HttpRequest, now: datetime) -> list[UUID]:
    """Return the ids of the selected claims; with `all`, of every idle claim that matches the filters."""
    if request.method != "POST" and request.GET.get("all"):
        rows = idle_listing(request, now, IdlePolicy.load()).rows
        return list(rows.values_list("claim", flat=True)[: MAX_CLAIMS + 1])  # one more is enough to refuse
    data = request.POST if request.method == "POST" else request.GET
    return list(dict.fromkeys(valid_ids(data.getlist("claim"))))


@require_POST
def snooze(request: HttpRequest, claim_id: UUID) -> HttpResponse:
    claim = get_object_or_404(Claim.objects.visible_to(request.user), pk=claim_id)
    with refusal_as_message(request, of=Conflict):
        until = services.snooze(claim=claim, by=user_of(request), now=timezone.now())
        messages.success(request, f"{claim} is snoozed until {moment(until)}.")
    return redirect("usage:waste")


@require_POST
def remind(request: HttpRequest, claim_id: UUID) -> HttpResponse:
    """Remind the owner of a claim; htmx gets the words that take the place of the button."""
    claims = Claim.objects.visible_to(request.user).select_related("team", "requested_by")
    claim = get_object_or_404(claims, pk=claim_id)
    send = partial(reminders.remind_owner, claim=claim, by=user_of(request), now=timezone.now())
    return reminded(request, send, reverse("claims:detail", args=[claim.pk]))


class PolicyForm(forms.Form):
    notify_owner_after = DurationText(
        required=False, label="Notify the owner after", help_text="Idle time such as 2h. Empty: never."
    )
    snoozes = forms.IntegerField(min_value=0, max_value=services.MAX_SNOOZES, label="Snoozes per idle time")
    snooze_for = DurationText(label="A snooze lasts", help_text="Such as 24h.")
    notify_leads_after = DurationText(
        required=False, label="Notify the leads after", help_text="Idle time such as 24h. Empty: never."
    )
    release_after = DurationText(
        required=False,
        label="Release after",
        help_text="Idle time such as 72h, later than the notice to the leads. Empty: never.",
    )


@require_http_methods(["GET", "HEAD", "POST"])
def policy(request: HttpRequest) -> HttpResponse:
    """Show and change what is done about idle claims."""
    by = user_of(request)
    require_admin(by)
    current = IdlePolicy.load()
    initial = {name: getattr(current, name) for name in PolicyForm.base_fields}
    form = PolicyForm(posted(request), initial=initial)
    with Attempt(form) as attempt:
        if form.is_valid():
            services.change_policy(by=by, **form.cleaned_data)
            messages.success(request, "What is done about idle claims was saved.")
            return redirect("usage:waste")
    return render(request, "usage/idle_policy.html", {"form": form}, status=attempt.status)
