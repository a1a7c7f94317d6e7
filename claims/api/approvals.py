"""What waits for a decision, of all kinds, and what is decided."""

from typing import Any

from django.utils.translation import gettext as _
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers, viewsets
from rest_framework.request import Request
from rest_framework.response import Response

from claims.api import outputs
from claims.approval.inbox import TABS, Inbox, Search, Tab
from claims.models import Claim
from core.errors import Invalid
from core.paging import Numbered
from core.schema import refuses
from teams.access import asker

TAB = OpenApiParameter(
    "tab", str, enum=list(TABS), default="mine", description="Whose decision is waited for."
)
SEARCH = [
    OpenApiParameter("q", str, description="Words in names, reasons and people."),
    OpenApiParameter("team", str, description="Slug of the team."),
    OpenApiParameter("profile", str, description="Slug of the profile."),
]


class ApprovalOut(serializers.Serializer[Any]):
    """One wish that somebody decides on; `claim` is there for requests for claims."""

    id = serializers.UUIDField(source="pk")
    kind = serializers.ChoiceField(
        choices=[("claim", "claim"), ("extension", "extension"), ("quota", "quota")]
    )
    title = serializers.CharField()
    what = serializers.CharField()
    team = serializers.CharField(source="team.slug")
    asked_by = serializers.CharField(source="asked_by.username")
    asked_at = serializers.DateTimeField()
    age = serializers.ChoiceField(choices=[("fresh", "fresh"), ("aging", "aging"), ("late", "late")])
    mine = serializers.BooleanField(help_text="Whether it waits for you")
    said = serializers.ListField(child=serializers.CharField(), help_text="What else is to know")
    answer = serializers.CharField(help_text="Empty while it waits")
    decided_by = serializers.CharField(source="decided_by.username", allow_null=True, default=None)
    decided_at = serializers.DateTimeField(allow_null=True)
    url = serializers.CharField(help_text="Path of its page")
    claim = outputs.ClaimOut(allow_null=True)


class ApprovalViewSet(viewsets.GenericViewSet[Claim]):
    """
    The inbox of those who decide, oldest first; what is decided newest first.

    Decide with `claims/{id}/approve/` and `claims/{id}/deny/`, on others with the addresses of their kind.
    """

    serializer_class = ApprovalOut
    pagination_class = Numbered
    queryset = Claim.objects.none()

    @refuses(404)
    @extend_schema(parameters=[TAB, *SEARCH])
    def list(self, request: Request) -> Response:
        said = request.query_params
        tab: Tab | None = next((known for known in TABS if known == said.get("tab", "mine")), None)
        if tab is None:
            raise Invalid(_("tab is one of %(tabs)s.") % {"tabs": ", ".join(TABS)}, field="tab")
        search = Search(*(said.get(name, "").strip()[:200] for name in ("q", "team", "profile")))
        page = self.paginate_queryset(Inbox(asker(request), search).tab(tab))
        return self.get_paginated_response(ApprovalOut(page, many=True).data)
