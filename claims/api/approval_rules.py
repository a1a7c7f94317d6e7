"""Rules that say who decides, for platform admins."""

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework import mixins, serializers, viewsets
from rest_framework.request import Request
from rest_framework.response import Response

from claims import services
from claims.api import inputs
from claims.api.outputs import SecondsField
from claims.models import Approval, ApprovalRule
from core.inputs import Input
from core.paging import Cursor
from core.schema import refuses
from teams.access import asker, require_admin, team_for
from teams.keyed import KeyedWrites


class ApprovalRuleIn(Input):
    """For a team, a profile, or a profile of a team; without `approval` the profile says who decides."""

    team = serializers.CharField(max_length=40, allow_blank=True, default="")
    profile = serializers.CharField(max_length=40, allow_blank=True, default="")
    approval = serializers.ChoiceField(
        choices=Approval.choices, required=False, allow_null=True, default=None
    )
    automatic_devices = serializers.IntegerField(min_value=0, max_value=100_000, default=0)
    automatic_duration = inputs.SpelledDuration(required=False, allow_null=True, default=None)
    self_approval = serializers.BooleanField(default=False)
    escalate_after = inputs.SpelledDuration(required=False, allow_null=True, default=None)


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
    KeyedWrites, mixins.ListModelMixin, mixins.RetrieveModelMixin, viewsets.GenericViewSet[ApprovalRule]
):
    """The most specific rule counts; without one, what the version of the profile says."""

    serializer_class = ApprovalRuleOut
    pagination_class = Cursor
    queryset = ApprovalRule.objects.none()

    def get_queryset(self) -> QuerySet[ApprovalRule]:
        require_admin(asker(self.request))
        return ApprovalRule.objects.select_related("team", "profile")

    @refuses(404)
    @extend_schema(request=ApprovalRuleIn, responses={201: ApprovalRuleOut})
    def create(self, request: Request) -> Response:
        """Make the rule for this team and profile, or change the one there is."""
        user = asker(request)
        require_admin(user)
        asked = ApprovalRuleIn(data=request.data)
        asked.is_valid(raise_exception=True)
        said = dict(asked.validated_data)
        said["approval"] = said["approval"] or ""
        said["team"] = team_for(user, said["team"]) if said["team"] else None
        said["profile"] = inputs.profile_named(said["profile"], user) if said["profile"] else None
        return Response(ApprovalRuleOut(services.save_rule(by=user, **said)).data, status=201)

    @extend_schema(responses={204: None})
    def destroy(self, request: Request, pk: str) -> Response:
        """Remove it; the next less specific rule counts from then on."""
        services.remove_rule(by=asker(request), rule=self.get_object())
        return Response(status=204)
