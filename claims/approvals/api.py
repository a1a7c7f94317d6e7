"""API of approval rules, delegations and reasons to deny."""

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from claims import api_types
from claims.api_types import SecondsField
from claims.approvals import services
from claims.approvals.services import MAX_REASON_LENGTH, MAX_TITLE_LENGTH, editable_reasons
from claims.models import Approval, ApprovalRule, Delegation, ReasonTemplate
from core.errors import Invalid
from core.idempotency import Objects
from core.inputs import Input, ordered
from core.schema import refuses
from core.scopes import Scope, needs
from teams.access import people_in, require_admin, team_for, user_of
from teams.models import Role


class ApprovalRuleIn(Input):
    """A rule for a team, a profile, or both; without `approval` the profile says who decides."""

    team = serializers.CharField(max_length=40, allow_blank=True, default="")
    profile = serializers.CharField(max_length=40, allow_blank=True, default="")
    approval = serializers.ChoiceField(
        choices=Approval.choices, required=False, allow_null=True, default=None
    )
    automatic_devices = serializers.IntegerField(min_value=0, max_value=ApprovalRule.MOST, default=0)
    automatic_duration = api_types.SpelledDuration(required=False, allow_null=True, default=None)
    self_approval = serializers.BooleanField(default=False)
    escalate_after = api_types.SpelledDuration(required=False, allow_null=True, default=None)


class ApprovalRuleOut(serializers.ModelSerializer[ApprovalRule]):
    team = serializers.CharField(source="team.slug", allow_null=True, default=None)
    profile = serializers.CharField(source="profile.slug", allow_null=True, default=None)
    approval = serializers.CharField(help_text="Empty: the profile says who decides")
    automatic_duration = SecondsField(allow_null=True)
    escalate_after = SecondsField(allow_null=True)

    class Meta:
        model = ApprovalRule
        fields = (
            "id", "team", "profile", "approval", "automatic_devices", "automatic_duration", "self_approval",
            "escalate_after",
        )  # fmt: skip
        read_only_fields = fields


@needs(Scope.ADMIN, reading=True)
@refuses(403)
class ApprovalRuleViewSet(Objects[ApprovalRule]):
    """The most specific rule applies; without one, that of the profile version."""

    serializer_class = ApprovalRuleOut
    queryset = ApprovalRule.objects.none()

    def get_queryset(self) -> QuerySet[ApprovalRule]:
        require_admin(user_of(self.request))
        return ApprovalRule.objects.select_related("team", "profile")

    @refuses(404)
    @extend_schema(request=ApprovalRuleIn, responses={201: ApprovalRuleOut})
    def create(self, request: Request) -> Response:
        """Create or change the rule for this team and profile. What is left out of a change stays."""
        user, rules = user_of(request), self.get_queryset()
        named = ApprovalRuleIn.of(request).validated_data
        team = team_for(user, named["team"]) if named["team"] else None
        profile = api_types.profile_named(named["profile"], user) if named["profile"] else None
        rule = rules.filter(team=team, profile=profile).first()
        fields = ApprovalRuleIn.of(request, ApprovalRuleOut(rule).data if rule else None).validated_data
        fields |= {"approval": fields["approval"] or "", "team": team, "profile": profile}
        return Response(ApprovalRuleOut(services.save_rule(by=user, **fields)).data, status=201)

    def destroy(self, request: Request, pk: str) -> Response:
        """Delete the rule; the next less specific rule applies from then on."""
        services.remove_rule(by=user_of(request), rule=self.get_object())
        return Response(status=204)


class DelegationIn(Input):
    """A team that you lead, and the member who decides as your delegate."""

    team = serializers.CharField(max_length=40, help_text="Slug of the team")
    to = serializers.CharField(max_length=150, help_text="User name of a member of the team")
    starts_at = serializers.DateTimeField()
    ends_at = serializers.DateTimeField()


class DelegationOut(serializers.ModelSerializer[Delegation]):
    team = serializers.CharField(source="team.slug")
    lead = serializers.CharField(source="lead.username")
    to = serializers.CharField(source="to.username")

    class Meta:
        model = Delegation
        fields = ("id", "team", "lead", "to", "starts_at", "ends_at")
        read_only_fields = fields


@needs(Scope.APPROVE)
class DelegationViewSet(Objects[Delegation]):
    """The delegations that you gave and those that you received."""

    serializer_class = DelegationOut
    queryset = Delegation.objects.none()

    def get_queryset(self) -> QuerySet[Delegation]:
        return services.delegations_of(user_of(self.request))

    @refuses(404)
    @extend_schema(request=DelegationIn, responses={201: DelegationOut})
    def create(self, request: Request) -> Response:
        """Delegate your approvals in a team."""
        user = user_of(request)
        fields = DelegationIn.of(request).validated_data
        team = team_for(user, fields["team"], at_least=Role.LEAD)
        members = {person.username: person for person in people_in(team, at_least=Role.MEMBER)}
        name = fields["to"]
        if name not in members:
            raise Invalid(f"{team} has no member {name}.")
        delegation = services.delegate(by=user, **{**fields, "team": team, "to": members[name]})
        return Response(DelegationOut(delegation).data, status=201)

    @extend_schema(responses={200: DelegationOut})
    def destroy(self, request: Request, pk: str) -> Response:
        """End the delegation now."""
        delegation = services.end_delegation(by=user_of(request), delegation=self.get_object())
        return Response(DelegationOut(delegation).data)


class ReasonIn(Input):
    """A reason for one team; without `team` for every team, which only platform admins may save."""

    title = serializers.CharField(max_length=MAX_TITLE_LENGTH)
    text = serializers.CharField(max_length=MAX_REASON_LENGTH)
    team = serializers.CharField(max_length=40, allow_blank=True, default="", help_text="Slug of the team")


class ReasonOut(serializers.ModelSerializer[ReasonTemplate]):
    team = serializers.CharField(source="team.slug", allow_null=True, default=None)

    class Meta:
        model = ReasonTemplate
        fields = ("id", "title", "text", "team")
        read_only_fields = fields


@needs(Scope.APPROVE)
class ReasonViewSet(Objects[ReasonTemplate]):
    """The reasons of the teams that you lead; for platform admins all of them."""

    serializer_class = ReasonOut
    pagination_class = ordered("title", "id")
    queryset = ReasonTemplate.objects.none()

    def get_queryset(self) -> QuerySet[ReasonTemplate]:
        return editable_reasons(user_of(self.request)).select_related("team")

    @refuses(404)
    @extend_schema(request=ReasonIn, responses={201: ReasonOut})
    def create(self, request: Request) -> Response:
        """Save a reason."""
        return Response(ReasonOut(self._save(None)).data, status=201)

    @extend_schema(request=ReasonIn, responses=ReasonOut)
    def update(self, request: Request, pk: str) -> Response:
        """Change the reason. What is left out stays."""
        return Response(ReasonOut(self._save(self.get_object())).data)

    def destroy(self, request: Request, pk: str) -> Response:
        """Delete the reason."""
        services.remove_reason(by=user_of(request), reason=self.get_object())
        return Response(status=204)

    def _save(self, reason: ReasonTemplate | None) -> ReasonTemplate:
        user = user_of(self.request)
        fields = ReasonIn.of(self.request, ReasonOut(reason).data if reason else None).validated_data
        fields["team"] = team_for(user, fields["team"], at_least=Role.LEAD) if fields["team"] else None
        return services.save_reason(by=user, reason=reason, **fields)
