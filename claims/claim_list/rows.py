"""
The rows of the list of claims: read by their keys in one query that is planned once, and written without a
template, which takes ten times as long for fifty rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cache
from html import escape
from typing import Any, NamedTuple
from uuid import UUID

from django.contrib.postgres.expressions import ArraySubquery
from django.db.models import Exists, OuterRef
from django.urls import reverse
from django.utils.safestring import SafeString, mark_safe

from claims.models import Alternative, Claim, Delivery, join_profiles
from claims.states import FINAL, LOOK, ClaimState
from core.prepared import Prepared
from core.templatetags.ui import icon, short_id, state_badge
from core.text import DASH
from core.times import ago, duration

REASON_LENGTH = 60
NO_CLAIM = UUID(int=0)


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
    titles: list[str]
    together: bool

    @property
    def person(self) -> str:
        """`User.label` of the requester."""
        return f"{self.first_name} {self.last_name}".strip() or self.username


ALTERNATIVES = Alternative.objects.filter(claim=OuterRef("pk")).order_by("position")


def _statement(key: UUID) -> tuple[str, Sequence[Any]]:
    """Return the query of a row by its key, changed to one of many rows by an array of keys."""
    columns = (
        *("pk", "name", "reason", "problem", "state", "state_since", "devices", "parallel", "expires_at"),
        *("namespace", "delivery", "duration", "created_at", "team__slug", "cluster__name"),
        *("profile_version__number", "profile_version__profile__title"),
        *("requested_by__username", "requested_by__first_name", "requested_by__last_name"),
        ArraySubquery(ALTERNATIVES.values("profile_version__profile__title")),
        Exists(ALTERNATIVES.filter(together=True).order_by()),
    )
    text, values = Claim.objects.filter(pk=key).order_by().values_list(*columns).query.sql_with_params()
    one, many = '"claims_claim"."id" = %s', '"claims_claim"."id" = ANY(%s)'
    if text.count(one) != 1:
        raise AssertionError(text)
    return text.replace(one, many), values


ROWS = Prepared(_statement, UUID)


def rows_of(keys: Sequence[UUID]) -> list[ClaimRow]:
    """Return the rows in the order of `keys`, which a query has chosen that the reader may see."""
    rows = {row[0]: ClaimRow(*row) for row in ROWS.rows(list(keys))} if keys else {}
    return [rows[key] for key in keys if key in rows]


def table_rows(rows: Iterable[ClaimRow], shows: Mapping[str, bool], *, may_act: bool) -> SafeString:
    """Return a `<tr>` per row, with a cell for each shown column."""
    address = reverse("claims:detail", args=[NO_CLAIM])
    lines = []
    for row in rows:
        url = address.replace(str(NO_CLAIM), str(row.pk))
        name = name_cell(row, url, may_act=may_act, with_reason=not shows["id"])
        cells = (cell(row) for column, cell in CELLS.items() if shows[column])
        lines.append(f"<tr>{name}{''.join(cells)}</tr>")
    return mark_safe("\n".join(lines))  # noqa: S308 - every cell has been escaped


def name_cell(row: ClaimRow, url: str, *, may_act: bool, with_reason: bool) -> str:
    name = escape(row.name)
    parts = [f'<a class="dg-link" href="{url}">{name}</a>']
    if may_act:
        label = f'data-tick aria-label="Select {name}"'
        parts.insert(0, f'<input type="checkbox" name="claim" value="{row.pk}" form="bulk" {label}> ')
    if row.problem:
        parts.append(f' <span class="dg-bad">{icon("alert-circle", "s", label=row.problem)}</span>')
    if with_reason:
        parts.append(f'<span class="sub">{escape(shortened(row.reason))}</span>')
    return f'<td class="wide">{"".join(parts)}</td>'


def shortened(reason: str) -> str:
    return reason if len(reason) <= REASON_LENGTH else f"{reason[: REASON_LENGTH - 1]}…"


def profile_cell(row: ClaimRow) -> str:
    if row.titles:
        return f"<td>{escape(join_profiles(row.titles, together=row.together))}</td>"
    return f'<td>{escape(row.title)} <span class="dg-3">v{row.version}</span></td>'


def devices_cell(row: ClaimRow) -> str:
    number = f"{row.devices} × {row.parallel}" if row.parallel > 1 else str(row.devices)
    return f'<td class="dg-n" data-l="Devices">{number}</td>'


def end_cell(row: ClaimRow) -> str:
    return (
        f'<td class="dg-nowrap mr" data-l="Ends">{DASH if row.state in FINAL else ago(row.expires_at)}</td>'
    )


@cache  # not at import: the address of an icon needs the built assets
def badge(state: str) -> SafeString:
    return state_badge(*LOOK[ClaimState(state)], ClaimState(state).label)


DELIVERIES = dict(Delivery.choices)
# The cells behind the name, by the names of their columns and in their order.
CELLS: dict[str, Callable[[ClaimRow], str]] = {
    "state": lambda row: f"<td>{badge(row.state)}</td>",
    "since": lambda row: f'<td class="dg-nowrap mr">{ago(row.state_since)}</td>',
    "profile": profile_cell,
    "devices": devices_cell,
    "team": lambda row: f"<td>{escape(row.team)}</td>",
    "who": lambda row: f'<td class="mr">{escape(row.person)}</td>',
    "cluster": lambda row: f"<td>{escape(row.cluster)}</td>",
    "ends": end_cell,
    "namespace": lambda row: (
        f'<td data-l="Namespace"><span class="dg-id">{escape(row.namespace)}</span></td>'
    ),
    "delivery": lambda row: f"<td>{DELIVERIES[row.delivery]}</td>",
    "duration": lambda row: f'<td data-l="Duration">{duration(row.duration)}</td>',
    "created": lambda row: f'<td data-l="Requested">{ago(row.created_at)}</td>',
    "id": lambda row: f'<td class="dg-nowrap">{short_id(row.pk)}</td>',
}
