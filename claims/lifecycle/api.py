"""API of changes to a running claim: another end, another size, another owner."""

from typing import Any

from django.db.models import Prefetch, QuerySet
from django.urls import reverse
from drf_spectacular.utils import extend_schema, extend_schema_view
from rest_framework import serializers, status, viewsets
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.serializers import BaseSerializer

from claims import api_types
from claims.lifecycle import keep_alive
from claims.lifecycle.services import (
    accept_object,
    approve_extension,
    deny_extension,
    eligible_owners,
    evict,
    extend,
    label_again,
    shorten,
    transfer,
    withdraw_extension,
)
from claims.models import Allocation, Claim, ClaimQuerySet, Extension, RequestStatus
from claims.models.limits import MAX_DEVICES
from claims.requests.services import resize
from core import idempotency
from core.errors import Invalid
from core.idempotency import IdempotentWrites, Objects
from core.inputs import Input, ordered, page_of
from core.schema import key, refuses
from core.scopes import Scope, needs
from teams.access import user_of

KEY = key("Repeating a request with the same key returns the same result.")


class ExtendIn(Input):
    until = serializers.DateTimeField()
    reason = serializers.CharField(max_length=500, allow_blank=True, default="")


class ShortenIn(Input):
    until = serializers.DateTimeField(help_text="Not past, and before the end of the claim")


class TransferIn(Input):
    to = serializers.CharField(max_length=150, help_text="User name of a member of the team")


class ResizeIn(Input):
    """Fields that are left out stay as they are; the name is new in any case."""

    profile = serializers.CharField(max_length=40, required=False, help_text="Slug of the profile")
    devices = serializers.IntegerField(
        min_value=1, max_value=MAX_DEVICES, required=False, help_text="Per claim, of the profile named first"
    )
    together = serializers.ListField(
        child=api_types.PartIn(),
        max_length=32,
        required=False,
        help_text="For a claim with several profiles: those whose numbers change; 0 removes one",
    )
    parallel = serializers.IntegerField(min_value=1, max_value=1000, required=False)
    duration = api_types.SpelledDuration(required=False, help_text="36h, 1d 12h, PT36H, or seconds")
    name = serializers.CharField(max_length=63, allow_blank=True, default="", help_text="Of the new object")
    reason = serializers.CharField(max_length=2000, required=False, allow_blank=True)


class ExtensionOut(serializers.ModelSerializer[Extension]):
    """A request to extend a claim until `until`; `previous_end` is its end at the time of the request."""

    claim = serializers.UUIDField(source="claim_id")
    requested_by = serializers.CharField(source="requested_by.username")
    decided_by = serializers.CharField(source="decided_by.username", allow_null=True, default=None)
    status = serializers.ChoiceField(choices=RequestStatus.choices)

    class Meta:
        model = Extension
        fields = (
            "id", "claim", "previous_end", "until", "reason", "requested_by", "requested_at", "status",
            "decide_by", "decided_by", "decided_at", "decision_note",
        )  # fmt: skip
        read_only_fields = fields


class ApproveExtensionIn(Input):
    note = serializers.CharField(max_length=500, allow_blank=True, default="")


class KeepAliveOut(serializers.ModelSerializer[Claim]):
    """How long the program of a claim may be silent, and when the claim ends unless it is renewed."""

    keep_alive = api_types.SecondsField(allow_null=True)

    class Meta:
        model = Claim
        fields = ("state", "keep_alive", "ends_unless_renewed_at")
        read_only_fields = fields


class AcceptIn(Input):
    reason = serializers.CharField(max_length=500, allow_blank=True, default="")


def detailed(rows: ClaimQuerySet) -> ClaimQuerySet:
    """Load what a claim is shown with."""
    held_now = Prefetch("allocations", Allocation.objects.filter(ended_at=None), to_attr="held_now")
    return rows.select_related("decided_by").for_list().prefetch_related(held_now)


@needs(Scope.REQUEST)
class LifecycleActions(IdempotentWrites, viewsets.GenericViewSet[Claim]):
    """The actions on a running claim: extend, shorten, transfer, resize; and evict, once it has ended."""

    keyed_by_service = frozenset(("create", "extend", "resize"))

    @extend_schema(request=ExtendIn, responses={201: ExtensionOut}, parameters=[KEY])
    @action(detail=True, methods=["post"])
    def extend(self, request: Request, pk: str) -> Response:
        """Extend the claim: at once where a rule allows it, else `status` is `waiting`."""
        fields = ExtendIn.of(request).validated_data
        key = idempotency.idempotency_key(request)
        extension = extend(claim=self.get_object(), by=user_of(request), key=key, **fields)
        headers = {"Location": reverse("api-extension-detail", args=[extension.pk])}
        return Response(ExtensionOut(extension).data, status=status.HTTP_201_CREATED, headers=headers)

    @extend_schema(request=ShortenIn, responses=api_types.ClaimDetailOut)
    @action(detail=True, methods=["post"])
    def shorten(self, request: Request, pk: str) -> Response:
        """Shorten the claim. It can be extended to the granted end again without approval."""
        fields = ShortenIn.of(request).validated_data
        return self.claim_response(shorten(claim=self.get_object(), by=user_of(request), **fields))

    @extend_schema(request=TransferIn, responses=api_types.ClaimDetailOut)
    @action(detail=True, methods=["post"])
    def transfer(self, request: Request, pk: str) -> Response:
        """Make another member of the team the owner."""
        claim, name = self.get_object(), TransferIn.of(request).validated_data["to"]
        to = next((person for person in eligible_owners(claim.team) if person.username == name), None)
        if to is None:
            raise Invalid(f"{claim.team} has no member {name}.", field="to")
        return self.claim_response(transfer(claim=claim, by=user_of(request), to=to))

    @extend_schema(request=ResizeIn, responses={201: api_types.ClaimDetailOut}, parameters=[KEY])
    @action(detail=True, methods=["post"])
    def resize(self, request: Request, pk: str) -> Response:
        """
        Request a replacement: another count, profile or duration. This claim is released when the new one
        holds its devices; until then quota is charged for the larger of both.
        """
        fields, user = ResizeIn.of(request).validated_data, user_of(request)
        if "profile" in fields:
            fields["profile"] = api_types.profile_named(fields["profile"], user)
        if "together" in fields:
            fields["parts"] = {row["profile"]: row["devices"] for row in fields.pop("together")}
        key = idempotency.idempotency_key(request)
        return self.claim_response(
            resize(claim=self.get_object(), by=user, key=key, **fields), status.HTTP_201_CREATED
        )

    @extend_schema(request=api_types.EndIn, responses=api_types.ClaimDetailOut)
    @action(detail=True, methods=["post"])
    def evict(self, request: Request, pk: str) -> Response:
        """Evict the pods that still hold devices of an ended claim, if its end policy allows it."""
        fields = api_types.EndIn.of(request).validated_data
        return self.claim_response(evict(claim=self.get_object(), by=user_of(request), **fields))

    @extend_schema(responses=ExtensionOut(many=True), filters=False)
    @action(detail=True, pagination_class=ordered("requested_at", "pk"))
    def extensions(self, request: Request, pk: str) -> Response:
        """All extension requests, oldest first."""
        rows = self.get_object().extensions.select_related("requested_by", "decided_by")
        return page_of(self, rows, ExtensionOut)

    @extend_schema(request=AcceptIn, responses=api_types.ClaimDetailOut)
    @action(detail=True, methods=["post"])
    def accept(self, request: Request, pk: str) -> Response:
        """Accept the object that somebody recreated with the approved spec. Platform admins only."""
        fields = AcceptIn.of(request).validated_data
        return self.claim_response(accept_object(claim=self.get_object(), by=user_of(request), **fields))

    @extend_schema(request=None, responses={202: api_types.ClaimDetailOut})
    @action(detail=True, methods=["post"])
    def label(self, request: Request, pk: str) -> Response:
        """Restore the portal's labels on the object of the claim, in a moment."""
        claim = label_again(claim=self.get_object(), by=user_of(request))
        return self.claim_response(claim, status.HTTP_202_ACCEPTED)

    @refuses(403, 404, 409)
    @extend_schema(request=None, responses=KeepAliveOut)
    @action(detail=True, methods=["put"], url_path="keep-alive")
    def renew(self, request: Request, pk: str) -> Response:
        """
        Renew a claim that its program keeps alive; 409 if it has ended.

        `keep_alive` is null if nobody has to renew it, as after somebody chose to keep it.
        """
        return Response(KeepAliveOut(keep_alive.renew(claim=self.get_object(), by=user_of(request))).data)

    @refuses(403, 404, 409)
    @extend_schema(request=None, responses={200: api_types.ClaimDetailOut})
    @renew.mapping.delete
    def keep(self, request: Request, pk: str) -> Response:
        """Keep the claim until its own end, whether or not its program is alive."""
        return self.claim_response(keep_alive.keep(claim=self.get_object(), by=user_of(request)))

    def claim_response(self, claim: Claim, code: int = status.HTTP_200_OK) -> Response:
        """Answer with what was written, also to who has lost the claim by it or in this moment."""
        written = detailed(Claim.objects.all()).get(pk=claim.pk)
        headers = {"Location": reverse("api-claim-detail", args=[claim.pk])} if code == 201 else None
        return Response(api_types.ClaimDetailOut(written).data, status=code, headers=headers)


@needs(Scope.REQUEST)
@extend_schema_view(list=extend_schema(description="Extension requests that wait for a decision."))
class ExtensionViewSet(Objects[Extension]):
    """Extension requests. Create one with `claims/{id}/extend/`."""

    serializer_class: type[BaseSerializer[Any]] = ExtensionOut
    pagination_class = ordered("id")
    queryset = Extension.objects.none()

    def get_queryset(self) -> QuerySet[Extension]:
        rows = Extension.objects.visible_to(user_of(self.request))
        rows = rows.select_related("claim__team", "requested_by", "decided_by")
        return rows.filter(status=RequestStatus.WAITING) if self.action == "list" else rows

    @needs(Scope.APPROVE)
    @extend_schema(request=ApproveExtensionIn, responses=ExtensionOut)
    @action(detail=True, methods=["post"])
    def approve(self, request: Request, pk: str) -> Response:
        """Approve the extension."""
        fields = ApproveExtensionIn.of(request).validated_data
        decided = approve_extension(extension=self.get_object(), by=user_of(request), **fields)
        return Response(ExtensionOut(decided).data)

    @needs(Scope.APPROVE)
    @extend_schema(request=api_types.DenyIn, responses=ExtensionOut)
    @action(detail=True, methods=["post"])
    def deny(self, request: Request, pk: str) -> Response:
        """Deny the extension with a reason."""
        fields = api_types.DenyIn.of(request).validated_data
        decided = deny_extension(extension=self.get_object(), by=user_of(request), **fields)
        return Response(ExtensionOut(decided).data)

    @extend_schema(request=None, responses=ExtensionOut)
    @action(detail=True, methods=["post"])
    def withdraw(self, request: Request, pk: str) -> Response:
        """Withdraw an undecided extension request."""
        return Response(
            ExtensionOut(withdraw_extension(extension=self.get_object(), by=user_of(request))).data
        )
