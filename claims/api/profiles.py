"""The catalogue, and what a request would come to."""

from typing import Any

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework import mixins, viewsets
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from claims.api import inputs, outputs
from claims.catalogue import entries
from claims.models import Profile
from claims.preview import preview
from teams.access import asker, team_for
from teams.models import Role


class ProfileViewSet(mixins.ListModelMixin, mixins.RetrieveModelMixin, viewsets.GenericViewSet[Profile]):
    """Profiles that the asker may see."""

    serializer_class = outputs.ProfileOut
    queryset = Profile.objects.none()
    lookup_field = "slug"

    def get_queryset(self) -> QuerySet[Profile]:
        return Profile.objects.visible_to(asker(self.request)).filter(current__isnull=False)

    def list(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        page = self.paginate_queryset(self.filter_queryset(self.get_queryset()))
        return self.get_paginated_response(
            outputs.ProfileOut(entries(asker(request), page or []), many=True).data
        )

    def retrieve(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        found = entries(asker(request), [self.get_object()])
        return Response(outputs.ProfileOut(found[0]).data)


class MatchView(APIView):
    """What matches now, quota, who decides, the manifest, and what is wrong with the request."""

    @extend_schema(request=inputs.WishIn, responses=outputs.PreviewOut)
    def post(self, request: Request) -> Response:
        user = asker(request)
        asked = inputs.WishIn(data=request.data)
        asked.is_valid(raise_exception=True)
        wish = dict(asked.validated_data)
        wish["team"] = team_for(user, wish["team"], at_least=Role.MEMBER)
        wish["cluster"] = inputs.cluster_named(wish["cluster"])
        wish["profile"] = inputs.profile_named(wish["profile"], user)
        return Response(outputs.PreviewOut(preview(by=user, **wish)).data)
