"""Draws what was spent of a budget as SVG, which needs no script, with the same figures as a table."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Any

from django import template
from django.utils.safestring import SafeString

from claims.budgets.cards import BudgetCard
from claims.budgets.use import day_words, hours_text, utc_day
from claims.models import QuotaRequest
from core.markup import joined, markup
from core.text import money, percent
from core.times import utc_moment
from usage.axis import short, steps
from usage.budget_graph import SpendGraph, graph_of
from usage.daily import DAY, midnight
from usage.spend_chart import HOURS

HEIGHT = 170  # px of the plot
TOP = 16  # px above the highest line, for its label
WIDE = 1000  # units of the stretched drawing
NOTICES = (Decimal("0.5"), Decimal("0.8"))  # shares at which leads are notified

register = template.Library()


@register.inclusion_tag("usage/_spend_graph.html")
def budget_graph(card: BudgetCard, pending: QuotaRequest | None = None) -> dict[str, Any]:
    """Draw the graph of a budget, with the limit that a pending request would make; one query."""
    graph = graph_of(card, pending)
    name = card.budget.team.slug if not card.budget.title else f"{card.budget.team.slug}, {card.budget.title}"
    return _page(graph, f"Spend of {name}", has_notices=True)


@register.inclusion_tag("usage/_spend_graph.html")
def spend_graph(graph: SpendGraph, label: str) -> dict[str, Any]:
    """Draw a graph that is given."""
    return _page(graph, label, has_notices=False)


def _page(graph: SpendGraph, label: str, *, has_notices: bool) -> dict[str, Any]:
    return {
        "graph": graph,
        "label": sentence(graph, label),
        "scale": _scale(graph),
        "plot": _plot(graph, has_notices=has_notices),
        "rows": [
            (spent.day, amount_text(spent.spent, graph.unit), amount_text(spent.so_far, graph.unit))
            for spent in graph.days
        ],
        "spent": amount_text(graph.spent, graph.unit),
        "forecast": "" if graph.forecast is None else amount_text(graph.forecast, graph.unit),
    }


def amount_text(amount: Decimal, unit_name: str) -> str:
    return hours_text(amount) if unit_name == HOURS else money(amount, unit_name)


def sentence(graph: SpendGraph, label: str) -> str:
    """Return the graph in words, for those who do not see it."""
    parts = [
        f"{label} from {day_words(graph.first)} to {day_words(graph.last)} (UTC): "
        f"{amount_text(graph.spent, graph.unit)} until {utc_moment(graph.as_of)}, "
        f"{percent(float(graph.spent / graph.limit))} of {amount_text(graph.limit, graph.unit)}"
    ]
    if graph.forecast is not None and graph.is_running:
        parts.append(f"forecast {amount_text(graph.forecast, graph.unit)} at the end")
    if graph.runs_out_at is not None:
        parts.append(f"runs out on {day_words(utc_day(graph.runs_out_at))}")
    return f"{'; '.join(parts)}."


def _top(graph: SpendGraph) -> Decimal:
    values = (graph.limit, graph.spent, graph.forecast, graph.with_extra)
    return max(value for value in values if value is not None) or Decimal(1)


def _height(graph: SpendGraph, amount: Decimal) -> str:
    """Return how far from above an amount is drawn, in px."""
    return f"{TOP + (HEIGHT - TOP) * (1 - max(float(amount / _top(graph)), 0.0)):.1f}"


def _share(graph: SpendGraph, at: datetime) -> float:
    return min(max((at - graph.start) / (graph.end - graph.start), 0.0), 1.0)


def _across(share: float) -> str:
    return f"{100 * share:.2f}%"


def _scale(graph: SpendGraph) -> SafeString:
    labels = (
        markup(
            '<text x="46" y="{}" dy="4" text-anchor="end">{}</text>',
            _height(graph, at),
            short(at, graph.unit),
        )
        for at in steps(_top(graph))
    )
    return joined("", labels)


def _plot(graph: SpendGraph, *, has_notices: bool) -> SafeString:
    points = [
        (0.0, Decimal(0)),
        *((_share(graph, midnight(row.day + DAY)), row.so_far) for row in graph.days),
    ]
    now = _share(graph, graph.as_of)
    points.append((now, graph.spent))
    line = " ".join(f"{WIDE * x:.1f},{_height(graph, y)}" for x, y in points)
    drawn = [
        markup('<line x2="100%" y1="{0}" y2="{0}" class="grid"></line>', _height(graph, at))
        for at in steps(_top(graph))
    ]
    shapes = [
        markup(
            '<polygon points="0,{1} {0} {2},{1}" class="area"></polygon>', line, HEIGHT, f"{WIDE * now:.1f}"
        ),
        markup('<polyline points="{}" class="spent"></polyline>', line),
    ]
    if graph.forecast is not None and graph.is_running:
        ahead = f"{WIDE * now:.1f},{_height(graph, graph.spent)} {WIDE},{_height(graph, graph.forecast)}"
        shapes.append(markup('<polyline points="{}" class="ahead"></polyline>', ahead))
    stretched = '<svg width="100%" height="{0}" viewBox="0 0 {1} {0}" preserveAspectRatio="none">{2}</svg>'
    drawn.append(markup(stretched, HEIGHT, WIDE, joined("", shapes)))
    if has_notices:
        drawn += [_level(graph, graph.limit * share, "notice", percent(float(share))) for share in NOTICES]
    limit = short_limit(graph.limit, graph.unit)
    drawn.append(_level(graph, graph.limit, "limit", f"budget {limit}"))
    if graph.with_extra is not None:
        words = f"with the request {short_limit(graph.with_extra, graph.unit)}"
        drawn.append(_level(graph, graph.with_extra, "asked", words))
    dot = '<circle cx="{}" cy="{}" r="3.5" class="now"></circle>'
    drawn.append(markup(dot, _across(now), _height(graph, graph.spent)))
    if graph.runs_out_at is not None:
        drawn.append(_run_out(graph, graph.runs_out_at))
    drawn += [_axis(graph, now), _days(graph)]
    return joined("", drawn)


def short_limit(amount: Decimal, unit_name: str) -> str:
    return hours_text(amount) if unit_name == HOURS else money(amount, unit_name, digits=0)


def _level(graph: SpendGraph, amount: Decimal, kind: str, label: str) -> SafeString:
    height = _height(graph, amount)
    return markup(
        '<line x2="100%" y1="{0}" y2="{0}" class="{1}"></line><text x="4" y="{0}" dy="-4">{2}</text>',
        height,
        kind,
        label,
    )


def _run_out(graph: SpendGraph, at: datetime) -> SafeString:
    share, day = _share(graph, at), utc_day(at)
    anchor, shift = ("end", -6) if share > 0.5 else ("start", 6)
    return markup(
        '<line x1="{0}" x2="{0}" y1="{1}" y2="{2}" class="out"></line>'
        '<circle cx="{0}" cy="{1}" r="4" class="out"></circle>'
        '<text x="{0}" y="{3}" dx="{4}" text-anchor="{5}" class="out">runs out {6}</text>',
        *(
            _across(share),
            _height(graph, graph.limit),
            HEIGHT,
            HEIGHT - 6,
            shift,
            anchor,
            f"{day:%a} {day.day} {day:%b}",
        ),
    )


def _axis(graph: SpendGraph, now: float) -> SafeString:
    """Draw the first and the last day, and today between them where there is room."""
    marks = [
        (0.0, "start", f"{graph.first.day} {graph.first:%b}"),
        (1.0, "end", f"{graph.last.day} {graph.last:%b}"),
    ]
    if graph.is_running and 0.15 < now < 0.85:
        marks.append((now, "middle", "now"))
    text = '<text x="{}" y="{}" text-anchor="{}">{}</text>'
    return joined("", (markup(text, _across(at), HEIGHT + 16, anchor, words) for at, anchor, words in marks))


def _days(graph: SpendGraph) -> SafeString:
    """Draw an unseen field over each day, whose tooltip has its figures."""
    field = '<g><title>{}</title><rect x="{}" width="{}" height="{}" class="day"></rect></g>'
    return joined(
        "",
        (
            markup(
                field,
                f"{row.day:%a} {row.day.day} {row.day:%b}: {amount_text(row.spent, graph.unit)}\n"
                f"{amount_text(row.so_far, graph.unit)} so far",
                _across(_share(graph, midnight(row.day))),
                _across(_share(graph, midnight(row.day + DAY)) - _share(graph, midnight(row.day))),
                HEIGHT,
            )
            for row in graph.days
        ),
    )
