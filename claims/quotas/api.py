"""API of quotas and of requests for more. Figures are devices, or claims where `counts` says so."""

from typing import Any

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework import serializers, status
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from claims import api_types
from claims.api_types import ClaimOut
from claims.models import Quota, QuotaRequest, RequestStatus, WrittenQuota
from claims.quotas import services
from claims.quotas.classes import unknown_class
from claims.quotas.quota_usage import quota_breakdown, quota_usage
from claims.quotas.tasks import write_cluster
from core import idempotency
from core.idempotency import Objects
from core.inputs import Input, require_known
from core.schema import key, refuses
from core.scopes import Scope, needs
from core.transactions import after_commit
from inventory.cluster_api import managed_cluster
from inventory.clusters import write_quotas
from inventory.models import Cluster
from teams.access import team_for, user_of
from teams.models import Role


class QuotaOut(serializers.Serializer[Any]):
    """A quota and its use; `over` is what counts beyond the limit."""

    id = serializers.UUIDField(source="quota.id")
    team = serializers.CharField(source="team.slug")
    device_class = serializers.CharField(source="quota.device_class")
    profile = serializers.CharField(source="quota.profile.slug", allow_null=True, default=None)
    counts = serializers.ChoiceField(source="quota.counts", choices=Quota.Counts.choices)
    limit = serializers.IntegerField(help_text="With the raises that run now")
    raised = serializers.IntegerField(help_text="What raises add to the limit now")
    guaranteed = serializers.IntegerField(help_text="Kept free for the team")
    held = serializers.IntegerField(help_text="Counted for claims whose devices are allocated")
    reserved = serializers.IntegerField(
        help_text="Counted for claims that hold no device yet: requests, and approved claims without a pod"
    )
    unmanaged = serializers.IntegerField(help_text="Used without a claim of the portal")
    free = serializers.IntegerField()
    over = serializers.IntegerField()


class ContributionOut(serializers.Serializer[Any]):
    claim = ClaimOut()
    devices = serializers.IntegerField()
    reserved = serializers.BooleanField(help_text="Whether the claim holds no device yet")
    carried = serializers.IntegerField(help_text="Counted with the claim that it replaces")


class UnmanagedPartOut(serializers.Serializer[Any]):
    """An unmanaged object: a ResourceClaim, or a pod that a device plugin serves."""

    kind = serializers.CharField(source="use.kind")
    cluster = serializers.CharField(source="use.cluster_name")
    namespace = serializers.CharField(source="use.namespace")
    name = serializers.CharField(source="use.name")
    origin = serializers.CharField(source="use.origin")
    uid = serializers.CharField(source="use.uid")
    devices = serializers.IntegerField()


class RaiseOut(serializers.Serializer[Any]):
    devices = serializers.IntegerField()
    starts_at = serializers.DateTimeField()
    ends_at = serializers.DateTimeField()


class QuotaDetailOut(QuotaOut):
    contributions = ContributionOut(many=True)
    unmanaged_parts = UnmanagedPartOut(many=True)
    raises = RaiseOut(many=True)


class RequestForMoreOut(serializers.Serializer[Any]):
    id = serializers.UUIDField()
    team = serializers.CharField(source="team.slug")
    reason = serializers.CharField()
    requested_by = serializers.CharField(source="requested_by.username")
    requested_at = serializers.DateTimeField()
    status = serializers.ChoiceField(choices=RequestStatus.choices)
    decided_by = serializers.CharField(source="decided_by.username", allow_null=True, default=None)
    decided_at = serializers.DateTimeField(allow_null=True)
    decision_note = serializers.CharField()


class QuotaRequestOut(RequestForMoreOut):
    """A request for a limit of `devices` in total; `until` null is permanent."""

    device_class = serializers.CharField()
    profile = serializers.CharField(source="profile.slug", allow_null=True, default=None)
    counts = serializers.ChoiceField(choices=Quota.Counts.choices)
    devices = serializers.IntegerField()
    until = serializers.DateTimeField(allow_null=True)


def limit_asked_for(request: Request, body: type[Input], *, at_least: Role) -> dict[str, Any]:
    """Return the fields of a limit. Raises Http404 of the team, Forbidden, and UnknownName."""
    user, fields = user_of(request), dict(body.of(request).validated_data)
    fields["team"] = team_for(user, fields["team"], at_least=at_least)
    fields["profile"] = api_types.profile_named(fields["profile"], user) if fields["profile"] else None
    surprise = unknown_class(fields["device_class"], fields["team"])
    require_known(surprise, allowed=fields.pop("allow_unknown"), field="device_class")
    return fields


@needs(Scope.ADMIN)
class QuotaViewSet(Objects[Quota]):
    """Quotas of your teams."""

    volatile = frozenset((
        "held", "reserved", "unmanaged", "free", "over", "contributions", "unmanaged_parts", "raised",
        "raises",
    ))  # fmt: skip
    serializer_class = QuotaOut
    queryset = Quota.objects.none()

    def get_queryset(self) -> QuerySet[Quota]:
        return Quota.objects.visible_to(user_of(self.request)).select_related("team", "profile")

    def list(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        page = self.paginate_queryset(self.filter_queryset(self.get_queryset()))
        return self.get_paginated_response(QuotaOut(quota_usage(page or []), many=True).data)

    @extend_schema(responses=QuotaDetailOut)
    def retrieve(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """One quota with all parts of its figure."""
        quota = self.get_object()
        shown = QuotaOut(quota_usage([quota])[0]).data
        parts = quota_breakdown(quota)
        return Response(
            {
                **shown,
                "contributions": ContributionOut(parts.claims, many=True).data,
                "unmanaged_parts": UnmanagedPartOut(parts.unmanaged, many=True).data,
                "raises": RaiseOut(parts.raises, many=True).data,
            }
        )

    @refuses(404)
    @extend_schema(request=api_types.QuotaIn, responses={201: QuotaOut})
    def create(self, request: Request) -> Response:
        """Set a limit of a team: of a device class, a profile, or its claims. Platform admins only."""
        fields = limit_asked_for(request, api_types.QuotaIn, at_least=Role.VIEWER)
        quota = services.set_quota(by=user_of(request), **fields)
        return Response(QuotaOut(quota_usage([quota])[0]).data, status=status.HTTP_201_CREATED)

    def destroy(self, request: Request, pk: str) -> Response:
        """Remove the limit. Claims go on; new ones of a team without a quota are refused. Admins only."""
        services.remove_quota(by=user_of(request), quota=self.get_object())
        return Response(status=204)


class EnforcementIn(Input):
    enforced = serializers.BooleanField(help_text="False removes the portal's ResourceQuotas")


class EnforcementOut(serializers.Serializer[Any]):
    """`problems` are namespaces whose ResourceQuota could not be written, with the reason."""

    enforced = serializers.BooleanField()
    written = serializers.IntegerField(help_text="Namespaces with a ResourceQuota of the portal")
    problems = serializers.DictField(child=serializers.CharField())


@needs(Scope.ADMIN)
@refuses(403, 404, 409)
class EnforcementView(APIView):
    """Whether quotas hold in a cluster for kubectl too, as ResourceQuotas. Platform admins only."""

    @extend_schema(responses=EnforcementOut)
    def get(self, request: Request, name: str) -> Response:
        """Read what is written."""
        return Response(_enforcement(managed_cluster(request, name)))

    @extend_schema(request=EnforcementIn, responses={202: EnforcementOut})
    def put(self, request: Request, name: str) -> Response:
        """Write the ResourceQuotas of all teams now, or remove them. The same again repairs drift."""
        managed_cluster(request, name)
        body = EnforcementIn.of(request)
        cluster = write_quotas(name=name, write=body.validated_data["enforced"], by=user_of(request))
        after_commit(write_cluster, str(cluster.pk))
        return Response(_enforcement(cluster), status=status.HTTP_202_ACCEPTED)


def _enforcement(cluster: Cluster) -> dict[str, Any]:
    rows = WrittenQuota.objects.filter(team_namespace__cluster=cluster)
    failing = rows.exclude(problem="").values_list("team_namespace__namespace", "problem")
    return {
        "enforced": cluster.write_quotas,
        "written": rows.exclude(observed_hard={}).count(),
        "problems": dict(failing),
    }


KEY = key("The same key asks once.")


@needs(Scope.REQUEST)
class AskedViewSet(Objects[QuotaRequest]):
    keyed_by_service = frozenset(("create",))
    queryset = QuotaRequest.objects.none()

    @needs(Scope.ADMIN)
    @refuses(409)
    @extend_schema(request=api_types.DenyIn)
    @action(detail=True, methods=["post"])
    def deny(self, request: Request, pk: str) -> Response:
        """Deny the request with a reason. Platform admins only."""
        fields = api_types.DenyIn.of(request).validated_data
        asked = services.deny_quota_request(quota_request=self.get_object(), by=user_of(request), **fields)
        return Response(self.get_serializer(asked).data)

    @refuses(409)
    @extend_schema(request=None)
    @action(detail=True, methods=["post"])
    def withdraw(self, request: Request, pk: str) -> Response:
        """Withdraw the request before it is decided."""
        asked = services.withdraw_quota_request(quota_request=self.get_object(), by=user_of(request))
        return Response(self.get_serializer(asked).data)


class QuotaRequestViewSet(AskedViewSet):
    """Quota requests of your teams, with their decisions."""

    serializer_class = QuotaRequestOut

    def get_queryset(self) -> QuerySet[QuotaRequest]:
        visible = QuotaRequest.objects.visible_to(user_of(self.request)).of_quota()
        return visible.select_related("team", "profile", "requested_by", "decided_by")

    @refuses(404)
    @extend_schema(request=api_types.QuotaRequestIn, responses={201: QuotaRequestOut}, parameters=[KEY])
    def create(self, request: Request) -> Response:
        """Request a limit of `devices` for a team, until a time or permanently."""
        fields = limit_asked_for(request, api_types.QuotaRequestIn, at_least=Role.MEMBER)
        key = idempotency.idempotency_key(request)
        asked = services.request_quota(by=user_of(request), key=key, **fields)
        return Response(QuotaRequestOut(asked).data, status=status.HTTP_201_CREATED)

    @needs(Scope.ADMIN)
    @extend_schema(request=api_types.QuotaGrantIn, responses=QuotaRequestOut)
    @action(detail=True, methods=["post"])
    def approve(self, request: Request, pk: str) -> Response:
        """Approve the requested limit or a lower one. Platform admins only."""
        fields = api_types.QuotaGrantIn.of(request).validated_data
        asked = services.approve_quota_request(quota_request=self.get_object(), by=user_of(request), **fields)
        return Response(QuotaRequestOut(asked).data)
