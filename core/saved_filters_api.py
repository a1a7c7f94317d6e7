"""API of the filters of lists that a person has saved."""

from __future__ import annotations

from typing import cast

from django.contrib.auth.models import AbstractBaseUser
from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from core.idempotency import Objects
from core.inputs import Input, ordered
from core.models import SavedFilter
from core.saved_filters import MAX_QUERY, make_default, rename_filter, save_filter
from core.schema import refuses
from core.scopes import Scope, needs
from core.transactions import service


class SavedFilterOut(serializers.ModelSerializer[SavedFilter]):
    list = serializers.CharField(source="path", help_text="Path of the page of the list")
    default_since = serializers.DateTimeField(
        allow_null=True, help_text="The latest of a list is its default; null is none"
    )

    class Meta:
        model = SavedFilter
        fields = ("id", "list", "title", "name", "query", "default_since", "url")
        read_only_fields = fields


class SavedFilterIn(Input):
    """The query of a page under a name; the same name again replaces it."""

    list = serializers.CharField(max_length=200, help_text="Path of the page, such as /claims/")
    name = serializers.CharField(max_length=60)
    query = serializers.CharField(max_length=MAX_QUERY, help_text="Such as state=allocated&sort=-created")
    title = serializers.CharField(max_length=60, allow_blank=True, default="", help_text="Of the list")
    is_default = serializers.BooleanField(default=False)


class ChangeSavedFilterIn(Input):
    """What is left out stays."""

    name = serializers.CharField(max_length=60, required=False)
    is_default = serializers.BooleanField(required=False)


@needs(Scope.REQUEST)
class SavedFilterViewSet(Objects[SavedFilter]):
    """Your saved filters. Nobody else sees them."""

    serializer_class = SavedFilterOut
    lookup_value_converter = "uuid"
    pagination_class = ordered("path", "name", "pk")
    queryset = SavedFilter.objects.none()

    def get_queryset(self) -> QuerySet[SavedFilter]:
        return SavedFilter.objects.filter(user=self.request.user.pk)

    @extend_schema(request=SavedFilterIn, responses={201: SavedFilterOut})
    def create(self, request: Request) -> Response:
        """Save a filter. 409 beyond 20 of one list."""
        fields = SavedFilterIn.of(request).validated_data
        saved = save_filter(by=cast(AbstractBaseUser, request.user), path=fields.pop("list"), **fields)
        return Response(SavedFilterOut(saved).data, status=201)

    @refuses(404, 409)
    @extend_schema(request=ChangeSavedFilterIn, responses=SavedFilterOut)
    def partial_update(self, request: Request, pk: str) -> Response:
        """Rename it, or make it the default of its list or not."""
        saved, fields = self.get_object(), ChangeSavedFilterIn.of(request).validated_data
        with service:
            if "name" in fields:
                rename_filter(saved=saved, name=fields["name"])
            if "is_default" in fields:
                make_default(saved=saved, is_default=fields["is_default"])
        saved.refresh_from_db()
        return Response(SavedFilterOut(saved).data)

    def destroy(self, request: Request, pk: str) -> Response:
        """Delete it."""
        with service:
            self.get_object().delete()
        return Response(status=204)
