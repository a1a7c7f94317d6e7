"""Requests that wait for a decision, and those decided."""

from django.db.models import QuerySet
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import mixins, viewsets

from claims.api import outputs
from claims.approvals import inbox
from claims.models import Claim
from core.paging import Cursor
from teams.access import asker

TAB = OpenApiParameter(
    "tab", str, enum=["mine", "team", "decided"], default="mine", description="Whose decision is waited for."
)


class OldestFirst(Cursor):
    ordering = "id"


@extend_schema(parameters=[TAB])
class ApprovalViewSet(mixins.ListModelMixin, viewsets.GenericViewSet[Claim]):
    """
    The inbox of those who decide, oldest first. Decide with `claims/{id}/approve/` and `claims/{id}/deny/`.
    """

    serializer_class = outputs.ClaimOut
    pagination_class = OldestFirst
    queryset = Claim.objects.none()

    def get_queryset(self) -> QuerySet[Claim]:
        asked = self.request.query_params.get("tab", "mine")
        tab = asked if asked in ("team", "decided") else "mine"
        found = inbox(asker(self.request), tab)  # type: ignore[arg-type]
        return found.select_related("decided_by").for_list()
