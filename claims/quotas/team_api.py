"""API of teams for platform admins: archive and restore one, and its namespaces in the clusters."""

from __future__ import annotations

from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.generics import GenericAPIView
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from claims.models import TeamNamespace
from claims.quotas.classes import unknown_namespace
from claims.quotas.namespaces import archive_team, restore_team, set_namespace
from core.idempotency import IdempotentWrites
from core.inputs import AskingInput, Rows, page_of, require_known
from core.schema import refuses
from core.scopes import Scope, needs
from inventory.cluster_api import managed_cluster
from teams.access import require_admin, team_for, user_of
from teams.api import TeamDetailOut, team_out
from teams.models import Team


def admin_team(request: Request, slug: str) -> Team:
    """Return the team; 404 for outsiders, 403 for everybody else but platform admins."""
    team = team_for(user_of(request), slug)
    require_admin(user_of(request))
    return team


@needs(Scope.ADMIN)
class ArchiveView(IdempotentWrites):
    @extend_schema(request=None, responses=TeamDetailOut)
    @refuses(404, 409)
    def post(self, request: Request, slug: str) -> Response:
        """
        Archive a team: members, quotas, namespaces and delegations are removed, claims and cost stay. 409
        while claims or requests are open. Platform admins only.
        """
        archive_team(by=user_of(request), team=admin_team(request, slug))
        return Response(team_out(user_of(request), slug))


@needs(Scope.ADMIN)
class RestoreView(IdempotentWrites):
    @extend_schema(request=None, responses=TeamDetailOut)
    @refuses(404, 409)
    def post(self, request: Request, slug: str) -> Response:
        """Take an archived team back, without members, namespaces and quotas. Platform admins only."""
        restore_team(by=user_of(request), team=admin_team(request, slug))
        return Response(team_out(user_of(request), slug))


class NamespaceOut(serializers.ModelSerializer[TeamNamespace]):
    cluster = serializers.CharField(source="cluster.name")

    class Meta:
        model = TeamNamespace
        fields = ("cluster", "namespace")
        read_only_fields = fields


class NamespaceIn(AskingInput):
    namespace = serializers.CharField(max_length=63, help_text="Name of an RFC 1123 label")


@refuses(404)
class NamespacesView(GenericAPIView[TeamNamespace]):
    pagination_class = Rows

    @extend_schema(responses=NamespaceOut(many=True))
    def get(self, request: Request, slug: str) -> Response:
        """The namespaces of a team that you may see, by cluster."""
        rows = TeamNamespace.objects.filter(team=team_for(user_of(request), slug)).select_related("cluster")
        return page_of(self, rows.order_by("cluster__name"), NamespaceOut)


@needs(Scope.ADMIN)
@refuses(403, 404, 409)
class NamespaceView(APIView):
    """The namespace in which the claims of a team live in one cluster. Platform admins change it."""

    @extend_schema(responses=NamespaceOut)
    def get(self, request: Request, slug: str, cluster: str) -> Response:
        """The namespace of a team that you may see in one cluster."""
        rows = TeamNamespace.objects.filter(team=team_for(user_of(request), slug)).select_related("cluster")
        return Response(NamespaceOut(get_object_or_404(rows, cluster__name=cluster)).data)

    @extend_schema(request=NamespaceIn, responses=NamespaceOut)
    def put(self, request: Request, slug: str, cluster: str) -> Response:
        """Set the namespace. 409 if another team has it, or while the team has live claims there."""
        team, row = admin_team(request, slug), managed_cluster(request, cluster)
        fields = NamespaceIn.of(request).validated_data
        namespace = fields["namespace"]
        surprise = unknown_namespace(namespace, row)
        require_known(surprise, allowed=fields["allow_unknown"], field="namespace")
        set_namespace(by=user_of(request), team=team, cluster=row, namespace=namespace)
        return Response({"cluster": row.name, "namespace": namespace})

    @extend_schema(responses={204: None})
    def delete(self, request: Request, slug: str, cluster: str) -> Response:
        """Take the namespace away from the team; it stays in the cluster."""
        team = admin_team(request, slug)
        set_namespace(by=user_of(request), team=team, cluster=managed_cluster(request, cluster), namespace="")
        return Response(status=204)
