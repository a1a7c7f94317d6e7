"""API of people and invitations, for platform admins: what the pages of people do."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from core.errors import Invalid
from core.filters import has_text
from core.idempotency import IdempotentWrites, Objects
from core.inputs import Input, Texts, ordered
from core.schema import refuses
from core.scopes import Scope, needs
from portal.setup.member_requests import ask_for_member
from portal.setup.people import kept_by, send_link
from teams.access import require_admin, team_for, user_of
from teams.api import MembershipOut
from teams.identity.suspension import change_person
from teams.invitations import invite, revoke_invitation
from teams.models import Invitation, Role, Team, User
from teams.session_api import EndedOut
from teams.sign_out import sign_out_person

SEARCH = OpenApiParameter("q", str, description="Words in user names, names and email addresses.")


class PersonOut(serializers.ModelSerializer[User]):
    name = serializers.CharField(source="label", read_only=True)
    platform_admin = serializers.BooleanField(source="is_superuser", read_only=True)
    active = serializers.BooleanField(source="is_active", read_only=True)
    teams = MembershipOut(source="memberships", many=True, read_only=True)

    class Meta:
        model = User
        fields = (
            "id", "username", "name", "email", "platform_admin", "break_glass", "active", "last_login",
            "teams",
        )  # fmt: skip
        read_only_fields = ("break_glass",)


class ChangedPersonOut(PersonOut):
    warning = serializers.CharField(help_text="What to know of this change, empty if there is nothing")

    class Meta:
        model = User
        fields = (*PersonOut.Meta.fields, "warning")
        read_only_fields = ("break_glass",)


class PersonIn(Input):
    """What is left out stays."""

    platform_admin = serializers.BooleanField(required=False)
    break_glass = serializers.BooleanField(
        required=False,
        help_text="True: password and passkeys work whatever an identity provider says of the person",
    )
    active = serializers.BooleanField(
        required=False, help_text="False ends the sign-in of the person and revokes their tokens"
    )


@needs(Scope.ADMIN, reading=True)
@refuses(403)
class PersonViewSet(Objects[User]):
    """Everybody with an account. Platform admins only."""

    serializer_class = PersonOut
    volatile = frozenset(("last_login",))
    lookup_value_converter = "uuid"
    pagination_class = ordered("username", "pk")
    queryset = User.objects.none()

    def get_queryset(self) -> QuerySet[User]:
        require_admin(user_of(self.request))
        people = User.objects.filter(service_of=None).prefetch_related("memberships__team")
        for word in self.request.query_params.get("q", "").split() if self.action == "list" else ():
            people = people.filter(has_text(word, "username", "first_name", "last_name", "email"))
        return people

    @extend_schema(parameters=[SEARCH])
    def list(self, request: Request) -> Response:
        """List people by user name."""
        return super().list(request)

    @refuses(403, 404, 409)
    @extend_schema(request=PersonIn, responses=ChangedPersonOut)
    def partial_update(self, request: Request, pk: str) -> Response:
        """Make a person platform admin or end that; mark a break-glass account; deactivate or reactivate."""
        by, person = user_of(request), self.get_object()
        before = (person.is_superuser, person.break_glass)
        change_person(by=by, person=person, **PersonIn.of(request).validated_data)
        row = User.objects.prefetch_related("memberships__team").get(pk=person.pk)
        is_new = (row.is_superuser, row.break_glass) > before
        return Response(PersonOut(row).data | {"warning": kept_by(row) if is_new else ""})

    @refuses(403, 404)
    @extend_schema(request=None, responses=EndedOut)
    @action(detail=True, methods=["post"], url_path="sign-out")
    def sign_out(self, request: Request, pk: str) -> Response:
        """End all sessions of a person. Their account and their tokens stay."""
        return Response({"ended": sign_out_person(by=user_of(request), person=self.get_object())})


class InvitationOut(serializers.ModelSerializer[Invitation]):
    team = serializers.CharField(source="team.slug", allow_null=True, default=None)
    invited_by = serializers.CharField(source="invited_by.username")

    class Meta:
        model = Invitation
        fields = ("id", "email", "team", "role", "invited_by", "sent_at", "expires_at")
        read_only_fields = fields


class SentInvitationOut(InvitationOut):
    """`link` is returned only here; hand it on if no email was sent."""

    link = serializers.CharField(read_only=True)
    mailed = serializers.BooleanField(read_only=True)

    class Meta:
        model = Invitation
        fields = (*InvitationOut.Meta.fields, "link", "mailed")
        read_only_fields = fields


class InvitationIn(Input):
    email = serializers.EmailField(max_length=254)
    team = serializers.CharField(max_length=40, allow_blank=True, default="", help_text="Slug of the team")
    role = serializers.ChoiceField(choices=Role.choices, default=Role.MEMBER)


@needs(Scope.ADMIN, reading=True)
@refuses(403)
class InvitationViewSet(Objects[Invitation]):
    """Invitations that nobody has accepted or withdrawn. Platform admins only."""

    serializer_class = InvitationOut
    shown_once = frozenset(("link",))
    lookup_value_converter = "uuid"
    pagination_class = ordered("-sent_at", "-pk")
    queryset = Invitation.objects.none()

    def get_queryset(self) -> QuerySet[Invitation]:
        require_admin(user_of(self.request))
        return Invitation.objects.open().select_related("team", "invited_by")

    @extend_schema(request=InvitationIn, responses={201: SentInvitationOut})
    def create(self, request: Request) -> Response:
        """
        Invite an address by email. Inviting it again renews the link, the earlier one ends, and a role that
        is left out stays.
        """
        invited, fields = self.get_queryset(), InvitationIn.of(request).validated_data
        slug = fields["team"]
        if there := invited.filter(email__iexact=fields["email"], team__slug=slug or None).first():
            fields = InvitationIn.of(request, {"role": there.role}).validated_data
        fields["team"] = Team.objects.active().filter(slug=slug).first() if slug else None
        if slug and fields["team"] is None:
            raise Invalid(f"There is no team {slug}.", field="team")
        return self._sent(request, invite(by=user_of(request), **fields | {"role": Role(fields["role"])}))

    @extend_schema(request=None, responses={201: SentInvitationOut})
    @action(detail=True, methods=["post"])
    def resend(self, request: Request, pk: str) -> Response:
        """Send a new link; the earlier one ends."""
        row = self.get_object()
        again = invite(by=user_of(request), email=row.email, team=row.team, role=Role(row.role))
        return self._sent(request, again)

    @refuses(403, 404)
    def destroy(self, request: Request, pk: str) -> Response:
        """Withdraw an invitation: its link ends."""
        revoke_invitation(by=user_of(request), invitation=get_object_or_404(self.get_queryset(), pk=pk))
        return Response(status=204)

    def _sent(self, request: Request, invitation: Invitation) -> Response:
        sent = send_link(request._request, invitation)
        content: dict[str, Any] = {
            **InvitationOut(invitation).data,
            "link": sent.link,
            "mailed": not sent.problem,
        }
        return Response(content, status=201)


class MemberRequestIn(Input):
    person = serializers.CharField(max_length=100, help_text="User name or email address of whom to add")
    role = serializers.ChoiceField(choices=Role.choices, default=Role.MEMBER)
    reason = serializers.CharField(max_length=300, required=False, default="", allow_blank=True)


class AskedOut(serializers.Serializer[Any]):
    asked = Texts(help_text="User names of who has a notice")


@needs(Scope.ADMIN)
@refuses(403, 404, 409)
class MemberRequestView(IdempotentWrites, APIView):
    @extend_schema(request=MemberRequestIn, responses=AskedOut)
    def post(self, request: Request, slug: str) -> Response:
        """
        Ask the owners of a team, without one the platform admins, to add somebody. Leads only; 409 if they
        were asked for the same person and role today.
        """
        team, fields = team_for(user_of(request), slug), MemberRequestIn.of(request).validated_data
        asked = ask_for_member(by=user_of(request), team=team, **fields | {"role": Role(fields["role"])})
        return Response({"asked": [person.username for person in asked]})
