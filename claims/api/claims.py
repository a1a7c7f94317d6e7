"""Claims: list, ask, read, wait, decide and end. What happens in between is in `claims.api.life`."""

from typing import Any

from django.db.models import Prefetch, QuerySet
from django.utils.translation import gettext as _
from django_filters import rest_framework as filters
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import mixins, status
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.serializers import BaseSerializer

from claims import services
from claims.api import inputs, outputs, waiting
from claims.api.explanation import ExplainOut
from claims.api.life import LifeActions
from claims.api.manifest import ManifestIn, ManifestOut, manifest_of
from claims.explain import explain
from claims.models import Allocation, Claim, ClaimQuerySet
from claims.request.changes import Wanted
from claims.states import ClaimState
from core import idempotency
from core.errors import Invalid
from core.inputs import BooleanFilter
from core.schema import key, refuses
from teams.access import asker, team_for
from teams.models import Role

KEY = key("The same key always yields the same claim.")
WAIT = OpenApiParameter(
    "wait", int, description="Wait up to so many seconds, 25 at most, until `version` is old."
)
VERSION = OpenApiParameter("version", int, description="The version of the claim that you know.")


class ClaimFilter(filters.FilterSet):
    state = filters.MultipleChoiceFilter(choices=ClaimState.choices)
    team = filters.CharFilter(field_name="team__slug")
    cluster = filters.CharFilter(field_name="cluster__name")
    profile = filters.CharFilter(method="filter_profile", label="Named alone or among others")
    mine = BooleanFilter(method="filter_mine")

    def filter_profile(self, queryset: ClaimQuerySet, name: str, value: str) -> QuerySet[Claim]:
        return queryset.of_profile(value)

    def filter_mine(self, queryset: QuerySet[Claim], name: str, value: bool) -> QuerySet[Claim]:  # noqa: FBT001
        return queryset.filter(requested_by=self.request.user) if value else queryset


class ClaimViewSet(LifeActions, mixins.ListModelMixin, mixins.RetrieveModelMixin):
    """GPUs asked for by a team, from request to release."""

    serializer_class: type[BaseSerializer[Any]] = outputs.ClaimOut
    queryset = Claim.objects.none()  # tells the schema the type of the id
    filter_backends = (filters.DjangoFilterBackend,)
    filterset_class = ClaimFilter

    def get_queryset(self) -> QuerySet[Claim]:
        visible = Claim.objects.visible_to(asker(self.request)).select_related("decided_by").for_list()
        if self.action == "list":
            return visible
        held_now = Prefetch("allocations", Allocation.objects.filter(ended_at=None), to_attr="held_now")
        return visible.prefetch_related(held_now)

    @refuses(404)
    @extend_schema(request=inputs.ClaimIn, responses={201: outputs.ClaimDetailOut}, parameters=[KEY])
    def create(self, request: Request) -> Response:
        """Ask for GPUs. A rule of the profile may approve the request at once."""
        user = asker(request)
        asked = inputs.ClaimIn(data=request.data)
        asked.is_valid(raise_exception=True)
        wish = dict(asked.validated_data)
        wish["team"] = team_for(user, wish["team"], at_least=Role.MEMBER)
        wish["cluster"] = inputs.cluster_named(wish["cluster"])
        wish["profile"] = inputs.profile_named(wish["profile"], user)
        wish["alternatives"] = [inputs.profile_named(name, user) for name in wish["alternatives"]]
        wish["together"] = inputs.further_named(wish["together"], user)
        claim = services.request_claim(by=user, key=idempotency.key_of(request), **wish)
        return self._answer(claim, status.HTTP_201_CREATED)

    @extend_schema(responses=outputs.ClaimDetailOut, parameters=[WAIT, VERSION])
    def retrieve(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Read a claim; with `wait` and `version`, answer as soon as it has changed."""
        claim = self.get_object()
        seconds, version = _whole(request, "wait"), _whole(request, "version")
        if seconds and version is not None and waiting.wait_for_change(claim, version, seconds):
            claim = self.get_object()
        return Response(outputs.ClaimDetailOut(claim).data)

    @extend_schema(request=inputs.ApproveIn, responses=outputs.ClaimDetailOut)
    @action(detail=True, methods=["post"])
    def approve(self, request: Request, pk: str) -> Response:
        """
        Approve the spec with this hash; or less of it, where anything else but a note is given.

        Where a lead and a platform admin have to agree, the claim stays requested after the first consent.
        """
        said, user = self._said(inputs.ApproveIn), asker(request)
        slug = said.pop("profile")
        profile = inputs.profile_named(slug, user) if slug else None
        parts = tuple((row["profile"], row["devices"]) for row in said.pop("together"))
        wanted = Wanted(said.pop("devices"), said.pop("duration"), profile, parts)
        claim = self.get_object()
        if wanted == Wanted():
            return self._answer(services.approve(claim=claim, by=user, **said))
        return self._answer(services.approve_with_changes(claim=claim, by=user, wanted=wanted, **said))

    @extend_schema(request=inputs.DenyIn, responses=outputs.ClaimDetailOut)
    @action(detail=True, methods=["post"])
    def deny(self, request: Request, pk: str) -> Response:
        """Say no, and why."""
        said = self._said(inputs.DenyIn)
        return self._answer(services.deny(claim=self.get_object(), by=asker(request), **said))

    @extend_schema(request=inputs.EndIn, responses=outputs.ClaimDetailOut)
    @action(detail=True, methods=["post"])
    def withdraw(self, request: Request, pk: str) -> Response:
        """Take a request back before it is decided."""
        said = self._said(inputs.EndIn)
        return self._answer(services.withdraw(claim=self.get_object(), by=asker(request), **said))

    @extend_schema(request=inputs.EndIn, responses=outputs.ClaimDetailOut)
    @action(detail=True, methods=["post"])
    def release(self, request: Request, pk: str) -> Response:
        """Give devices back. Pods that still use them keep them until they end."""
        said = self._said(inputs.EndIn)
        return self._answer(services.release(claim=self.get_object(), by=asker(request), **said))

    @extend_schema(parameters=[ManifestIn], responses=ManifestOut, filters=False)
    @action(detail=True)
    def manifest(self, request: Request, pk: str) -> Response:
        """The object that the portal writes, and snippets that use it, with the options of the query."""
        return Response(manifest_of(self.get_object(), request))

    @extend_schema(responses=ExplainOut)
    @action(detail=True)
    def explain(self, request: Request, pk: str) -> Response:
        """Why the claim is where it is, who acts next, and what Kubernetes says of its pods."""
        return Response(ExplainOut(explain(self.get_object())).data)

    @extend_schema(responses=outputs.TransitionOut(many=True), filters=False)
    @action(detail=True, pagination_class=None)
    def history(self, request: Request, pk: str) -> Response:
        """Every step of the claim, oldest first."""
        steps = self.get_object().history.select_related("by")
        return Response(outputs.TransitionOut(steps, many=True).data)

    def _said(self, serializer: type[BaseSerializer[Any]]) -> dict[str, Any]:
        said = serializer(data=self.request.data)
        said.is_valid(raise_exception=True)
        return dict(said.validated_data)

    def _answer(self, claim: Claim, code: int = status.HTTP_200_OK) -> Response:
        return Response(outputs.ClaimDetailOut(self.get_queryset().get(pk=claim.pk)).data, status=code)


def _whole(request: Request, name: str) -> int | None:
    """Raise Invalid if the parameter is there and is not a whole number."""
    text = request.query_params.get(name, "")
    if text and not (text.isascii() and text.isdigit() and len(text) < 10):
        raise Invalid(_("%(name)s has to be a whole number, not “%(text)s”.") % {"name": name, "text": text})
    return int(text) if text else None
