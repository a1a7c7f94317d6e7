"""A team's month: hours and cost, on a page and as CSV."""

import csv
from collections.abc import Iterator
from decimal import Decimal

from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from core.listing import Echo, harmless
from teams.access import team_for
from usage.reports import Month, Report, report, zone_of_reader


def month_of(text: str) -> Month:
    """Return the month that is asked for, this one by default; Invalid for what is none."""
    zone = zone_of_reader()
    return Month.parse(text, zone) if text else Month.of(timezone.localdate(), zone)


@require_safe
def team(request: HttpRequest, slug: str) -> HttpResponse:
    """Everybody in the team may see what it costs."""
    whose = team_for(request.user, slug)
    found = report(whose, month_of(request.GET.get("month", "")), now=timezone.now())
    groups = (
        {"anchor": "by-claim", "title": "By claim", "head": "Claim", "rows": found.by_claim},
        {"anchor": "by-person", "title": "By person", "head": "Person", "rows": found.by_person},
        {"anchor": "by-product", "title": "By product", "head": "Product", "rows": found.by_product},
    )
    return render(request, "usage/team.html", {"team": whose, "report": found, "groups": groups})


@require_safe
def team_csv(request: HttpRequest, slug: str) -> StreamingHttpResponse:
    """Return the lines that the page adds up: one per claim, product and currency."""
    whose = team_for(request.user, slug)
    found = report(whose, month_of(request.GET.get("month", "")), now=timezone.now())
    response = StreamingHttpResponse(csv_lines(found), content_type="text/csv; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="cost-{whose.slug}-{found.month}.csv"'
    return response


def csv_lines(found: Report) -> Iterator[str]:
    """
    Yield the rows. Hours stand once per line, so that both columns add up to the totals of the page.

    A line without a rate has no amount and no currency: an empty cell is not a zero.
    """
    writer = csv.writer(Echo())
    yield writer.writerow(
        [
            *("month", "team", "claim", "claim_id", "person", "profile", "cluster", "product", "partition"),
            *("device_hours", "hours_without_rate", "amount", "currency"),
        ]
    )
    for line in found.lines:
        claim = line.claim
        what = [
            str(found.month),
            found.team.slug,
            claim.name,
            str(claim.pk),
            claim.requested_by.username,
            claim.slugs,
            claim.cluster.name,
            line.product,
            line.partition,
        ]
        hours: list[Decimal | str] = [line.cost.hours, line.cost.unpriced]
        for currency, amount in line.cost.amounts.items() or [("", "")]:
            yield writer.writerow([*map(harmless, what), *hours, amount, currency])
            hours = ["", ""]
