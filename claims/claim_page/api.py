"""
API of one claim: the claim, why it is where it is, who uses it, its manifests, and waiting for a change.
"""

from __future__ import annotations

import time
from threading import BoundedSemaphore
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import connection
from django.db.models import Prefetch, QuerySet
from django.shortcuts import get_object_or_404
from django_filters import rest_framework as filters
from drf_spectacular.utils import OpenApiParameter, extend_schema, extend_schema_field
from rest_framework import mixins, serializers, status
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.serializers import BaseSerializer
from rest_framework.views import APIView

from claims import api_types
from claims.api_types import MatchOut
from claims.approvals import decide as approvals_decide
from claims.approvals.decide import approve_with_changes
from claims.claim_page.explain import explain
from claims.claim_page.forms import ISOLATED, OPEN, PLAIN, RESTRICTED, SnippetForm
from claims.claim_page.pods import PodGroup, PodStage, views
from claims.claim_page.snippets import KINDS, Snippet, check_of, placement_of, snippets_of
from claims.lifecycle import services as lifecycle_services
from claims.lifecycle.api import LifecycleActions
from claims.lifecycle.sharing import sharing_slots
from claims.models import Allocation, Claim, ClaimQuerySet
from claims.observation.observations import observe
from claims.plans import plan
from claims.plans.changes import WantedChange
from claims.requests.services import request_claim
from claims.states import ClaimState
from core import idempotency
from core.errors import Invalid
from core.inputs import BooleanFilter, Input
from core.schema import key, refuses
from dra import cuda
from dra.manifests import to_yaml
from dra.placement import Placement
from dra.workloads import WorkloadOptions
from teams.access import team_for, user_of
from teams.models import Role

NAMES = 20  # of pods in a group
ACTORS = ("person", "you", "portal", "cluster", "admin", "nobody")
MENDERS = ("admin", "cluster", "you")


class StepOut(serializers.Serializer[Any]):
    key = serializers.CharField()
    label = serializers.CharField()  # type: ignore[assignment]
    status = serializers.ChoiceField(choices=("done", "now", "ahead", "skipped", "bad"))
    at = serializers.DateTimeField(allow_null=True, help_text="Since when it is now, or when it was done")
    by = serializers.CharField()
    note = serializers.CharField()
    actor = serializers.ChoiceField(choices=ACTORS, help_text="Who can take it")
    next = serializers.CharField(help_text="What is to be done, of the step that is now")


class ToldOut(serializers.Serializer[Any]):
    """One thing that Kubernetes said, in its words and in plain ones; the latter are empty if not known."""

    text = serializers.CharField()
    count = serializers.IntegerField(allow_null=True, help_text="Of how many nodes it was said")
    means = serializers.CharField()
    actor = serializers.ChoiceField(choices=MENDERS, allow_blank=True)
    then = serializers.CharField(help_text="What can be done about it")


class SaidOut(serializers.Serializer[Any]):
    """A message of the scheduler, whole and taken apart."""

    message = serializers.CharField()
    nodes = serializers.IntegerField(allow_null=True)
    parts = ToldOut(many=True)
    preemption = ToldOut(many=True)


class EventOut(serializers.Serializer[Any]):
    reason = serializers.CharField(source="event.reason")
    message = serializers.CharField(source="event.message")
    source = serializers.CharField(source="event.source")  # type: ignore[assignment]
    warning = serializers.BooleanField(source="event.warning")
    count = serializers.IntegerField(source="event.count")
    first_at = serializers.DateTimeField(source="event.first_at")
    last_at = serializers.DateTimeField(source="event.last_at")
    means = serializers.CharField(source="told.means")
    actor = serializers.CharField(source="told.actor")
    then = serializers.CharField(source="told.then")


class PodsOut(serializers.Serializer[Any]):
    """Pods of which the same is to be told."""

    names = serializers.SerializerMethodField(help_text="The first twenty")
    count = serializers.IntegerField()
    stage = serializers.ChoiceField(choices=[str(stage) for stage in PodStage], source="first.stage")
    label = serializers.CharField(source="first.label")  # type: ignore[assignment]
    since = serializers.DateTimeField(allow_null=True, help_text="Of the first of them")
    nodes = serializers.ListField(child=serializers.CharField())
    missing = serializers.ListField(
        child=serializers.CharField(), source="first.missing", help_text="Names that are not there"
    )
    told = ToldOut(source="first.told")
    scheduler = SaidOut(source="first.said", allow_null=True)
    events = EventOut(many=True, source="first.events")

    def get_names(self, group: PodGroup) -> list[str]:
        return [view.pod.name for view in group.views[:NAMES]]


class FitOut(serializers.Serializer[Any]):
    """What the portal's picture of the cluster says of one claim now, beside the scheduler."""

    agrees = serializers.BooleanField(allow_null=True, help_text="With the scheduler; null if not comparable")
    sentence = serializers.CharField()
    match = MatchOut(source="preview")


class ExplainOut(serializers.Serializer[Any]):
    """Who acts next and why, the whole way of the claim, and what is seen of its pods."""

    actor = serializers.ChoiceField(choices=ACTORS, source="answer.actor")
    who = serializers.CharField(source="answer.who")
    headline = serializers.CharField(source="answer.headline")
    sentence = serializers.CharField(source="answer.sentence")
    problem = serializers.CharField()
    steps = StepOut(many=True)
    pods = PodsOut(
        many=True,
        source="groups",
        help_text="Those first that need something done; twenty groups at most",
    )
    lost = PodsOut(
        many=True, source="lost_groups", help_text="Pods that others than their owner have ended of late"
    )
    fit = FitOut(allow_null=True, help_text="While a pod waits for the scheduler")
    hears_events = serializers.BooleanField(help_text="False where the portal may not read Events")


class ManifestIn(Input):
    """Options of the snippets, as on the page of the claim; `SnippetForm` says what they may be."""

    kind = serializers.ChoiceField(
        [one.key for one in KINDS],
        required=False,
        allow_blank=True,
        help_text="Only this snippet; all without it",
    )
    image = serializers.CharField(required=False, allow_blank=True, help_text="That the containers run")
    cuda = serializers.CharField(
        required=False, allow_blank=True, help_text="Version in the image, for the check: 12.9"
    )
    request = serializers.CharField(
        required=False, allow_blank=True, help_text="The only request that the container sees"
    )
    pods = serializers.IntegerField(required=False, min_value=1, help_text="At once")
    completions = serializers.IntegerField(required=False, min_value=1, help_text="Pods of a Job in all")
    port = serializers.IntegerField(required=False, min_value=1)
    priority = serializers.CharField(required=False, allow_blank=True, help_text="PriorityClass")
    capacity = serializers.CharField(
        required=False,
        allow_blank=True,
        help_text="Label of the nodes, as karpenter.sh/capacity-type=spot, or assumed",
    )
    tolerate = serializers.ListField(
        child=serializers.CharField(), required=False, help_text="Taints of nodes: key=value:NoSchedule"
    )
    security = serializers.ChoiceField([RESTRICTED, PLAIN], required=False, allow_blank=True)
    network = serializers.ChoiceField([OPEN, ISOLATED], required=False, allow_blank=True)
    weights_claim = serializers.CharField(
        required=False, allow_blank=True, help_text="PersistentVolumeClaim with the model"
    )
    weights_image = serializers.CharField(
        required=False, allow_blank=True, help_text="OCI image with the model"
    )


class CudaPartOut(serializers.Serializer[Any]):
    level = serializers.ChoiceField([level.value for level in cuda.Level], source="verdict.level")
    sentence = serializers.CharField(source="verdict.sentence")
    devices = serializers.IntegerField()


class CudaOut(serializers.Serializer[Any]):
    """The image over all devices that match; `level` is the worst, since the claim may get any of them."""

    version = serializers.CharField()
    level = serializers.ChoiceField([level.value for level in cuda.Level])
    parts = CudaPartOut(many=True)


class SnippetOut(serializers.Serializer[Any]):
    key = serializers.CharField()
    title = serializers.CharField()
    language = serializers.CharField()
    text = serializers.CharField()
    group = serializers.CharField(help_text="run, notebook, serve, train or shell")
    filename = serializers.CharField()
    image = serializers.CharField(help_text="That its container runs; empty for none")
    cuda = serializers.SerializerMethodField(help_text="Null where no version is known, or none matters")

    @extend_schema_field(CudaOut(allow_null=True))
    def get_cuda(self, snippet: Snippet) -> Any:
        chosen: WorkloadOptions = self.context["options"]
        found: Placement = self.context["placement"]
        check = check_of(snippet, chosen, found)
        return CudaOut(check).data if check else None


class ManifestOut(serializers.Serializer[Any]):
    """The object that the portal writes, and what a person pastes to use it."""

    manifest = serializers.JSONField()
    yaml = serializers.CharField()
    snippets = SnippetOut(many=True)


def manifest_of(claim: Claim, request: Request) -> Any:
    """
    Return the answer to a GET with `ManifestIn` in its query.

    Raise `Invalid` for an option that there is not, and the serializer's error for a value that cannot be.
    """
    asked = ManifestIn(data=request.query_params)
    if unknown := sorted(set(request.query_params) - {*asked.fields, "format"}):
        raise Invalid(f"There is no option {', '.join(unknown)}. There are: {', '.join(asked.fields)}.")
    asked.is_valid(raise_exception=True)
    found = placement_of(claim)
    form = SnippetForm(request.query_params, use=plan.claim_use(claim, vendor=found.vendor), placement=found)
    if form.is_bound and not form.is_valid():
        told = {name: [str(one) for one in errors] for name, errors in form.errors.items()}
        raise serializers.ValidationError(told)
    options = form.options()
    base_url = request.build_absolute_uri("/").rstrip("/")
    every = snippets_of(claim, base_url=base_url, options=options, vendor=found.vendor)
    kind = asked.validated_data.get("kind")
    written = plan.claim_manifest(claim)
    shown = {
        "manifest": written,
        "yaml": to_yaml(written),
        "snippets": [one for one in every if kind in (None, one.key)],
    }
    return ManifestOut(shown, context={"options": options, "placement": found}).data


class ConsumerOut(serializers.Serializer[Any]):
    """A pod that has not ended. `reserved` says whether it holds a place, or still waits for one."""

    pod = serializers.CharField(source="pod.name")
    uid = serializers.CharField(source="pod.uid")
    workload = serializers.CharField(help_text='What made the pod, as "Job train"')
    node = serializers.CharField(source="pod.node_name")
    stage = serializers.CharField()
    since = serializers.DateTimeField(allow_null=True)
    reserved = serializers.SerializerMethodField()

    def get_reserved(self, view: Any) -> bool:
        return view.pod.uid in self.context["reserved"]


class ConsumersOut(serializers.Serializer[Any]):
    """Null for a template, which makes a claim for each pod, and for a claim that is not in the cluster."""

    taken = serializers.IntegerField(allow_null=True)
    most = serializers.IntegerField(allow_null=True)
    sentence = serializers.CharField()
    snippet = serializers.CharField()
    consumers = ConsumerOut(many=True)


class ConsumersView(APIView):
    """The pods of a claim. All of them must end before its devices are free."""

    @extend_schema(responses=ConsumersOut)
    def get(self, request: Request, claim_id: UUID) -> Response:
        visible = Claim.objects.visible_to(user_of(request)).select_related("cluster")
        claim = get_object_or_404(visible, pk=claim_id)
        seen = observe([claim])[claim.pk]
        room = sharing_slots(claim, seen)
        shown = {
            "taken": room.taken if room else None,
            "most": room.most if room else None,
            "sentence": room.sentence if room else "",
            "snippet": room.snippet if room else "",
            "consumers": views(claim, seen.users),
        }
        context = {"reserved": room.reserved if room else frozenset()}
        return Response(ConsumersOut(shown, context=context).data)


LONGEST = 25  # seconds: below the 30 s after which proxies and gunicorn give up
PAUSE = 0.5
PLACES = BoundedSemaphore(settings.LONG_POLLS)


def wait_for_change(claim: Claim, version: int, seconds: int) -> bool:
    """
    Return whether the claim has another version than `version`, as soon as it has, within `seconds`.

    Who waits holds a thread of the web server. Where all places for that are taken, the answer comes at once.
    """
    has_place = PLACES.acquire(blocking=False)
    try:
        return _wait(claim, version, min(seconds, LONGEST) if has_place else 0)
    finally:
        if has_place:
            PLACES.release()


def _wait(claim: Claim, version: int, seconds: int) -> bool:
    until = time.monotonic() + seconds
    while True:
        if Claim.objects.filter(pk=claim.pk).exclude(version=version).exists():
            return True
        left = until - time.monotonic()
        if left <= 0:
            return False
        if not connection.in_atomic_block:
            connection.close()  # back to the pool: who waits needs none
        time.sleep(min(PAUSE, left))


KEY = key("The same key always yields the same claim.")
WAIT = OpenApiParameter(
    "wait", int, description="Wait up to so many seconds, 25 at most, until `version` is old."
)
VERSION = OpenApiParameter("version", int, description="The version of the claim that you know.")


class ClaimApiFilter(filters.FilterSet):
    state = filters.MultipleChoiceFilter(choices=ClaimState.choices)
    team = filters.CharFilter(field_name="team__slug")
    cluster = filters.CharFilter(field_name="cluster__name")
    profile = filters.CharFilter(method="filter_profile", label="Named alone or among others")
    mine = BooleanFilter(method="filter_mine")

    def filter_profile(self, queryset: ClaimQuerySet, name: str, value: str) -> QuerySet[Claim]:
        return queryset.with_profile(value)

    def filter_mine(self, queryset: QuerySet[Claim], name: str, value: bool) -> QuerySet[Claim]:  # noqa: FBT001
        return queryset.filter(requested_by=self.request.user) if value else queryset


class ClaimViewSet(LifecycleActions, mixins.ListModelMixin, mixins.RetrieveModelMixin):
    """GPUs asked for by a team, from request to release."""

    serializer_class: type[BaseSerializer[Any]] = api_types.ClaimOut
    queryset = Claim.objects.none()  # tells the schema the type of the id
    filter_backends = (filters.DjangoFilterBackend,)
    filterset_class = ClaimApiFilter

    def get_queryset(self) -> QuerySet[Claim]:
        visible = Claim.objects.visible_to(user_of(self.request)).select_related("decided_by").for_list()
        if self.action == "list":
            return visible
        held_now = Prefetch("allocations", Allocation.objects.filter(ended_at=None), to_attr="held_now")
        return visible.prefetch_related(held_now)

    @refuses(404)
    @extend_schema(request=api_types.ClaimIn, responses={201: api_types.ClaimDetailOut}, parameters=[KEY])
    def create(self, request: Request) -> Response:
        """Ask for GPUs. A rule of the profile may approve the request at once."""
        user = user_of(request)
        asked = api_types.ClaimIn(data=request.data)
        asked.is_valid(raise_exception=True)
        wish = dict(asked.validated_data)
        wish["team"] = team_for(user, wish["team"], at_least=Role.MEMBER)
        wish["cluster"] = api_types.cluster_named(wish["cluster"])
        wish["profile"] = api_types.profile_named(wish["profile"], user)
        wish["alternatives"] = [api_types.profile_named(name, user) for name in wish["alternatives"]]
        wish["together"] = api_types.further_named(wish["together"], user)
        claim = request_claim(by=user, key=idempotency.idempotency_key(request), **wish)
        return self._answer(claim, status.HTTP_201_CREATED)

    @extend_schema(responses=api_types.ClaimDetailOut, parameters=[WAIT, VERSION])
    def retrieve(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Read a claim; with `wait` and `version`, answer as soon as it has changed."""
        claim = self.get_object()
        seconds, version = _whole(request, "wait"), _whole(request, "version")
        if seconds and version is not None and wait_for_change(claim, version, seconds):
            claim = self.get_object()
        return Response(api_types.ClaimDetailOut(claim).data)

    @extend_schema(request=api_types.ApproveIn, responses=api_types.ClaimDetailOut)
    @action(detail=True, methods=["post"])
    def approve(self, request: Request, pk: str) -> Response:
        """
        Approve the spec with this hash; or less of it, where anything else but a note is given.

        Where a lead and a platform admin have to agree, the claim stays requested after the first consent.
        """
        said, user = self._said(api_types.ApproveIn), user_of(request)
        slug = said.pop("profile")
        profile = api_types.profile_named(slug, user) if slug else None
        parts = tuple((row["profile"], row["devices"]) for row in said.pop("together"))
        wanted = WantedChange(said.pop("devices"), said.pop("duration"), profile, parts)
        claim = self.get_object()
        if wanted == WantedChange():
            return self._answer(approvals_decide.approve(claim=claim, by=user, **said))
        return self._answer(approve_with_changes(claim=claim, by=user, wanted=wanted, **said))

    @extend_schema(request=api_types.DenyIn, responses=api_types.ClaimDetailOut)
    @action(detail=True, methods=["post"])
    def deny(self, request: Request, pk: str) -> Response:
        """Say no, and why."""
        said = self._said(api_types.DenyIn)
        return self._answer(approvals_decide.deny(claim=self.get_object(), by=user_of(request), **said))

    @extend_schema(request=api_types.EndIn, responses=api_types.ClaimDetailOut)
    @action(detail=True, methods=["post"])
    def withdraw(self, request: Request, pk: str) -> Response:
        """Take a request back before it is decided."""
        said = self._said(api_types.EndIn)
        return self._answer(lifecycle_services.withdraw(claim=self.get_object(), by=user_of(request), **said))

    @extend_schema(request=api_types.EndIn, responses=api_types.ClaimDetailOut)
    @action(detail=True, methods=["post"])
    def release(self, request: Request, pk: str) -> Response:
        """Give devices back. Pods that still use them keep them until they end."""
        said = self._said(api_types.EndIn)
        return self._answer(lifecycle_services.release(claim=self.get_object(), by=user_of(request), **said))

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

    @extend_schema(responses=api_types.TransitionOut(many=True), filters=False)
    @action(detail=True, pagination_class=None)
    def history(self, request: Request, pk: str) -> Response:
        """Every step of the claim, oldest first."""
        steps = self.get_object().history.select_related("by")
        return Response(api_types.TransitionOut(steps, many=True).data)

    def _said(self, serializer: type[BaseSerializer[Any]]) -> dict[str, Any]:
        said = serializer(data=self.request.data)
        said.is_valid(raise_exception=True)
        return dict(said.validated_data)

    def _answer(self, claim: Claim, code: int = status.HTTP_200_OK) -> Response:
        return Response(api_types.ClaimDetailOut(self.get_queryset().get(pk=claim.pk)).data, status=code)


def _whole(request: Request, name: str) -> int | None:
    """Raise Invalid if the parameter is there and is not a whole number."""
    text = request.query_params.get(name, "")
    if text and not (text.isascii() and text.isdigit() and len(text) < 10):
        raise Invalid(f"{name} has to be a whole number, not “{text}”.")
    return int(text) if text else None
