"""API of the runs of a claim, with the cost of its devices meanwhile."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.db.models import QuerySet
from django.utils import timezone
from rest_framework import generics, serializers
from rest_framework.request import Request
from rest_framework.response import Response

from core.inputs import ordered
from core.schema import refuses
from usage.api import CostOut, claim_for
from usage.models import TrackedRun
from usage.tracking.runs import run_costs


class RunOut(serializers.ModelSerializer[TrackedRun]):
    """A run of MLflow. `cost` is that of all devices of the claim from its begin to its end, or until now."""

    cost = CostOut()
    url = serializers.CharField(help_text="Its page in MLflow", read_only=True)

    class Meta:
        model = TrackedRun
        fields = ("run_id", "name", "experiment", "status", "started_at", "ended_at", "url", "cost")
        read_only_fields = fields


class ClaimRunsView(generics.ListAPIView[TrackedRun]):
    """Runs of experiments that name a claim, newest first."""

    serializer_class = RunOut
    pagination_class = ordered("-started_at", "-id")
    queryset = TrackedRun.objects.none()

    def get_queryset(self) -> QuerySet[TrackedRun]:
        claim = claim_for(self.request, self.kwargs["pk"])
        return TrackedRun.objects.filter(claim=claim).select_related("tracking_server")

    def paginate_queryset(self, queryset: Any) -> Any:
        page = super().paginate_queryset(queryset) or ()
        costs = run_costs(list(page), now=timezone.now())
        for run in page:
            run.cost = costs[run.pk]
        return page

    @refuses(404)
    def get(self, request: Request, pk: UUID) -> Response:
        """Runs of MLflow that name this claim in their tag dragoman.claim; they do not add up to its cost."""
        return super().list(request)
