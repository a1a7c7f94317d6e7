"""API of alerts: those that concern the user. They open and resolve automatically."""

from __future__ import annotations

from django.db.models import QuerySet
from django_filters import rest_framework as filters
from rest_framework import serializers
from rest_framework.viewsets import ReadOnlyModelViewSet

from core.filters import Filters
from core.inputs import BooleanFilter, ordered, valid_ids
from core.listing import WordFilter
from inventory.filters import any_cluster
from teams.access import user_of
from usage.alerts.views import SEARCHED, AlertFilter
from usage.models import Alert, AlertQuerySet


class AlertApiFilter(AlertFilter):
    """Those of the page; without `open` the list has resolved ones too."""

    state, cluster = None, any_cluster()
    q = WordFilter(*SEARCHED)
    open = BooleanFilter(method="by_open", label="Whether it is open; both without it.")
    condition = filters.MultipleChoiceFilter(choices=Alert.Condition.choices, distinct=False)
    claim = filters.CharFilter(method="by_claim", label="ID of the claim.")

    def by_claim(self, rows: AlertQuerySet, name: str, value: str) -> AlertQuerySet:
        return rows.filter(claim__in=valid_ids([value]))

    def by_open(self, rows: AlertQuerySet, name: str, value: bool) -> AlertQuerySet:  # noqa: FBT001 - django-filter calls it
        return rows.filter(resolved_at__isnull=value)


class AlertOut(serializers.ModelSerializer[Alert]):
    """Of a claim, a team or a cluster; the others are null. Times in `text` are in UTC."""

    team = serializers.CharField(source="team.slug", allow_null=True, default=None)
    cluster = serializers.CharField(source="cluster.name", allow_null=True, default=None)
    claim = serializers.UUIDField(source="claim_id", allow_null=True)
    url = serializers.CharField(help_text="Path of the page that says more.")

    class Meta:
        model = Alert
        fields = (
            *("id", "condition", "claim", "team", "cluster", "text", "url"),
            *("since", "opened_at", "resolved_at"),
        )
        read_only_fields = fields


class AlertViewSet(ReadOnlyModelViewSet[Alert]):
    """Alerts that concern you, newest first; resolved ones for 30 days."""

    lookup_value_converter = "uuid"
    serializer_class = AlertOut
    queryset = Alert.objects.none()
    filter_backends = (Filters,)
    filterset_class = AlertApiFilter
    pagination_class = ordered("-since", "-id")

    def get_queryset(self) -> QuerySet[Alert]:
        rows = Alert.objects.visible_to(user_of(self.request))
        return rows.select_related("team", "cluster").defer("cluster__credentials")
