"""Asking for more quota, and deciding on it."""

from typing import Any

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework import mixins, status, viewsets
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from claims import services
from claims.api import inputs
from claims.api.quota_outputs import QuotaRequestOut
from claims.models import QuotaRequest
from core import idempotency
from core.schema import key, refuses
from teams.access import asker, team_for
from teams.keyed import KeyedWrites
from teams.models import Role

KEY = key("The same key asks once.")


class QuotaRequestViewSet(
    KeyedWrites, mixins.ListModelMixin, mixins.RetrieveModelMixin, viewsets.GenericViewSet[QuotaRequest]
):
    """Requests for more quota of the asker's teams, with their answers."""

    keyed_by_service = frozenset(("create",))
    serializer_class = QuotaRequestOut
    queryset = QuotaRequest.objects.none()

    def get_queryset(self) -> QuerySet[QuotaRequest]:
        visible = QuotaRequest.objects.visible_to(asker(self.request))
        return visible.select_related("team", "profile", "asked_by", "decided_by")

    @refuses(404)
    @extend_schema(request=inputs.QuotaRequestIn, responses={201: QuotaRequestOut}, parameters=[KEY])
    def create(self, request: Request) -> Response:
        """Ask that the limit of a team be so many devices, until a moment or for good."""
        user = asker(request)
        said = self._said(inputs.QuotaRequestIn)
        said["team"] = team_for(user, said["team"], at_least=Role.MEMBER)
        said["profile"] = inputs.profile_named(said["profile"], user) if said["profile"] else None
        asked = services.ask_for_quota(by=user, key=idempotency.key_of(request), **said)
        return Response(QuotaRequestOut(asked).data, status=status.HTTP_201_CREATED)

    @extend_schema(request=inputs.QuotaGrantIn, responses=QuotaRequestOut)
    @action(detail=True, methods=["post"])
    def approve(self, request: Request, pk: str) -> Response:
        """Give what was asked for, or less of it. Platform admins only."""
        said = self._said(inputs.QuotaGrantIn)
        asked = services.approve_quota_request(quota_request=self.get_object(), by=asker(request), **said)
        return Response(QuotaRequestOut(asked).data)

    @extend_schema(request=inputs.DenyIn, responses=QuotaRequestOut)
    @action(detail=True, methods=["post"])
    def deny(self, request: Request, pk: str) -> Response:
        """Say no, and why. Platform admins only."""
        said = self._said(inputs.DenyIn)
        asked = services.deny_quota_request(quota_request=self.get_object(), by=asker(request), **said)
        return Response(QuotaRequestOut(asked).data)

    @extend_schema(request=None, responses=QuotaRequestOut)
    @action(detail=True, methods=["post"])
    def withdraw(self, request: Request, pk: str) -> Response:
        """Take it back before it is decided."""
        asked = services.withdraw_quota_request(quota_request=self.get_object(), by=asker(request))
        return Response(QuotaRequestOut(asked).data)

    def _said(self, shape: type[Any]) -> dict[str, Any]:
        asked = shape(data=self.request.data)
        asked.is_valid(raise_exception=True)
        return dict(asked.validated_data)
