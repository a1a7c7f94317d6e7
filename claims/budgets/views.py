"""Pages of budgets: the list of platform admins, one budget for everybody in its team, and their changes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from functools import partial
from typing import Any
from uuid import UUID, uuid4

from django.contrib import messages
from django.contrib.postgres.aggregates import ArrayAgg
from django.db.models import Count, F, Q, QuerySet, Sum
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.utils.safestring import SafeString
from django.views.decorators.http import require_http_methods, require_safe

from claims.budgets.cards import card_of
from claims.budgets.effect import AT_LIMIT, effect_of, effect_of_ending
from claims.budgets.extra import request_extra
from claims.budgets.forms import BudgetFilter, BudgetForm, ExtraForm
from claims.budgets.services import TERMS, change_budget, end_budget, extra_words, require_terms, set_budget
from claims.budgets.use import DAY, ENDED, month_end, past_month, past_month_asked_for, period_words, utc_day
from claims.models import AtLimit, Budget, QuotaRequest, RequestStatus
from core.attempt import Attempt, posted
from core.listing import Column, Listing, csv_response, wants_csv
from core.markup import joined, markup
from core.templatetags.ui import meter
from core.text import DASH, money, percent
from teams.access import is_platform_admin, require_admin, require_role, role_in, user_of
from teams.models import Role, Team, recorded_changes
from teams.sessions import installation_for

COLUMNS: list[Column[Budget]] = [
    Column("team", "Team", lambda row: row.team.slug, sort=("team__slug", "title"), fixed=True),
    Column("budget", "Budget", lambda row: row.title or "monthly", sort="title", shown=False),
    Column("period", "Period", period_words, shown=False, sort="first"),
    Column("currency", "Currency", lambda row: row.currency, shown=False),
    Column("amount", "Amount", lambda row: row.use.amount, sort="use__amount", numeric=True),
    Column("hours", "GPU-hours", lambda row: row.use.hours, sort="use__hours", numeric=True, shown=False),
    Column("used", "Used", lambda row: row.use.used_amount, sort="use__used_amount", numeric=True),
    Column(
        "used_hours",
        "GPU-hours used",
        lambda row: row.use.used_hours,
        sort="use__used_hours",
        numeric=True,
        shown=False,
    ),
    Column("share", "Share used", lambda row: round(row.use.share, 4), sort="use__share"),
    Column("forecast", "Forecast", lambda row: row.use.forecast_amount, sort="use__forecast", numeric=True),
    Column("rate", "Run rate, 7 d", lambda row: row.use.amount_rate, sort="use__amount_rate", numeric=True),
    Column(
        "runs_out",
        "Runs out",
        lambda row: row.use.runs_out_at and row.use.runs_out_at.isoformat(),
        sort="use__runs_out_at",
    ),
    Column("at_limit", "At 100 %", lambda row: row.get_at_limit_display(), sort="at_limit"),
    Column("set", "Set", lambda row: row.set_at.isoformat(), sort="set_at", shown=False),
]
CHANGES = 20  # shown of a budget
MOST_WAITING = 100  # requests for extra budget that are counted


@require_safe
def budgets(request: HttpRequest) -> HttpResponseBase:
    """
    Every open budget, by default the one that is used most first; `?state=ended` has those that ended, and
    `?month=2026-10` the monthly ones as they were in a past month.
    """
    require_admin(user_of(request))
    now = timezone.now()
    if month := past_month_asked_for(request.GET.get("month", ""), now):
        return budgets_of_month(request, month, now)
    is_ended = request.GET.get("state") == ENDED.key
    rows = Budget.objects.filter(ended_at__isnull=not is_ended)
    listing = Listing(
        request,
        rows.select_related("team", "use"),
        columns=COLUMNS,
        title="Budgets",
        filters=BudgetFilter,
        search=("team__slug", "team__title", "title"),
        sort="-share",
        prepare=partial(prepare, now=now),
    )
    totals, waiting = month_totals(installation_for(request).currency, now=now), waiting_requests()
    chosen = chosen_of(listing.page.object_list, request.GET.get("budget", ""))
    page = {
        "now": now,
        "month": utc_day(now).replace(day=1),
        "earlier": month_before(utc_day(now)),
        "totals": totals,
        "listing_foot": "" if is_ended else sum_row(totals, listing.columns),
        "waiting": waiting,
        "chosen": chosen,
        "pending": next((one for one in waiting if chosen and one[0].budget_id == chosen.pk), None),
        "effect": AT_LIMIT[AtLimit(chosen.at_limit)] if chosen else "",
        "empty_icon": "target",
        "empty_title": "No budgets yet",
        "empty_text": "A budget limits money or GPU-hours of a team, and warns before they run out.",
        "empty_url": "new/",
        "empty_action": "New budget",
    }
    return listing.respond("claims/budgets/budgets.html", page)


def month_before(day: date) -> date:
    return (day.replace(day=1) - DAY).replace(day=1)


MONTH_HEADS = ("Team", "Currency", "Amount", "Used", "GPU-hours", "GPU-hours used", "Share used", "At 100 %")


def budgets_of_month(request: HttpRequest, first: date, now: datetime) -> HttpResponse:
    """Show the monthly budgets of a past month, the one that was used most first."""
    uses = past_month(Budget.objects.all(), first, now=now)
    uses.sort(key=lambda use: -use.share)
    if wants_csv(request):
        rows = (
            (
                *(use.budget.team.slug, use.budget.currency, use.amount, use.used_amount),
                *(use.hours, use.used_hours, round(use.share, 4), use.budget.get_at_limit_display()),
            )
            for use in uses
        )
        return csv_response(f"budgets-{first:%Y-%m}", MONTH_HEADS, rows)
    sums: dict[str, list[Decimal]] = {}
    for use in uses:
        if use.amount is not None and use.used_amount is not None:
            found = sums.setdefault(use.budget.currency, [Decimal(0), Decimal(0)])
            found[0] += use.amount
            found[1] += use.used_amount
    page = {
        "month": first,
        "earlier": month_before(first),
        "later": month_end(first)[0] + DAY,
        "cards": [card_of(use.budget, use, now=now) for use in uses],
        "sums": [
            (currency, amount, used, used / amount) for currency, (amount, used) in sorted(sums.items())
        ],
    }
    return render(request, "claims/budgets/month.html", page)


def prepare(rows: list[Budget], *, now: datetime) -> None:
    """Give each row what its cells show."""
    for row in rows:
        row.card = card_of(row, row.use, now=now)  # type: ignore[attr-defined]


def chosen_of(rows: Iterable[Budget], key: str) -> Budget | None:
    """Return the budget of the page whose graph is shown: the named one, else the one that runs out first."""
    cards = {str(row.pk): row.card for row in rows}  # type: ignore[attr-defined]
    named = cards.get(key)
    running_out = [card for card in cards.values() if card.runs_out_in_period]
    card = named or min(running_out, key=lambda card: card.use.runs_out_at, default=None)
    card = card or next(iter(cards.values()), None)
    return card.budget if card else None


def waiting_requests() -> list[tuple[QuotaRequest, str]]:
    """Return the requests for extra budget that wait, oldest first, with what they ask for; one query."""
    waiting = QuotaRequest.objects.filter(budget__isnull=False, status=RequestStatus.WAITING)
    found = waiting.select_related("budget", "team", "requested_by")[:MOST_WAITING]
    return [(one, extra_words(one.budget, one.amount, one.hours)) for one in found if one.budget]


def sum_row(totals: Mapping[str, Any], columns: Sequence[Column[Budget]]) -> SafeString:
    """Draw the sum of the monthly budgets of money; nothing for fewer than two."""
    if totals["number"] < 2:
        return SafeString("")
    currency, amount, used = totals["currency"], totals["amount"], totals["used"]
    forecast = totals["forecast"]
    end = (
        max(float(forecast / amount), float(used / amount)) if forecast is not None else float(used / amount)
    )
    share = float(used / amount)
    bar = meter(
        1,
        label=f"All monthly budgets: {percent(share)} used",
        size="tall",
        held=min(share, 1.0),
        pend=max(min(end, 1.0) - min(share, 1.0), 0.0),
        over=min(max(end - 1.0, 0.0), 1.0),
    )
    rest = (
        "" if forecast is None else markup('<span class="sub">{}</span>', percent(float(forecast / amount)))
    )
    cells: dict[str, SafeString] = {
        "team": markup("All monthly budgets"),
        "amount": markup("{}", money(amount, currency)),
        "used": markup("{}", money(used, currency)),
        "share": markup("{}<b>{}</b>", bar, percent(share)),
        "forecast": markup("{}{}", DASH if forecast is None else money(forecast, currency), rest),
        "rate": markup("{}", DASH if totals["rate"] is None else f"{money(totals['rate'], currency)} / h"),
    }
    kinds = {column.name: "dg-n" if column.numeric else "hide" for column in columns}
    kinds |= {"team": "wide", "share": "wide"}
    labels = {column.name: column.label for column in columns} | {"team": "", "share": ""}
    cell = '<td class="{}" data-l="{}">{}</td>'
    drawn = (markup(cell, kinds[name], label, cells.get(name, "")) for name, label in labels.items())
    return markup('<tr class="sumrow">{}</tr>', joined("", drawn))


def month_totals(currency: str, *, now: datetime) -> dict[str, Any]:
    """Return the sums of the monthly budgets of money in one currency; one query."""
    running_out = Q(use__share__lt=1, use__runs_out_at__lt=F("use__ends_at"))
    monthly = Budget.objects.current(utc_day(now)).filter(last=None, currency=currency, amount__isnull=False)
    return monthly.aggregate(
        number=Count("pk"),
        amount=Sum("use__amount"),
        used=Sum("use__used_amount"),
        forecast=Sum("use__forecast_amount"),
        rate=Sum("use__amount_rate"),
        used_up=ArrayAgg("team__title", filter=Q(use__share__gte=1), default=[]),
        running_out=ArrayAgg("team__title", filter=running_out, default=[]),
    ) | {"currency": currency, "as_of": _as_of()}


def _as_of() -> datetime | None:
    return Budget.objects.open().order_by("use__as_of").values_list("use__as_of", flat=True).first()


def visible_budgets(request: HttpRequest) -> QuerySet[Budget]:
    return Budget.objects.visible_to(request.user).select_related("team", "use", "set_by")


def is_member(request: HttpRequest, found: Budget) -> bool:
    role = role_in(request.user, found.team)
    return role is not None and role.rank >= Role.MEMBER.rank


@require_safe
def budget(request: HttpRequest, budget_id: UUID) -> HttpResponse:
    """One budget with its use and history, for everybody in its team."""
    found = get_object_or_404(visible_budgets(request), pk=budget_id)
    requests = list(
        found.requests.select_related("requested_by", "decided_by").order_by("-requested_at")[:CHANGES]
    )
    page = {
        "budget": found,
        "card": card_of(found, found.use, now=timezone.now()),
        "changes": recorded_changes(found)[:CHANGES],
        "extras": found.extras.filter(first=found.use.first).select_related("by"),
        "is_admin": is_platform_admin(request.user),
        "may_request": is_member(request, found),
        "requests": requests,
        "pending": next((one for one in requests if one.status == RequestStatus.WAITING), None),
    }
    return render(request, "claims/budgets/budget.html", page)


@require_http_methods(["GET", "HEAD", "POST"])
def budget_extra(request: HttpRequest, budget_id: UUID) -> HttpResponse:
    """The form of a request for extra budget; 403 for a viewer, before they fill it in."""
    found = get_object_or_404(visible_budgets(request), pk=budget_id)
    require_role(request.user, found.team, at_least=Role.MEMBER)
    form = ExtraForm(found, posted(request), initial={"key": str(uuid4())})
    card = card_of(found, found.use, now=timezone.now())
    with Attempt(form) as attempt:
        if form.is_valid():
            sent = request_extra(by=user_of(request), budget=found, **form.cleaned_data)
            messages.success(request, "Requested. A platform admin decides.")
            return redirect("claims:quota_request_decision", sent.pk)
    page = {"form": form, "card": card, "budgets": [card]}
    return render(request, "claims/budgets/extra.html", page, status=attempt.status)


@require_http_methods(["GET", "HEAD", "POST"])
def budget_new(request: HttpRequest) -> HttpResponse:
    """The form; sent, it says what the budget will do now, and sets it when that is confirmed."""
    require_admin(user_of(request))
    currency = installation_for(request).currency
    initial = {"team": request.GET.get("team", "")}
    form = BudgetForm(posted(request), initial=initial, currency=currency)
    return edit(request, form, None, currency)


@require_http_methods(["GET", "HEAD", "POST"])
def budget_change(request: HttpRequest, budget_id: UUID) -> HttpResponse:
    require_admin(user_of(request))
    found = get_object_or_404(visible_budgets(request), pk=budget_id)
    return edit(
        request,
        BudgetForm(posted(request), budget=found, currency=found.currency),
        found,
        found.currency,
    )


def edit(request: HttpRequest, form: BudgetForm, current: Budget | None, currency: str) -> HttpResponse:
    """Show the form; on POST its effect, with `confirm` save it, or show it again with the refusal."""
    effect: list[str] = []
    with Attempt(form) as attempt:
        if form.is_valid():
            if "confirm" in request.POST:
                saved = save(request, form, current)
                messages.success(request, f"The budget of {saved.team} is saved.")
                return redirect("claims:budget", saved.pk)
            effect = effect_of(draft(form, current, currency), now=timezone.now())
    page = {"form": form, "budget": current, "effect": effect, "teams": team_slugs(current)}
    return render(request, "claims/budgets/edit.html", page, status=attempt.status)


def team_slugs(current: Budget | None) -> list[str]:
    return [] if current else list(Team.objects.active().values_list("slug", flat=True))


def save(request: HttpRequest, form: BudgetForm, current: Budget | None) -> Budget:
    fields = dict(form.cleaned_data)
    if current is None:
        return set_budget(by=user_of(request), **fields)
    return change_budget(by=user_of(request), budget=current, **fields)


def draft(form: BudgetForm, current: Budget | None, currency: str) -> Budget:
    """Return the budget that the form would save, unsaved."""
    values = form.cleaned_data
    title = current.title if current else values["title"].strip()
    first = values["first"] or (current.first if current else utc_day(timezone.now()))
    terms = {name: values.get(name) for name in TERMS} | {"first": first}
    if terms["last"] is None:
        terms["first"] = first.replace(day=1)
    require_terms(title=title, **terms)
    key = {"pk": current.pk} if current else {}
    team = current.team if current else values["team"]
    return Budget(**key, team=team, title=title, currency=currency, **terms)


@require_http_methods(["GET", "HEAD", "POST"])
def budget_end(request: HttpRequest, budget_id: UUID) -> HttpResponse:
    """Say what ending the budget does, then end it."""
    require_admin(user_of(request))
    found = get_object_or_404(visible_budgets(request), pk=budget_id)
    if request.method == "POST":
        end_budget(by=user_of(request), budget=found, reason=request.POST.get("reason", "")[:500])
        messages.success(request, f"The budget of {found.team} has ended.")
        return redirect("claims:budgets")
    page = {"budget": found, "effect": effect_of_ending(found, found.use, now=timezone.now())}
    return render(request, "claims/budgets/end.html", page)
