"""Tags and filters of the fleet's report."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from uuid import UUID

from django import template
from django.template import Context
from django.template.defaultfilters import date as date_text
from django.urls import reverse
from django.utils.safestring import SafeString

from core.markup import joined, markup
from core.templatetags.ui import icon, meter
from core.text import DASH, counted, money, percent, quantity
from usage.axis import short, steps
from usage.budget_graph import MonthBudgets
from usage.cost import Cost, cost_text, total
from usage.daily import DAY, utc_day
from usage.fleet_report import FleetParts, FleetReport, GroupBy, GroupRow, HeldParts
from usage.spend_chart import HOURS, amount_in, unit_of
from usage.team_month import CLAIM, PRODUCT, PROFILE, MonthPart

# Name of the segment in meters.css, label, attribute of `FleetParts`; unallocated is the free rest.
PARTS = (
    ("used", "Used", "used"),
    ("idle", "Idle", "idle"),
    ("none", "No telemetry", "no_telemetry"),
    ("c4", "Unmanaged", "unmanaged"),
    ("taken", "Out of service", "out_of_service"),
    ("free", "Unallocated", "unallocated"),
)
HEIGHT = 160  # px of the highest bar
WEEK = "week"
LABELS = 5  # of the axis, at most: a phone has room for no more

LINK = '<a class="dg-link" href="{}">{}</a>'
MONTH_ROW = (
    '<tr{}><td class="wide">{}</td><td class="dg-n dg-desk" data-l="GPU-hours">{}</td>'
    '<td class="dg-n" data-l="Cost">{}{}</td>'
    '<td class="dg-n dg-desk" data-l="Share">{}</td><td data-l="Utilization">{}</td>'
    '<td class="dg-n" data-l="Idle">{}</td></tr>'
)
NO_KEY = UUID(int=0)

register = template.Library()


@register.filter
def hours(cost: Cost) -> str:
    """Show GPU-hours as "45,310", below 100 with two digits."""
    return quantity(cost.hours) if cost.held else DASH


@register.filter
def signed_hours(cost: Cost) -> str:
    """Show the hours of a correction as "−3.00" or "+45,310"."""
    sign = "−" if cost.held < 0 else "+"
    return f"{sign}{quantity(abs(cost.hours))}"


@register.filter
def share_of(cost: Cost, whole: Cost) -> str:
    """Show the share of the hours of `whole` as "46 %", below 10 % with one digit, and at least "< 0.1 %"."""
    if not whole.held or not cost.held:
        return DASH
    share = cost.held / whole.held
    if share >= 0.1:
        return percent(share)
    return "< 0.1 %" if share < 0.0005 else f"{share:.1%}".replace("%", " %")


@register.filter
def parts_of_fleet(parts: FleetParts) -> list[tuple[str, str, Cost]]:
    """Return the parts of the fleet that are not empty: segment, label and cost."""
    named = [(segment, label, getattr(parts, name)) for segment, label, name in PARTS]
    return [(segment, label, cost) for segment, label, cost in named if cost.held]


@register.filter
def parts_of_rest(parts: FleetParts) -> list[tuple[str, str, Cost]]:
    """Return the parts that no claim held, which are not empty."""
    held = {segment for segment, _label, _name in PARTS[:3]}
    return [part for part in parts_of_fleet(parts) if part[0] not in held]


@register.filter
def fleet_parts(report: FleetReport) -> list[tuple[str, str, Cost]]:
    """Return the parts of the fleet, or those that claims of some teams can have."""
    shown = PARTS if report.is_all else PARTS[:3]
    return [(segment, label, getattr(report.parts, name)) for segment, label, name in shown]


@register.filter
def change(row: GroupRow) -> str:
    """Show how the hours differ from the period before: "+4 %", or "new"."""
    return change_of(row.cost, row.before) if row.before.held else "new"


@register.filter
def change_of(cost: Cost, before: Cost) -> str:
    """Show how the money differs from that before, or the hours as `money_share` has them: "+4 %", "19 ×"."""
    now, then = compared(cost, before)
    if not then:
        return DASH
    if now >= 10 * then:
        return f"{now / then:,.0f} ×"
    return f"{now / then - 1:+.0%}".replace("%", " %").replace("-", "−")


def has_one_price(whole: Cost) -> bool:
    return len(whole.exact) == 1 and not whole.unpriced_held


def compared(cost: Cost, whole: Cost) -> tuple[int, int]:
    """Return both in money; in hours where one is without a price, or in several currencies."""
    if has_one_price(both := total([cost, whole])):
        (currency,) = both.exact
        return cost.exact.get(currency, 0), whole.exact.get(currency, 0)
    return cost.held, whole.held


@register.filter
def share_unit(whole: Cost) -> str:
    """Return of what `money_share` is a share."""
    return "the cost" if has_one_price(whole) else "GPU-hours"


@register.filter
def money_share(cost: Cost, whole: Cost) -> str:
    """Show the share of the money of `whole`, of its hours without a price or with several currencies."""
    part, of = compared(cost, whole)
    return percent(part / of) if of else DASH


@register.filter
def part_of(cost: Cost, whole: Cost) -> str:
    """Show that share with what it is of, such as "41 % of the cost"."""
    return f"{money_share(cost, whole)} of {share_unit(whole)}"


@register.filter
def usual_unit(cost: Cost) -> str:
    """Return the currency of most of a cost; HOURS without a price."""
    return unit_of(cost, None)


@register.filter
def in_unit(amount: Decimal, unit: str) -> str:
    """Show an amount of money in whole units, or GPU-hours."""
    return f"{quantity(amount)} h" if unit == HOURS else money(amount, unit, digits=0)


@register.filter
def last_day(end: datetime) -> date:
    """Return the last day of a span that ends at midnight (UTC)."""
    return utc_day(end) - DAY


@register.filter
def utilization(parts: HeldParts) -> str:
    return "no telemetry" if parts.utilization is None else percent(parts.utilization)


@register.simple_tag(takes_context=True)
def drill_url(context: Context, row: GroupRow, group: GroupBy) -> str:
    """Return the address of this report with the claims of one row."""
    query = context["request"].GET.copy()
    query.pop("page", None)
    query["by"], query[group] = GroupBy.CLAIM, row.drill
    return f"?{query.urlencode()}#rows"


@register.simple_tag
def month_rows(name: str, rows: Iterable[MonthPart], whole: Cost) -> SafeString:
    """Draw a `<tr>` per claim, person, profile or product of a team's month."""
    to = {
        CLAIM: reverse("claims:detail", args=[NO_KEY]).replace(str(NO_KEY), "{}"),
        PROFILE: reverse("claims:profile", args=["no-slug"]).replace("no-slug", "{}"),
    }
    return joined("\n", (_month_row(name, row, whole, to) for row in rows))


def _month_row(name: str, row: MonthPart, whole: Cost, to: Mapping[str, str]) -> SafeString:
    label, sub = markup("{}", row.label), counted(row.claims, "claim")
    if name == CLAIM:
        label, sub = markup(LINK, to[CLAIM].format(row.key), row.label), row.detail
    elif name == PROFILE and row.detail:
        label = markup(LINK, to[PROFILE].format(row.detail), row.label)
    elif name == PRODUCT:
        label = markup('<span title="{}">{}</span>', row.label, row.label.removeprefix("NVIDIA "))
    corrections = joined(
        "",
        (
            markup('<span class="sub">with {}, correction of {}</span>', cost_text(change), f"{of:%B %Y}")
            for of, change in row.corrections.items()
        ),
    )
    return _month_cells(markup('{}<span class="sub">{}</span>{}', label, sub, corrections), row, whole)


@register.simple_tag
def month_sum(whole: MonthPart, cost: Cost) -> SafeString:
    """Draw the row with the total of a team's month."""
    return _month_cells(markup("Total"), whole, cost, row_class=' class="sumrow"')


def _month_cells(label: SafeString, row: MonthPart, whole: Cost, *, row_class: str = "") -> SafeString:
    cost, unpriced = row.cost, ""
    if cost.unpriced_held and cost.exact:
        unpriced = markup('<span class="sub">{} h without a rate</span>', cost.unpriced)
    text = cost_text(cost) if row_class else markup('<b class="dg-b">{}</b>', cost_text(cost))
    share, idle = money_share(cost, whole), cost_text(row.parts.idle)
    bar = utilization_bar(row.parts)
    return markup(
        MONTH_ROW, SafeString(row_class), label, f"{cost.hours:,}", text, unpriced, share, bar, idle
    )


@register.simple_tag
def utilization_bar(parts: HeldParts) -> SafeString:
    """Draw how much of the measured time was used; "no telemetry" without any."""
    text = utilization(parts)
    if parts.utilization is None:
        return markup('<span class="dg-3">{}</span>', text)
    bar = meter(
        parts.allocated.held,
        label=f"{text} used",
        size="mini",
        used=parts.used.held,
        idle=parts.idle.held,
        none=parts.no_telemetry.held,
    )
    return markup('<span class="dg-nowrap"><span class="dg-pct">{}</span> {}</span>', text, bar)


@register.simple_tag
def day_bars(by_day: Sequence[tuple[date, FleetParts]], unit: str, per: str = "day") -> SafeString:
    """
    Draw a stacked bar per day or week, in GPU-hours or in a currency, with the scale; the tooltip of each has
    its figures.
    """
    bars_of = by_week(by_day) if per == WEEK else by_day
    highest = max((amount_in(parts.fleet, unit) for _day, parts in bars_of), default=Decimal(0)) or Decimal(1)
    width = 100 / max(len(bars_of), 1)
    bars, labels, every = [], [], -(-len(bars_of) // LABELS)
    for index, (day, parts) in enumerate(bars_of):
        left = index * width
        if index % every == 0:
            label = '<text x="{}%" y="{}" text-anchor="{}">{}</text>'
            at, anchor = (left, "start") if left < 85 else (left + width, "end")
            labels.append(markup(label, f"{at:.2f}", HEIGHT + 16, anchor, date_text(day, "j M")))
        bars.append(_bar(day, parts, left + width * 0.08, width * 0.84, (highest, unit, per)))
    scale, lines = [], []
    for amount in steps(highest):
        height = f"{HEIGHT * (1 - amount / highest):.1f}"
        scale.append(
            markup('<text x="46" y="{}" dy="4" text-anchor="end">{}</text>', height, short(amount, unit))
        )
        lines.append(markup('<line x2="100%" y1="{0}" y2="{0}" class="grid"></line>', height))
    return markup(
        '<div class="dg-spend dg-days" role="img" aria-label="{} by {}, at most {}">'
        '<svg class="dg-chart dg-scale" height="{}">{}</svg>'
        '<svg class="dg-chart" height="{}">{}{}{}</svg></div>',
        "GPU-hours" if unit == HOURS else "Money",
        per,
        bar_text(highest, unit),
        HEIGHT + 22,
        joined("", scale),
        HEIGHT + 22,
        joined("", lines),
        joined("", bars),
        joined("", labels),
    )


def by_week(by_day: Sequence[tuple[date, FleetParts]]) -> list[tuple[date, FleetParts]]:
    """Return the sums of weeks from Monday on; the first and the last may have fewer days."""
    weeks: dict[date, FleetParts] = {}
    for day, parts in by_day:
        monday = day - day.weekday() * DAY
        weeks.setdefault(max(monday, by_day[0][0]), FleetParts()).add(parts)
    return list(weeks.items())


def bar_text(amount: Decimal, unit: str) -> str:
    return f"{quantity(amount)} h" if unit == HOURS else money(amount, unit)


def _bar(day: date, parts: FleetParts, left: float, width: float, of: tuple[Decimal, str, str]) -> SafeString:
    highest, unit, per = of
    bottom, begin = float(HEIGHT), "from " if per == WEEK else ""
    whole = amount_in(parts.fleet, unit)
    in_all = f"{bar_text(whole, unit)} in all" if whole else "nothing"
    rects, lines = [], [f"{begin}{date_text(day, 'D j M')}: {in_all}"]
    for segment, label, name in PARTS:
        amount = amount_in(getattr(parts, name), unit)
        if not amount:
            continue
        height = HEIGHT * float(amount / highest)
        bottom -= height
        rects.append(
            markup(
                '<rect x="{}%" y="{}" width="{}%" height="{}" class="dg-m-{}"></rect>',
                *(f"{left:.2f}", f"{bottom:.1f}", f"{width:.2f}", f"{height:.1f}", segment),
            )
        )
        lines.append(f"{label}: {bar_text(amount, unit)}")
    return markup("<g><title>{}</title>{}</g>", "\n".join(lines), joined("", rects))


@register.simple_tag
def budget_forecast(row: GroupRow, budgets: MonthBudgets) -> SafeString:
    """Show which share of the monthly budget of a team the forecast is, with a warning above 100 %."""
    share = budgets.forecast_shares.get(UUID(row.key))
    if share is None:
        return markup("{}", DASH)
    if share <= 1:
        return markup("{}", percent(share))
    sign = icon("alert-triangle", "s", label="more than the budget")
    return markup('<span class="dg-bad dg-nowrap">{} {}</span>', sign, percent(share))
