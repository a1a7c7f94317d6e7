"""API of pods that get a token with their Kubernetes service account, and of what an owner allows."""

from typing import Any

from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from claims.models import WorkloadIdentity
from claims.workloads import services
from core.idempotency import Objects
from core.inputs import Input, Rows
from core.schema import refuses
from core.scopes import Scope, needs
from teams.access import team_for, user_of
from teams.login_api import GrantedTokenOut, LoginView, granted
from teams.models import Role, User
from teams.service_accounts import service_accounts_of, username_of


class KubernetesLoginIn(Input):
    cluster = serializers.CharField(max_length=63, help_text="The name that the portal has for it")
    token = serializers.CharField(
        max_length=services.MAX_TOKEN, help_text="Projected into the pod, with the audience `dragoman`"
    )


class KubernetesLoginView(LoginView):
    @refuses(401)
    @extend_schema(request=KubernetesLoginIn, responses=GrantedTokenOut)
    def post(self, request: Request) -> Response:
        """A token of at most an hour for that of a pod, whose service account an owner has allowed."""
        return granted(*services.exchange(**KubernetesLoginIn.of(request).validated_data))


class WorkloadIdentityOut(serializers.ModelSerializer[WorkloadIdentity]):
    cluster = serializers.CharField(source="place.cluster.name", read_only=True)
    namespace = serializers.CharField(source="place.namespace", read_only=True)

    class Meta:
        model = WorkloadIdentity
        fields = ("id", "cluster", "namespace", "service_account")


class WorkloadIdentityIn(Input):
    cluster = serializers.CharField(max_length=63)
    service_account = serializers.CharField(
        max_length=253, help_text="In the namespace of the team in that cluster"
    )


@needs(Scope.ADMIN)
@refuses(403)
class WorkloadIdentityViewSet(Objects[WorkloadIdentity]):
    """Kubernetes service accounts whose pods act as a service account of a team; owners change them."""

    lookup_value_converter = "uuid"
    queryset = WorkloadIdentity.objects.none()
    serializer_class = WorkloadIdentityOut
    pagination_class = Rows

    def _account(self, *, at_least: Role) -> User:
        team = team_for(user_of(self.request), self.kwargs["slug"], at_least=at_least)
        name = username_of(self.kwargs["name"], team)
        return get_object_or_404(service_accounts_of(team), username=name)

    def get_queryset(self) -> QuerySet[WorkloadIdentity]:
        return services.identities_of(self._account(at_least=Role.LEAD))

    @refuses(409)
    @extend_schema(request=WorkloadIdentityIn, responses={201: WorkloadIdentityOut})
    def create(self, request: Request, slug: str, name: str) -> Response:
        """Allow pods with a service account of the cluster to act as this one."""
        account = self._account(at_least=Role.OWNER)
        fields: dict[str, Any] = WorkloadIdentityIn.of(request).validated_data
        row = services.allow(by=user_of(request), account=account, **fields)
        return Response(WorkloadIdentityOut(row).data, status=201)

    def destroy(self, request: Request, slug: str, name: str, pk: str) -> Response:
        """End it. Tokens that pods have work up to an hour on."""
        identities = services.identities_of(self._account(at_least=Role.OWNER))
        row = get_object_or_404(identities.select_related("account__service_of"), pk=pk)
        services.disallow(by=user_of(request), identity=row)
        return Response(status=204)
