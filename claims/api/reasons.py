"""Reasons to deny that are ready to use, for those who keep them."""

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework import mixins, serializers, viewsets
from rest_framework.request import Request
from rest_framework.response import Response

from claims import services
from claims.approval.reasons import kept_by
from claims.models import ReasonTemplate
from claims.services.reasons import LONGEST, LONGEST_TITLE
from core.inputs import Input
from core.paging import Cursor
from core.schema import refuses
from teams.access import asker, team_for
from teams.keyed import KeyedWrites
from teams.models import Role


class ReasonIn(Input):
    """Without `team` it is offered in every team, which platform admins alone may say."""

    title = serializers.CharField(max_length=LONGEST_TITLE)
    text = serializers.CharField(max_length=LONGEST)
    team = serializers.CharField(max_length=40, allow_blank=True, default="", help_text="Slug of the team")


class ReasonOut(serializers.ModelSerializer[ReasonTemplate]):
    team = serializers.CharField(source="team.slug", allow_null=True, default=None)

    class Meta:
        model = ReasonTemplate
        fields = ("id", "title", "text", "team")
        read_only_fields = fields


class ReasonViewSet(
    KeyedWrites, mixins.ListModelMixin, mixins.RetrieveModelMixin, viewsets.GenericViewSet[ReasonTemplate]
):
    """Those of the teams that the asker leads; for platform admins every one."""

    serializer_class = ReasonOut
    pagination_class = type("ByTitle", (Cursor,), {"ordering": ("title", "id")})
    queryset = ReasonTemplate.objects.none()

    def get_queryset(self) -> QuerySet[ReasonTemplate]:
        return kept_by(asker(self.request)).select_related("team")

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
        services.remove_reason(by=asker(request), reason=self.get_object())
        return Response(status=204)

    def _saved(self, reason: ReasonTemplate | None) -> ReasonTemplate:
        user = asker(self.request)
        asked = ReasonIn(data=self.request.data)
        asked.is_valid(raise_exception=True)
        said = dict(asked.validated_data)
        said["team"] = team_for(user, said["team"], at_least=Role.LEAD) if said["team"] else None
        return services.save_reason(by=user, reason=reason, **said)
