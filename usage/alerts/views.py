"""The page of alerts: those that concern the reader, open ones unless the address says otherwise."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django import forms
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils import timezone
from django.views.decorators.http import require_safe
from django_filters import ChoiceFilter, FilterSet

from claims.claim_filters import cluster_filter, team_filter
from core.listing import Column, Listing
from core.times import local_text
from teams.access import user_of
from usage.alerts.services import KEEP, about
from usage.models import Alert, AlertQuerySet

OPEN, RESOLVED = "open", "resolved"
STATES = ((OPEN, "Open"), (RESOLVED, "Resolved"))

COLUMNS: list[Column[Any]] = [
    Column("about", "About", about, fixed=True),
    Column("condition", "Alert", lambda row: row.get_condition_display(), sort="condition"),
    Column("text", "What", lambda row: local_text(row.text)),
    Column("team", "Team", lambda row: row.team.slug if row.team else "", sort="team__slug", shown=False),
    Column(
        "cluster",
        "Cluster",
        lambda row: row.cluster.name if row.cluster else "",
        sort="cluster__name",
        shown=False,
    ),
    Column("since", "Since", lambda row: row.since, sort="since"),
    Column("resolved", "Resolved", lambda row: row.resolved_at, sort="resolved_at"),
]
SEARCHED = "text", "claim__name", "cluster__name", "team__slug"
RELATED = ("claim", "team", "cluster")
# Condition → colour family and icon of an open alert.
LOOKS = {
    Alert.Condition.CLAIM_PENDING: ("wait", "hourglass-high"),
    Alert.Condition.CLAIM_IDLE: ("wait", "zzz"),
    Alert.Condition.DEVICE_TAINTED: ("bad", "ban"),
    Alert.Condition.QUOTA: ("wait", "gauge"),
    Alert.Condition.BUDGET: ("wait", "coin-euro"),
    Alert.Condition.NO_TELEMETRY: ("over", "antenna-bars-off"),
    Alert.Condition.SYNC_STALE: ("bad", "plug-connected-x"),
    Alert.Condition.DRA_SCHEDULER: ("bad", "alert-triangle"),
    Alert.Condition.DRA_CONTROLLER: ("bad", "alert-triangle"),
    Alert.Condition.DRA_KUBELET: ("bad", "alert-triangle"),
}


class AlertFilter(FilterSet):
    """Without a state the list has open alerts."""

    state = ChoiceFilter(label="State", choices=STATES, method="by_state", empty_label="Open")
    condition = ChoiceFilter(label="Alert", choices=Alert.Condition.choices, empty_label="Any alert")
    team, cluster = team_filter(), cluster_filter()

    class Meta:
        model = Alert
        fields: tuple[str, ...] = ()
        form = forms.Form

    def by_state(self, rows: AlertQuerySet, name: str, value: str) -> AlertQuerySet:
        return rows  # `alerts` has chosen them


def alerts_in(state: str, rows: AlertQuerySet) -> AlertQuerySet:
    return rows.exclude(resolved_at=None) if state == RESOLVED else rows.open()


def prepare(rows: list[Any]) -> None:
    for row in rows:
        row.family, row.icon = LOOKS[Alert.Condition(row.condition)]


@require_safe
def alerts(request: HttpRequest) -> HttpResponseBase:
    visible = Alert.objects.visible_to(user_of(request))
    state = request.GET.get("state", OPEN)
    listing = Listing(
        request,
        alerts_in(state, visible).select_related(*RELATED).defer("claim__spec", "cluster__credentials"),
        columns=[one for one in COLUMNS if one.name != "resolved" or state == RESOLVED],
        title="Alerts",
        filters=AlertFilter,
        search=SEARCHED,
        sort="-since",
        prepare=prepare,
    )
    context = {
        "resolved_today": lambda: visible.filter(
            resolved_at__gte=timezone.now() - timedelta(hours=24)
        ).count(),
        "is_open": state != RESOLVED,
        "keep": KEEP,
        "empty_icon": "circle-check",
        "empty_title": "Nothing needs attention",
        "empty_text": "An alert opens when one of the conditions below holds, and is resolved when it ends.",
    }
    return listing.respond("usage/alerts.html", context)
