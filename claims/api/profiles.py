"""The catalogue: read by all, written by platform admins."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet
from django.http import Http404
from drf_spectacular.utils import OpenApiParameter, PolymorphicProxySerializer, extend_schema
from rest_framework import mixins, status, viewsets
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from claims import services
from claims.api import profile_shapes as shapes
from claims.catalogue.entries import catalogue, entries
from claims.catalogue.filter import narrowed
from claims.catalogue.profile_change import held, proposed, versions_of
from claims.models import Profile
from claims.services.profiles import LIMITS
from core.inputs import is_true
from core.paging import positive
from core.schema import refuses
from teams.access import asker, require_admin
from teams.keyed import KeyedWrites

DRY_RUN = OpenApiParameter("dry_run", bool, description="Only say what would change.")

SAVED = PolymorphicProxySerializer(
    component_name="ProfileOrPlan",
    serializers=[shapes.ProfileOut, shapes.PlanOut],
    resource_type_field_name=None,
)


class ProfileViewSet(
    KeyedWrites, mixins.ListModelMixin, mixins.RetrieveModelMixin, viewsets.GenericViewSet[Profile]
):
    """Profiles that the asker may see."""

    serializer_class = shapes.ProfileOut
    queryset = Profile.objects.none()
    lookup_field = "slug"

    def get_queryset(self) -> QuerySet[Profile]:
        return Profile.objects.visible_to(asker(self.request)).filter(current__isnull=False)

    @extend_schema(parameters=[shapes.ProfilesIn])
    def list(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """The catalogue, a page at a time; narrowed or sorted it comes whole."""
        asked = shapes.ProfilesIn(data=request.query_params)
        asked.is_valid(raise_exception=True)
        positive(request, "limit")  # refused also where all comes at once
        if not set(request.query_params) & set(asked.fields):
            page = self.paginate_queryset(self.filter_queryset(self.get_queryset()))
            found = entries(asker(request), page or [])
            return self.get_paginated_response(shapes.ProfileOut(found, many=True).data)
        sort = asked.validated_data.get("sort") or "title"
        kept = narrowed(catalogue(asker(request)), asked.wanted, sort)
        answer = {"next": None, "previous": None, "results": shapes.ProfileOut(kept, many=True).data}
        return Response(answer)

    def retrieve(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        return self._answer(self.get_object())

    @extend_schema(
        request=shapes.NewProfileIn,
        parameters=[DRY_RUN],
        responses={201: shapes.ProfileOut, 200: shapes.PlanOut},
    )
    def create(self, request: Request) -> Response:
        """Make a profile with its first version. Platform admins only."""
        fields = self._said(shapes.NewProfileIn)
        dry = is_true(request, "dry_run")
        version = services.save_profile(by=asker(request), profile=None, dry_run=dry, **fields)
        if dry:
            return Response(plan_of(fields["slug"], fields))
        return self._answer(version.profile, status.HTTP_201_CREATED)

    @refuses(409)
    @extend_schema(request=shapes.ChangeProfileIn, parameters=[DRY_RUN], responses=SAVED)
    def update(self, request: Request, slug: str) -> Response:
        """Write a profile anew; a new version is made if spec or limits differ. Platform admins only."""
        fields = self._said(shapes.ChangeProfileIn) | {"slug": slug}
        dry, profile = is_true(request, "dry_run"), self._profile(slug)
        version = services.save_profile(by=asker(request), profile=profile, dry_run=dry, **fields)
        return Response(plan_of(slug, fields)) if dry else self._answer(version.profile)

    @extend_schema(responses=shapes.VersionOut(many=True))
    @action(detail=True, pagination_class=None)
    def versions(self, request: Request, slug: str) -> Response:
        """Every version, newest first."""
        profile = self.get_object()
        rows = versions_of(profile)
        for row in rows:
            row.current = row.pk == profile.current_id  # type: ignore[attr-defined]
        return Response(shapes.VersionOut(rows, many=True).data)

    @extend_schema(request=None, responses=shapes.ProfileOut)
    @action(detail=True, methods=["post"])
    def retire(self, request: Request, slug: str) -> Response:
        """Take it out of the catalogue; claims that have it keep it. Platform admins only."""
        require_admin(asker(request))
        return self._answer(services.retire_profile(by=asker(request), profile=self._profile(slug)))

    @extend_schema(request=None, responses=shapes.ProfileOut)
    @action(detail=True, methods=["post"])
    def restore(self, request: Request, slug: str) -> Response:
        """Put a retired profile back into the catalogue. Platform admins only."""
        require_admin(asker(request))
        return self._answer(services.restore_profile(by=asker(request), profile=self._profile(slug)))

    def _said(self, shape: type[shapes.ChangeProfileIn]) -> dict[str, Any]:
        require_admin(asker(self.request))
        said = shape(data=self.request.data)
        said.is_valid(raise_exception=True)
        return dict(said.validated_data)

    def _profile(self, slug: str) -> Profile:
        found = Profile.objects.select_related("current").filter(slug=slug).first()
        if found is None:
            raise Http404
        return found

    def _answer(self, profile: Profile, code: int = status.HTTP_200_OK) -> Response:
        (entry,) = entries(asker(self.request), [profile])
        return Response(shapes.ProfileOut(entry).data, status=code)


def plan_of(slug: str, fields: dict[str, Any]) -> dict[str, Any]:
    """Return what saving would change, as `PlanOut`; where there is no profile yet, nothing."""
    profile = Profile.objects.select_related("current").filter(slug=slug).first()
    if profile is None or profile.current is None:
        return {"version": 1, "makes_version": True, "spec_diff": "", "limits": [], "live_claims": 0}
    difference = proposed(profile.current, fields["spec"], {name: fields[name] for name in LIMITS})
    plan = {
        "version": profile.current.number + bool(difference),
        "makes_version": bool(difference),
        "spec_diff": "\n".join(map(str, difference.lines)),
        "limits": difference.limits,
        "live_claims": sum(one.live for one in held(profile)),
    }
    return dict(shapes.PlanOut(plan).data)
