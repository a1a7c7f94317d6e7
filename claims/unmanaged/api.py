"""API of unmanaged claims, and of adoption."""

from typing import Any

from django.db.models import QuerySet
from django.http import Http404
from django.urls import reverse
from django_filters import CharFilter
from drf_spectacular.utils import extend_schema
from rest_framework import serializers, status
from rest_framework.generics import ListAPIView
from rest_framework.request import Request
from rest_framework.response import Response

from claims import api_types
from claims.models import Claim
from claims.observation.unmanaged import UnmanagedClaim, unmanaged_objects
from claims.unmanaged import services
from claims.unmanaged.views import SEARCHED, UnmanagedFilter
from core.errors import Invalid
from core.filters import Filters
from core.idempotency import IdempotentWrites
from core.inputs import Input
from core.listing import WordFilter
from core.scopes import Scope, needs
from inventory.filters import any_cluster
from inventory.models import ResourceClaim
from teams.access import user_of
from teams.models import User


class DeviceHoldingOut(serializers.Serializer[Any]):
    """A device, or a share of one, that an unmanaged claim holds."""

    request = serializers.CharField()
    driver = serializers.CharField()
    pool = serializers.CharField()
    device = serializers.CharField()
    since = serializers.DateTimeField()


class UnmanagedClaimOut(serializers.Serializer[Any]):
    """A ResourceClaim that no claim of the portal owns. `origin` is how it was created."""

    uid = serializers.CharField(source="row.uid")
    name = serializers.CharField(source="row.name")
    namespace = serializers.CharField(source="row.namespace")
    cluster = serializers.CharField(source="row.cluster.name")
    team = serializers.CharField(source="row.team")
    origin = serializers.ChoiceField(choices=ResourceClaim.Origin.choices, source="row.origin")
    explanation = serializers.CharField()
    state = serializers.CharField(source="row.state", help_text="As kubectl shows it")
    requested_devices = serializers.IntegerField(help_text="Devices that it can hold at most")
    held = DeviceHoldingOut(many=True)
    pods = serializers.IntegerField(help_text="Consumers that it is reserved for")
    allocated_at = serializers.DateTimeField(source="row.allocated_at", allow_null=True)
    created_at = serializers.DateTimeField(source="row.created_at", allow_null=True)
    adoptable = serializers.BooleanField(source="is_adoptable")


class AdoptIn(Input):
    owner = serializers.CharField(max_length=150, help_text="User name of a member of the team")
    profile = serializers.CharField(max_length=40, help_text="Slug of a profile with the same classes")
    duration = api_types.SpelledDuration(help_text="From now on: 36h, 1d 12h, PT36H, or seconds")
    reason = serializers.CharField(max_length=500, allow_blank=True, default="")
    over_quota = serializers.BooleanField(default=False, help_text="Adopt although over quota")


class UnmanagedApiFilter(UnmanagedFilter):
    q, cluster, namespace = WordFilter(*SEARCHED), any_cluster(), CharFilter()


class UnmanagedClaimsView(ListAPIView[ResourceClaim]):
    """ResourceClaims in the namespaces of your teams that no claim of the portal owns."""

    serializer_class = UnmanagedClaimOut
    filter_backends = (Filters,)
    filterset_class = UnmanagedApiFilter
    queryset = ResourceClaim.objects.none()

    def get_queryset(self) -> QuerySet[ResourceClaim]:
        return unmanaged_objects(ResourceClaim, user_of(self.request))

    def paginate_queryset(self, queryset: Any) -> Any:
        return [UnmanagedClaim(row) for row in super().paginate_queryset(queryset) or []]


@needs(Scope.ADMIN)
class AdoptView(IdempotentWrites):
    """Adopt an unmanaged claim. Platform admins only."""

    @extend_schema(request=AdoptIn, responses={201: api_types.ClaimOut})
    def post(self, request: Request, uid: str) -> Response:
        user = user_of(request)
        row = unmanaged_objects(ResourceClaim, user).filter(uid=uid).first() or _adopted_object(uid, user)
        fields = AdoptIn.of(request).validated_data
        owner = User.objects.filter(username=fields["owner"]).first()
        if owner is None:
            raise Invalid(f"There is no person {fields['owner']}.")
        fields |= {"owner": owner, "profile": api_types.profile_named(fields["profile"], user)}
        claim = services.adopt(row=row, by=user, **fields)
        shown = Claim.objects.select_related("decided_by").for_list().get(pk=claim.pk)
        headers = {"Location": reverse("api-claim-detail", args=[claim.pk])}
        return Response(api_types.ClaimOut(shown).data, status=status.HTTP_201_CREATED, headers=headers)


def _adopted_object(uid: str, user: User) -> ResourceClaim:
    """
    Return an object that is adopted already, so that a repeated request gets the same response; else 404.
    """
    mine = Claim.objects.visible_to(user).filter(object_uid=uid, origin=Claim.Origin.ADOPTED)
    row = ResourceClaim.objects.filter(uid=uid, cluster__in=mine.values("cluster")).first()
    if row is None:
        raise Http404
    return row
