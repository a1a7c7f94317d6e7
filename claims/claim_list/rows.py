"""
The rows of the list of claims: read by their keys in one query that is planned once, and written with
`core.markup`; a template takes several times as long for fifty rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cache
from typing import Any, NamedTuple
from uuid import UUID

from django.contrib.postgres.expressions import ArraySubquery
from django.db.models import Exists, OuterRef, QuerySet
from django.urls import reverse
from django.utils import timezone
from django.utils.safestring import SafeString

from claims.access import NO_CLAIM
from claims.models import Alternative, Claim, Delivery, join_profiles
from claims.states import FINAL, LOOK, RUNNING, ClaimState
from claims.templatetags.grace import grace_line
from core.markup import joined, markup
from core.prepared import by_keys
from core.templatetags.ui import icon, short_id, state_badge
from core.text import DASH
from core.times import ago, duration

REASON_LENGTH = 60


class ClaimRow(NamedTuple):
    """What a row shows; `titles` are those of several profiles in their order."""

    pk: UUID
    name: str
    reason: str
    problem: str
    state: str
    state_since: datetime
    devices: int
    parallel: int
    expires_at: datetime | None
    namespace: str
    delivery: str
    duration: timedelta
    created_at: datetime
    team: str
    cluster: str
    version: int
    title: str
    username: str
    first_name: str
    last_name: str
    grace: timedelta
    titles: list[str]
    together: bool

    @property
    def person(self) -> str:
        """`User.label` of the requester."""
        return f"{self.first_name} {self.last_name}".strip() or self.username


ALTERNATIVES = Alternative.objects.filter(claim=OuterRef("pk")).order_by("position")


def _rows(key: UUID) -> QuerySet[Claim, Any]:
    return Claim.objects.filter(pk=key).values_list(
        *("pk", "name", "reason", "problem", "state", "state_since", "devices", "parallel", "expires_at"),
        *("namespace", "delivery", "duration", "created_at", "team__slug", "cluster__name"),
        *("profile_version__number", "profile_version__profile__title"),
        *("requested_by__username", "requested_by__first_name", "requested_by__last_name"),
        "profile_version__grace",
        ArraySubquery(ALTERNATIVES.values("profile_version__profile__title")),
        Exists(ALTERNATIVES.filter(together=True).order_by()),
    )


ROWS = by_keys(_rows)


def claim_rows(keys: Sequence[UUID]) -> list[ClaimRow]:
    """Return the rows in the order of `keys`, which a query has chosen that the reader may see."""
    rows = {row[0]: ClaimRow(*row) for row in ROWS.rows(list(keys))} if keys else {}
    return [rows[key] for key in keys if key in rows]


def table_rows(rows: Iterable[ClaimRow], shows: Mapping[str, bool], *, may_act: bool) -> SafeString:
    """Return a `<tr>` per row, with a cell for each shown column."""
    address = reverse("claims:detail", args=[NO_CLAIM])
    shown = [cell for column, cell in CELLS.items() if shows[column]]

    def cells(row: ClaimRow) -> Iterator[SafeString]:
        url = address.replace(str(NO_CLAIM), str(row.pk))
        yield name_cell(row, url, may_act=may_act, with_reason=not shows["id"])
        for cell in shown:
            yield cell(row)

    return joined("\n", (markup("<tr>{}</tr>", joined("", cells(row))) for row in rows))


BOX = '<input type="checkbox" name="claim" value="{}" form="bulk" data-tick aria-label="Select {}"> '


def name_cell(row: ClaimRow, url: str, *, may_act: bool, with_reason: bool) -> SafeString:
    box = markup(BOX, row.pk, row.name) if may_act else ""
    problem = ""
    if row.problem:
        problem = markup(' <span class="dg-bad">{}</span>', icon("alert-circle", "s", label=row.problem))
    reason = (
        markup('<span class="sub one" title="{}">{}</span>', row.reason, shortened(row.reason))
        if with_reason
        else ""
    )
    link = '<td class="wide">{}<a class="dg-link" href="{}">{}</a>{}{}</td>'
    return markup(link, box, url, row.name, problem, reason)


def shortened(reason: str) -> str:
    return reason if len(reason) <= REASON_LENGTH else f"{reason[: REASON_LENGTH - 1]}…"


def profile_cell(row: ClaimRow) -> SafeString:
    if row.titles:
        return markup("<td>{}</td>", join_profiles(row.titles, together=row.together))
    return markup('<td>{} <span class="dg-3">v{}</span></td>', row.title, row.version)


def devices_cell(row: ClaimRow) -> SafeString:
    number = f"{row.devices} × {row.parallel}" if row.parallel > 1 else row.devices
    return markup('<td class="dg-n mr" data-l="Devices">{}</td>', number)


def end_cell(row: ClaimRow) -> SafeString:
    if row.state == ClaimState.RELEASING:  # pods may hold devices for long after the end
        return markup('<td class="dg-nowrap mr" data-l="Ends">ended {}</td>', ago(row.state_since))
    grace = grace_line(row.state, row.expires_at, row.grace)
    if row.state in RUNNING and row.expires_at and row.expires_at <= timezone.now():
        in_grace = '<td class="dg-nowrap mr"><span class="dg-warn">expired {}</span>{}</td>'
        return markup(in_grace, ago(row.expires_at), grace)
    end = DASH if row.state in FINAL else ago(row.expires_at)
    return markup('<td class="dg-nowrap mr" data-l="Ends">{}{}</td>', end, grace)


@cache  # not at import: the address of an icon needs the built assets
def badge(state: str) -> SafeString:
    return state_badge(*LOOK[ClaimState(state)], ClaimState(state).label)


DELIVERIES = dict(Delivery.choices)
# The cells behind the name, by the names of their columns and in their order.
CELLS: dict[str, Callable[[ClaimRow], SafeString]] = {
    "state": lambda row: markup("<td>{}</td>", badge(row.state)),
    "since": lambda row: markup('<td class="dg-nowrap mr">{}</td>', ago(row.state_since)),
    "profile": profile_cell,
    "devices": devices_cell,
    "team": lambda row: markup('<td data-l="Team">{}</td>', row.team),
    "who": lambda row: markup('<td class="mr" data-l="Requested by">{}</td>', row.person),
    "cluster": lambda row: markup('<td data-l="Cluster">{}</td>', row.cluster),
    "ends": end_cell,
    "namespace": lambda row: markup(
        '<td data-l="Namespace"><span class="dg-id">{}</span></td>', row.namespace
    ),
    "delivery": lambda row: markup("<td>{}</td>", DELIVERIES[row.delivery]),
    "duration": lambda row: markup('<td data-l="Duration">{}</td>', duration(row.duration)),
    "created": lambda row: markup('<td data-l="Requested">{}</td>', ago(row.created_at)),
    "id": lambda row: markup('<td class="dg-nowrap">{}</td>', short_id(row.pk)),
}
