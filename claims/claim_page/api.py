"""
API of claims: list, request, decide, release; and of one claim: explanation, pods, manifests, long polling.
"""

from __future__ import annotations

import time
from datetime import datetime
from functools import partial
from threading import BoundedSemaphore
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import connection
from django.db.models import QuerySet, TextChoices
from django.shortcuts import get_object_or_404
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
from claims.claim_filters import ClaimApiFilter
from claims.claim_page.explain import Explanation, explain
from claims.claim_page.forms import ISOLATED, OPEN, PLAIN, RESTRICTED, SnippetForm
from claims.claim_page.pods import PodGroup, PodStage, pod_views
from claims.claim_page.snippets import KINDS, Snippet, claim_snippets, cuda_check, placement_for
from claims.lifecycle import services as lifecycle_services
from claims.lifecycle.api import LifecycleActions, detailed
from claims.lifecycle.consumers import sharing_slots
from claims.models import Allocation, Claim
from claims.observation.observations import observe
from claims.plans import plan
from claims.plans.changes import WantedChange
from claims.requests.cluster_choice import cluster_for
from claims.requests.services import request_claim
from core import idempotency
from core.conditional import IF_NONE_MATCH, matches, version_tag
from core.errors import Invalid
from core.filters import Filters
from core.inputs import Input, Texts, ordered, page_of, valid_ids
from core.schema import key, refuses
from core.scopes import Scope, needs
from dra import cuda
from dra.manifests import to_yaml
from teams.access import user_of

MAX_POD_NAMES = 20  # of a group
ACTORS = ("person", "you", "pod-owner", "portal", "cluster", "admin", "nobody")
DIAGNOSIS_ACTORS = ("admin", "cluster", "you")


class StepOut(serializers.Serializer[Any]):
    key = serializers.CharField()
    label = serializers.CharField()  # type: ignore[assignment]
    status = serializers.ChoiceField(choices=("done", "now", "ahead", "skipped", "bad"))
    at = serializers.DateTimeField(
        allow_null=True, help_text="When it was done, or began if it is the current one"
    )
    by = serializers.CharField()
    note = serializers.CharField()
    actor = serializers.ChoiceField(choices=ACTORS, help_text="Who can take it")
    next = serializers.CharField(help_text="What to do; for the current step only")


class DiagnosisOut(serializers.Serializer[Any]):
    """A message of Kubernetes and its meaning; `means`, `actor` and `then` are empty if it is unknown."""

    text = serializers.CharField()
    count = serializers.IntegerField(allow_null=True, help_text="Number of nodes it is about")
    meaning = serializers.CharField(help_text="In plain words")
    actor = serializers.ChoiceField(choices=DIAGNOSIS_ACTORS, allow_blank=True)
    next_step = serializers.CharField(help_text="What to do about it")


class SchedulerMessageOut(serializers.Serializer[Any]):
    """A message of the scheduler and its reasons."""

    message = serializers.CharField()
    nodes = serializers.IntegerField(allow_null=True)
    reasons = DiagnosisOut(many=True)
    preemption = DiagnosisOut(many=True)


class EventOut(serializers.Serializer[Any]):
    reason = serializers.CharField(source="event.reason")
    message = serializers.CharField(source="event.message")
    source = serializers.CharField(source="event.source")  # type: ignore[assignment]
    warning = serializers.BooleanField(source="event.warning")
    count = serializers.IntegerField(source="event.count")
    first_at = serializers.DateTimeField(source="event.first_at")
    last_at = serializers.DateTimeField(source="event.last_at")
    meaning = serializers.CharField(source="diagnosis.meaning")
    actor = serializers.CharField(source="diagnosis.actor")
    next_step = serializers.CharField(source="diagnosis.next_step")


class PodGroupOut(serializers.Serializer[Any]):
    """Pods with the same stage for the same reason."""

    names = serializers.SerializerMethodField(help_text="At most 20")
    count = serializers.IntegerField()
    stage = serializers.ChoiceField(choices=[str(stage) for stage in PodStage], source="first.stage")
    label = serializers.CharField(source="first.label")  # type: ignore[assignment]
    since = serializers.DateTimeField(allow_null=True, help_text="Start of the earliest")
    nodes = Texts()
    missing = Texts(source="first.missing", help_text="Names of objects that do not exist")
    diagnosis = DiagnosisOut(source="first.diagnosis")
    scheduler = SchedulerMessageOut(source="first.scheduler_message", allow_null=True)
    events = EventOut(many=True, source="first.events")

    def get_names(self, group: PodGroup) -> list[str]:
        return [view.pod.name for view in group.views[:MAX_POD_NAMES]]


class FitOut(serializers.Serializer[Any]):
    """Whether one such claim fits in the cluster snapshot now, compared with the scheduler."""

    agrees = serializers.BooleanField(allow_null=True, help_text="With the scheduler; null if not comparable")
    sentence = serializers.CharField()
    match = MatchOut(source="preview")


class ExplainOut(serializers.Serializer[Any]):
    """Who acts next and why, all steps of the claim, and its pods."""

    actor = serializers.ChoiceField(choices=ACTORS, source="next_action.actor")
    who = serializers.CharField(source="next_action.who")
    headline = serializers.SerializerMethodField(help_text="As the reader sees it: “You act next.”")
    sentence = serializers.CharField(source="next_action.sentence")
    command = serializers.CharField(
        source="next_action.command", help_text="For a shell, with which the actor does it; may be empty"
    )
    problem = serializers.CharField()
    steps = StepOut(many=True)
    pods = PodGroupOut(
        many=True,
        source="groups",
        help_text="Those that need action come first; at most 20 groups",
    )
    lost = PodGroupOut(
        many=True,
        source="lost_groups",
        help_text="Pods that something other than their owner stopped recently",
    )
    fit = FitOut(allow_null=True, help_text="While a pod waits for the scheduler")
    hears_events = serializers.BooleanField(
        source="can_read_events", help_text="False if the portal may not list Events"
    )

    version = serializers.SerializerMethodField(help_text="Of the claim that it explains")

    def get_version(self, explanation: Explanation) -> int:
        version: int = self.context["version"]
        return version

    def get_headline(self, explanation: Explanation) -> str:
        return explanation.next_action.headline_for(self.context["claim"], self.context["reader"])


Optional = partial(serializers.CharField, required=False, allow_blank=True)


class ManifestIn(Input):
    """Options of the snippets, the same as on the claim page; `SnippetForm` checks the values."""

    kind = serializers.ChoiceField(
        [kind.key for kind in KINDS],
        required=False,
        allow_blank=True,
        help_text="Only this snippet; all if left out",
    )
    image = Optional(help_text="Image of the containers")
    cuda = Optional(help_text="CUDA version of the image, for the compatibility check: 12.9")
    request = Optional(help_text="The only device request that the container gets")
    pods = serializers.IntegerField(required=False, min_value=1, help_text="Concurrent pods")
    completions = serializers.IntegerField(required=False, min_value=1, help_text="Total pods of a Job")
    port = serializers.IntegerField(required=False, min_value=1)
    priority = Optional(help_text="PriorityClass")
    capacity = Optional(help_text="Node label, such as karpenter.sh/capacity-type=spot; or “assumed”")
    tolerate = Texts(required=False, help_text="Node taints to tolerate: key=value:NoSchedule")
    security = serializers.ChoiceField([RESTRICTED, PLAIN], required=False, allow_blank=True)
    network = serializers.ChoiceField([OPEN, ISOLATED], required=False, allow_blank=True)
    weights_claim = Optional(help_text="PersistentVolumeClaim with the model")
    weights_image = Optional(help_text="OCI image with the model")


class CudaPartOut(serializers.Serializer[Any]):
    level = serializers.ChoiceField([level.value for level in cuda.Level], source="verdict.level")
    sentence = serializers.CharField(source="verdict.sentence")
    devices = serializers.IntegerField()


class CudaOut(serializers.Serializer[Any]):
    """CUDA compatibility of the image with all matching devices; `level` is the worst of them."""

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
    image = serializers.CharField(help_text="Image of its container; empty for none")
    cuda = serializers.SerializerMethodField(help_text="Null if no version is known or CUDA does not apply")

    @extend_schema_field(CudaOut(allow_null=True))
    def get_cuda(self, snippet: Snippet) -> Any:
        check = cuda_check(snippet, self.context["options"], self.context["placement"])
        return CudaOut(check).data if check else None


class ManifestOut(serializers.Serializer[Any]):
    """The object that the portal creates, and snippets that use it."""

    manifest = serializers.JSONField()
    yaml = serializers.CharField()
    snippets = SnippetOut(many=True)


def manifest_response(claim: Claim, request: Request) -> Any:
    """
    Return the manifest and the snippets for the options in the query.

    Raises `Invalid` for an unknown option, and a ValidationError for a value that is not allowed.
    """
    query = ManifestIn(data=request.query_params)
    query.is_valid(raise_exception=True)
    placement = placement_for(claim)
    form = SnippetForm(request.query_params, use=plan.claim_use(claim, placement), placement=placement)
    if form.is_bound and not form.is_valid():
        raise serializers.ValidationError(
            {name: [str(error) for error in errors] for name, errors in form.errors.items()}
        )
    options = form.options()
    base_url = request.build_absolute_uri("/").rstrip("/")
    snippets = claim_snippets(claim, base_url=base_url, options=options, placement=placement)
    kind = query.validated_data.get("kind")
    manifest = plan.claim_manifest(claim)
    content = {
        "manifest": manifest,
        "yaml": to_yaml(manifest),
        "snippets": [snippet for snippet in snippets if kind in (None, snippet.key)],
    }
    return ManifestOut(content, context={"options": options, "placement": placement}).data


class ConsumerOut(serializers.Serializer[Any]):
    """A pod that has not ended. `reserved`: whether the claim is reserved for it; else it still waits."""

    pod = serializers.CharField(source="pod.name")
    uid = serializers.CharField(source="pod.uid")
    workload = serializers.CharField(help_text='Controller of the pod, as "Job train"')
    node = serializers.CharField(source="pod.node_name")
    stage = serializers.CharField()
    since = serializers.DateTimeField(allow_null=True)
    reserved = serializers.SerializerMethodField()

    def get_reserved(self, view: Any) -> bool:
        return view.pod.uid in self.context["reserved"]


class ConsumersOut(serializers.Serializer[Any]):
    """`taken` and `most` are null for a template and for a claim that is not in the cluster."""

    used = serializers.IntegerField(allow_null=True, help_text="Pods for which the claim is reserved")
    limit = serializers.IntegerField(allow_null=True, help_text="Limit of Kubernetes")
    sentence = serializers.CharField()
    snippet = serializers.CharField()
    consumers = ConsumerOut(many=True)


class ConsumersView(APIView):
    """The pods of a claim. Its devices are freed when all of them have ended."""

    @extend_schema(responses=ConsumersOut)
    def get(self, request: Request, pk: UUID) -> Response:
        visible = Claim.objects.visible_to(user_of(request)).select_related("cluster")
        claim = get_object_or_404(visible, pk=pk)
        seen = observe([claim])[claim.pk]
        slots = sharing_slots(claim, seen)
        content = {
            "used": slots.used if slots else None,
            "limit": slots.limit if slots else None,
            "sentence": slots.sentence if slots else "",
            "snippet": slots.snippet if slots else "",
            "consumers": pod_views(claim, seen.users, seen.holders),
        }
        context = {"reserved": slots.reserved if slots else frozenset()}
        return Response(ConsumersOut(content, context=context).data)


MAX_WAIT = 25  # seconds, below the timeout of 30 s of proxies and gunicorn
POLL_INTERVAL = 0.5  # seconds
WAIT_SLOTS = BoundedSemaphore(settings.LONG_POLLS)


class WokenBy(TextChoices):
    """Why long polling answers; of several reasons the first in this order."""

    EARLIER = "earlier", "it had another version when the request came"
    STATE = "state", "its state"
    DECISION = "decision", "a decision, or a first approval"
    DEVICES = "devices", "devices that it got or lost"
    END = "end", "its end"
    OWNER = "owner", "its owner"
    PROBLEM = "problem", "a problem, or its end"
    PODS = "pods", "what its pods do in the cluster"
    COMMENT = "comment", "a comment"
    OTHER = "other", "anything else"
    TIMEOUT = "timeout", "nothing in the given time"
    BUSY = "busy", "nothing; too many wait, so this did not: ask again in some seconds"


# What a claim shows, by the reason that is given if it changes.
SHOWN = {
    WokenBy.STATE: ("state",),
    WokenBy.DECISION: ("decided_by_id", "decided_at", "decision_note"),
    WokenBy.END: ("expires_at", "duration"),
    WokenBy.OWNER: ("requested_by_id",),
    WokenBy.PROBLEM: ("problem",),
    WokenBy.PODS: ("observation_hash", "object_uid"),
}


def wait_for_change(claim: Claim, version: int, seconds: int) -> WokenBy:
    """
    Return why, as soon as the claim's version differs from `version`, or after `seconds`.

    Waiting holds a thread of the web server, so the number of waits is limited; beyond it, returns at once.
    """
    if claim.version != version:
        return WokenBy.EARLIER
    if not WAIT_SLOTS.acquire(blocking=False):
        return WokenBy.BUSY
    try:
        comments = claim.comments.count()
        if not _wait(claim, version, min(seconds, MAX_WAIT)):
            return WokenBy.TIMEOUT
    finally:
        WAIT_SLOTS.release()
    return _difference(claim, comments)


def _difference(before: Claim, comments: int) -> WokenBy:
    """Return in what a claim differs from what was read of it before."""
    after = Claim.objects.get(pk=before.pk)
    changed = {
        reason
        for reason, names in SHOWN.items()
        if any(getattr(before, name) != getattr(after, name) for name in names)
    }
    held = {row.pk for row in before.held_now}  # type: ignore[attr-defined]  # a query has set it
    if held != set(Allocation.objects.filter(claim=before.pk, ended_at=None).values_list("pk", flat=True)):
        changed.add(WokenBy.DEVICES)
    if after.comments.count() != comments:
        changed.add(WokenBy.COMMENT)
    return next((reason for reason in WokenBy if reason in changed), WokenBy.OTHER)


def _wait(claim: Claim, version: int, seconds: int) -> bool:
    deadline = time.monotonic() + seconds
    while True:
        if Claim.objects.filter(pk=claim.pk).exclude(version=version).exists():
            return True
        left = deadline - time.monotonic()
        if left <= 0:
            return False
        if not connection.in_atomic_block:
            connection.close()  # return it to the pool while this thread sleeps
        time.sleep(min(POLL_INTERVAL, left))


class WaitedClaimOut(api_types.ClaimDetailOut):
    """A claim with its spec and the devices that it holds now, and why long polling has ended."""

    woken_by = serializers.ChoiceField(
        choices=WokenBy.choices, allow_null=True, read_only=True, help_text="Null without `wait`"
    )

    class Meta:
        model = Claim
        fields = (*api_types.ClaimDetailOut.Meta.fields, "woken_by")
        read_only_fields = fields


KEY = key("Repeating a request with the same key returns the same claim.")
WAIT = OpenApiParameter(
    "wait", int, description="Seconds to wait, at most 25, for a version other than `version`."
)
VERSION = OpenApiParameter("version", int, description="The claim version that you already have.")


# What else of a claim's body can change without its version: the defaults of its end policy.
ALSO_SHOWN = ("ends_unless_renewed_at", "cluster__end_policy", "profile_version__end_policy")


def _claim_tag(version: int, renewed: datetime | None, *also: object) -> str:
    """Return the ETag of a claim. If-Match does not compare its last part, the time of a renewal."""
    tag = version_tag(version, *also)
    return f'{tag[:-1]}.{renewed.timestamp():.0f}"' if renewed else tag


def _at(row: Any, path: str) -> Any:
    for name in path.split("__"):
        row = getattr(row, name)
    return row


class ClaimViewSet(LifecycleActions, mixins.RetrieveModelMixin):
    """Claims of your teams, from request to release."""

    serializer_class: type[BaseSerializer[Any]] = api_types.ClaimOut
    queryset = Claim.objects.none()  # tells the schema the type of the id
    filter_backends = (Filters,)
    filterset_class = ClaimApiFilter

    def get_queryset(self) -> QuerySet[Claim]:
        visible = Claim.objects.visible_to(user_of(self.request))
        if self.action == "list":
            return visible
        return detailed(visible)

    @extend_schema(responses=api_types.ClaimOut(many=True))
    def list(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Claims of your teams, from request to release."""
        page = self.paginate_queryset(self.filter_queryset(self.get_queryset()).values("id"))
        return self.get_paginated_response(api_types.claims_by_keys([row["id"] for row in page or ()]))

    @refuses(404)
    @extend_schema(request=api_types.ClaimIn, responses={201: api_types.ClaimDetailOut}, parameters=[KEY])
    def create(self, request: Request) -> Response:
        """Request GPUs. An approval rule may approve the request automatically."""
        user = user_of(request)
        fields = api_types.ClaimIn.of(request).validated_data
        fields["team"] = api_types.team_named(fields["team"], user)
        fields["profile"] = api_types.profile_named(fields["profile"], user)
        fields["alternatives"] = [api_types.profile_named(name, user) for name in fields["alternatives"]]
        fields["together"] = api_types.further_named(fields["together"], user)
        key, earlier = idempotency.idempotency_key(request), None
        if not fields["cluster"]:  # sent again, another one may be the best
            earlier = Claim.objects.select_related("cluster").filter(requested_by=user, key=key).first()
        fields["cluster"] = earlier.cluster if earlier else cluster_for(fields)
        claim = request_claim(by=user, key=key, **fields)
        return self.claim_response(claim, status.HTTP_201_CREATED)

    @extend_schema(responses=WaitedClaimOut, parameters=[WAIT, VERSION])
    def retrieve(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Read a claim. With `wait` and `version`, the response is sent as soon as the claim changes."""
        seconds, version = _whole_number(request, "wait"), _whole_number(request, "version")
        has_some = not seconds and IF_NONE_MATCH in request.headers
        if has_some and (etag := self._etag(kwargs["pk"])) and matches(request, etag):
            return Response(status=status.HTTP_304_NOT_MODIFIED, headers={"ETag": etag})
        claim, woken_by = self.get_object(), None
        if seconds and version is not None:
            woken_by = wait_for_change(claim, version, seconds)
            if woken_by not in (WokenBy.TIMEOUT, WokenBy.BUSY, WokenBy.EARLIER):
                claim = self.get_object()
        claim.woken_by = woken_by  # type: ignore[attr-defined]  # for the serializer
        etag = _claim_tag(claim.version, *(_at(claim, name) for name in ALSO_SHOWN))
        return Response(WaitedClaimOut(claim).data, headers={"ETag": etag})

    def _etag(self, key: str) -> str:
        """Return the ETag of a claim in one query, "" without one that the reader may see."""
        rows = Claim.objects.visible_to(user_of(self.request)).filter(pk__in=valid_ids([key]))
        row = rows.values_list("version", *ALSO_SHOWN).first()
        return _claim_tag(row[0], *row[1:]) if row else ""

    @needs(Scope.APPROVE)
    @extend_schema(request=api_types.ApproveIn, responses=api_types.ClaimDetailOut)
    @action(detail=True, methods=["post"])
    def approve(self, request: Request, pk: str) -> Response:
        """
        Approve the spec with this hash; with anything but a note, approve less than was requested.

        If a lead and a platform admin have to agree, the claim stays `requested` after the first consent.
        """
        fields, user = api_types.ApproveIn.of(request).validated_data, user_of(request)
        slug = fields.pop("profile")
        profile = api_types.profile_named(slug, user) if slug else None
        parts = tuple((row["profile"], row["devices"]) for row in fields.pop("together"))
        change = WantedChange(fields.pop("devices"), fields.pop("duration"), profile, parts)
        claim = self.get_object()
        if change == WantedChange():
            return self.claim_response(approvals_decide.approve(claim=claim, by=user, **fields))
        return self.claim_response(approve_with_changes(claim=claim, by=user, wanted=change, **fields))

    @needs(Scope.APPROVE)
    @extend_schema(request=api_types.DenyIn, responses=api_types.ClaimDetailOut)
    @action(detail=True, methods=["post"])
    def deny(self, request: Request, pk: str) -> Response:
        """Deny the request with a reason."""
        fields = api_types.DenyIn.of(request).validated_data
        return self.claim_response(
            approvals_decide.deny(claim=self.get_object(), by=user_of(request), **fields)
        )

    @extend_schema(request=api_types.EndIn, responses=api_types.ClaimDetailOut)
    @action(detail=True, methods=["post"])
    def withdraw(self, request: Request, pk: str) -> Response:
        """Withdraw a request before it is decided."""
        fields = api_types.EndIn.of(request).validated_data
        return self.claim_response(
            lifecycle_services.withdraw(claim=self.get_object(), by=user_of(request), **fields)
        )

    @extend_schema(request=api_types.EndIn, responses=api_types.ClaimDetailOut)
    @action(detail=True, methods=["post"])
    def release(self, request: Request, pk: str) -> Response:
        """Release the claim. What happens to running pods is its `end_policy`."""
        fields = api_types.EndIn.of(request).validated_data
        return self.claim_response(
            lifecycle_services.release(claim=self.get_object(), by=user_of(request), **fields)
        )

    @extend_schema(parameters=[ManifestIn], responses=ManifestOut, filters=False)
    @action(detail=True)
    def manifest(self, request: Request, pk: str) -> Response:
        """Read the object that the portal creates, and snippets that use it."""
        return Response(manifest_response(self.get_object(), request))

    @extend_schema(responses=ExplainOut)
    @action(detail=True)
    def explain(self, request: Request, pk: str) -> Response:
        """Read who acts next, why, and what Kubernetes reports about the pods."""
        claim = self.get_object()
        context = {"claim": claim, "reader": user_of(request), "version": claim.version}
        return Response(ExplainOut(explain(claim), context=context).data)

    @extend_schema(responses=api_types.TransitionOut(many=True), filters=False)
    @action(detail=True, pagination_class=ordered("at", "pk"))
    def history(self, request: Request, pk: str) -> Response:
        """List every step of the claim, oldest first."""
        steps = self.get_object().history.select_related("by")
        return page_of(self, steps, api_types.TransitionOut)


def _whole_number(request: Request, name: str) -> int | None:
    """Return the parameter as a number, None if it is missing. Raises Invalid for anything else."""
    text = request.query_params.get(name, "")
    if text and not (text.isascii() and text.isdigit() and len(text) < 10):
        raise Invalid(f"{name} must be a whole number, not “{text}”.")
    return int(text) if text else None
