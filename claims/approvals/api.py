"""API of approval rules, delegations and reasons to deny."""

from django.db.models import Q, QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework import mixins, serializers, viewsets
from rest_framework.request import Request
from rest_framework.response import Response

from claims import api_types
from claims.api_types import SecondsField
from claims.approvals import services
from claims.approvals.services import LONGEST_REASON, LONGEST_TITLE, kept_by
from claims.models import Approval, ApprovalRule, Delegation, ReasonTemplate
from core.errors import Invalid
from core.idempotency import IdempotentWrites
from core.inputs import Input
from core.paging import Cursor
from core.schema import refuses
from teams.access import people_in, require_admin, team_for, user_of
from teams.models import Role


class ApprovalRuleIn(Input):
    """For a team, a profile, or a profile of a team; without `approval` the profile says who decides."""

    team = serializers.CharField(max_length=40, allow_blank=True, default="")
    profile = serializers.CharField(max_length=40, allow_blank=True, default="")
    approval = serializers.ChoiceField(
        choices=Approval.choices, required=False, allow_null=True, default=None
    )
    automatic_devices = serializers.IntegerField(min_value=0, max_value=100_000, default=0)
    automatic_duration = api_types.SpelledDuration(required=False, allow_null=True, default=None)
    self_approval = serializers.BooleanField(default=False)
    escalate_after = api_types.SpelledDuration(required=False, allow_null=True, default=None)


class ApprovalRuleOut(serializers.ModelSerializer[ApprovalRule]):
    team = serializers.CharField(source="team.slug", allow_null=True, default=None)
    profile = serializers.CharField(source="profile.slug", allow_null=True, default=None)
    approval = serializers.CharField(help_text="Empty: as the profile says")
    automatic_duration = SecondsField(allow_null=True)
    escalate_after = SecondsField(allow_null=True)

    class Meta:
        model = ApprovalRule
        fields = (
            "id", "team", "profile", "approval", "automatic_devices", "automatic_duration", "self_approval",
            "escalate_after",
        )  # fmt: skip
        read_only_fields = fields


@refuses(403)
class ApprovalRuleViewSet(
    IdempotentWrites, mixins.ListModelMixin, mixins.RetrieveModelMixin, viewsets.GenericViewSet[ApprovalRule]
):
    """The most specific rule counts; without one, what the version of the profile says."""

    serializer_class = ApprovalRuleOut
    pagination_class = Cursor
    queryset = ApprovalRule.objects.none()

    def get_queryset(self) -> QuerySet[ApprovalRule]:
        require_admin(user_of(self.request))
        return ApprovalRule.objects.select_related("team", "profile")

    @refuses(404)
    @extend_schema(request=ApprovalRuleIn, responses={201: ApprovalRuleOut})
    def create(self, request: Request) -> Response:
        """Make the rule for this team and profile, or change the one there is."""
        user = user_of(request)
        require_admin(user)
        asked = ApprovalRuleIn(data=request.data)
        asked.is_valid(raise_exception=True)
        said = dict(asked.validated_data)
        said["approval"] = said["approval"] or ""
        said["team"] = team_for(user, said["team"]) if said["team"] else None
        said["profile"] = api_types.profile_named(said["profile"], user) if said["profile"] else None
        return Response(ApprovalRuleOut(services.save_rule(by=user, **said)).data, status=201)

    @extend_schema(responses={204: None})
    def destroy(self, request: Request, pk: str) -> Response:
        """Remove it; the next less specific rule counts from then on."""
        services.remove_rule(by=user_of(request), rule=self.get_object())
        return Response(status=204)


class DelegationIn(Input):
    """You lead the team; `to` decides in your place."""

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


class DelegationViewSet(IdempotentWrites, mixins.ListModelMixin, viewsets.GenericViewSet[Delegation]):
    """Those that you gave and those that you hold."""

    serializer_class = DelegationOut
    pagination_class = Cursor
    queryset = Delegation.objects.none()

    def get_queryset(self) -> QuerySet[Delegation]:
        user = user_of(self.request)
        mine = Delegation.objects.filter(Q(lead=user) | Q(to=user))
        return mine.select_related("team", "lead", "to")

    @refuses(404)
    @extend_schema(request=DelegationIn, responses={201: DelegationOut})
    def create(self, request: Request) -> Response:
        """Let somebody decide in your place."""
        user = user_of(request)
        asked = DelegationIn(data=request.data)
        asked.is_valid(raise_exception=True)
        said = dict(asked.validated_data)
        said["team"] = team_for(user, said["team"], at_least=Role.LEAD)
        members = {person.username: person for person in people_in(said["team"], at_least=Role.MEMBER)}
        name = said["to"]
        if name not in members:
            raise Invalid(f"{said['team']} has no member {name}.")
        row = services.delegate(by=user, **{**said, "to": members[name]})
        return Response(DelegationOut(row).data, status=201)

    @extend_schema(responses={200: DelegationOut})
    def destroy(self, request: Request, pk: str) -> Response:
        """End it now."""
        row = services.end_delegation(by=user_of(request), delegation=self.get_object())
        return Response(DelegationOut(row).data)


class ReasonIn(Input):
    """Without `team` it is offered in every team, which platform admins alone may say."""

    title = serializers.CharField(max_length=LONGEST_TITLE)
    text = serializers.CharField(max_length=LONGEST_REASON)
    team = serializers.CharField(max_length=40, allow_blank=True, default="", help_text="Slug of the team")


class ReasonOut(serializers.ModelSerializer[ReasonTemplate]):
    team = serializers.CharField(source="team.slug", allow_null=True, default=None)

    class Meta:
        model = ReasonTemplate
        fields = ("id", "title", "text", "team")
        read_only_fields = fields


class ReasonViewSet(
    IdempotentWrites,
    mixins.ListModelMixin,
    mixins.RetrieveModelMixin,
    viewsets.GenericViewSet[ReasonTemplate],
):
    """Those of the teams that the asker leads; for platform admins every one."""

    serializer_class = ReasonOut
    pagination_class = type("ByTitle", (Cursor,), {"ordering": ("title", "id")})
    queryset = ReasonTemplate.objects.none()

    def get_queryset(self) -> QuerySet[ReasonTemplate]:
        return kept_by(user_of(self.request)).select_related("team")

    @refuses(404)
    @extend_schema(request=ReasonIn, responses={201: ReasonOut})
    def create(self, request: Request) -> Response:
        """Write a reason down."""
        return Response(ReasonOut(self._saved(None)).data, status=201)

    @extend_schema(request=ReasonIn, responses=ReasonOut)
    def update(self, request: Request, pk: str) -> Response:
        """Write it anew."""
        return Response(ReasonOut(self._saved(self.get_object())).data)

    @extend_schema(responses={204: None})
    def destroy(self, request: Request, pk: str) -> Response:
        """Offer it no more."""
        services.remove_reason(by=user_of(request), reason=self.get_object())
        return Response(status=204)

    def _saved(self, reason: ReasonTemplate | None) -> ReasonTemplate:
        user = user_of(self.request)
        asked = ReasonIn(data=self.request.data)
        asked.is_valid(raise_exception=True)
        said = dict(asked.validated_data)
        said["team"] = team_for(user, said["team"], at_least=Role.LEAD) if said["team"] else None
        return services.save_reason(by=user, reason=reason, **said)
