"""The catalogue."""

from typing import Any

from django.db.models import QuerySet
from rest_framework import mixins, viewsets
from rest_framework.request import Request
from rest_framework.response import Response

from claims.api import outputs
from claims.catalogue import entries
from claims.models import Profile
from teams.access import asker


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
