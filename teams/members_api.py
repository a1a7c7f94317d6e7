"""API of the members of a team: what its people page does."""

from __future__ import annotations

from typing import Any

from django.db.models import F, QuerySet
from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from core.idempotency import Objects
from core.inputs import Input, ordered
from core.schema import refuses
from core.scopes import Scope, needs
from teams import services
from teams.access import team_for, user_of
from teams.api import MemberOut
from teams.models import Membership, Role, Team


class RoleIn(Input):
    role = serializers.ChoiceField(choices=Role.choices)


class MemberIn(RoleIn):
    """The exact user name: people cannot be listed by searching."""

    username = serializers.CharField(max_length=150)


@needs(Scope.ADMIN)
@refuses(404)
class MemberViewSet(Objects[Membership]):
    """Members of a team that you may see. Owners add, change and remove them; everybody may leave."""

    serializer_class = MemberOut
    pagination_class = ordered("username", "pk")
    queryset = Membership.objects.none()
    lookup_field = "username"

    def team(self, *, at_least: Role = Role.VIEWER) -> Team:
        return team_for(user_of(self.request), self.kwargs["slug"], at_least=at_least)

    def get_queryset(self) -> QuerySet[Membership]:
        return self.team().memberships.select_related("user").annotate(username=F("user__username"))

    def get_object(self) -> Membership:
        return self.member(self.team())

    def member(self, team: Team) -> Membership:
        rows = team.memberships.select_related("user")
        return get_object_or_404(rows, user__username=self.kwargs["username"])

    @extend_schema(request=MemberIn, responses={201: MemberOut})
    def create(self, request: Request, **_path: Any) -> Response:
        """Add a person by user name. 422 if nobody has it, 409 for a member."""
        fields = MemberIn.of(request).validated_data
        added = services.add_member(
            by=user_of(request), team=self.team(), username=fields["username"], role=Role(fields["role"])
        )
        return Response(MemberOut(added).data, status=201)

    @refuses(404, 409)
    @extend_schema(request=RoleIn, responses=MemberOut)
    def update(self, request: Request, **_path: Any) -> Response:
        """Change the role of a member. 409 for the only owner."""
        team, role = self.team(at_least=Role.OWNER), Role(RoleIn.of(request).validated_data["role"])
        services.change_role(by=user_of(request), team=team, member=self.member(team), role=role)
        return Response(MemberOut(self.member(team)).data)

    @refuses(404, 409)
    def destroy(self, request: Request, **_path: Any) -> Response:
        """Remove a member, or leave the team. Their claims stay with it. 409 for the only owner."""
        leaves = self.kwargs["username"] == user_of(request).username
        team = self.team(at_least=Role.VIEWER if leaves else Role.OWNER)
        services.remove_member(by=user_of(request), team=team, member=self.member(team))
        return Response(status=204)
