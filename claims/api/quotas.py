"""What teams may hold at once and how much of it they do."""

from typing import Any

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework import mixins, status, viewsets
from rest_framework.request import Request
from rest_framework.response import Response

from claims import services
from claims.api import inputs, quota_outputs
from claims.models import Quota
from claims.quota.parts import parts_of
from claims.quota.quotas import standing_of
from core.schema import refuses
from teams.access import asker, team_for
from teams.keyed import KeyedWrites


class QuotaViewSet(
    KeyedWrites, mixins.ListModelMixin, mixins.RetrieveModelMixin, viewsets.GenericViewSet[Quota]
):
    """Quotas of the asker's teams."""

    serializer_class = quota_outputs.QuotaOut
    queryset = Quota.objects.none()

    def get_queryset(self) -> QuerySet[Quota]:
        return Quota.objects.visible_to(asker(self.request)).select_related("team", "profile")

    def list(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        page = self.paginate_queryset(self.filter_queryset(self.get_queryset()))
        return self.get_paginated_response(quota_outputs.QuotaOut(standing_of(page or []), many=True).data)

    @extend_schema(responses=quota_outputs.QuotaDetailOut)
    def retrieve(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """One quota with everything that adds up to its figure."""
        quota = self.get_object()
        shown = quota_outputs.QuotaOut(standing_of([quota])[0]).data
        parts = parts_of(quota)
        return Response(
            {
                **shown,
                "contributions": quota_outputs.ContributionOut(parts.claims, many=True).data,
                "outside_parts": quota_outputs.OutsidePartOut(parts.outside, many=True).data,
                "raises": quota_outputs.RaiseOut(parts.raises, many=True).data,
            }
        )

    @refuses(404)
    @extend_schema(request=inputs.QuotaIn, responses={200: quota_outputs.QuotaOut})
    def create(self, request: Request) -> Response:
        """Set a limit of a team: of a device class, a profile, or its claims. Platform admins only."""
        user = asker(request)
        asked = inputs.QuotaIn(data=request.data)
        asked.is_valid(raise_exception=True)
        said = dict(asked.validated_data)
        said["team"] = team_for(user, said["team"])
        said["profile"] = inputs.profile_named(said["profile"], user) if said["profile"] else None
        quota = services.set_quota(by=user, **said)
        return Response(quota_outputs.QuotaOut(standing_of([quota])[0]).data, status=status.HTTP_200_OK)
