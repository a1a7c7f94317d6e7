"""Who decides for whom, and until when."""

from django.db.models import Q, QuerySet
from django.utils.translation import gettext as _
from drf_spectacular.utils import extend_schema
from rest_framework import mixins, serializers, viewsets
from rest_framework.request import Request
from rest_framework.response import Response

from claims import services
from claims.models import Delegation
from core.errors import Invalid
from core.inputs import Input
from core.paging import Cursor
from core.schema import refuses
from teams.access import asker, people_in, team_for
from teams.keyed import KeyedWrites
from teams.models import Role


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


class DelegationViewSet(KeyedWrites, mixins.ListModelMixin, viewsets.GenericViewSet[Delegation]):
    """Those that you gave and those that you hold."""

    serializer_class = DelegationOut
    pagination_class = Cursor
    queryset = Delegation.objects.none()

    def get_queryset(self) -> QuerySet[Delegation]:
        user = asker(self.request)
        mine = Delegation.objects.filter(Q(lead=user) | Q(to=user))
        return mine.select_related("team", "lead", "to")

    @refuses(404)
    @extend_schema(request=DelegationIn, responses={201: DelegationOut})
    def create(self, request: Request) -> Response:
        """Let somebody decide in your place."""
        user = asker(request)
        asked = DelegationIn(data=request.data)
        asked.is_valid(raise_exception=True)
        said = dict(asked.validated_data)
        said["team"] = team_for(user, said["team"], at_least=Role.LEAD)
        members = {person.username: person for person in people_in(said["team"], at_least=Role.MEMBER)}
        name = said["to"]
        if name not in members:
            raise Invalid(_("%(team)s has no member %(name)s.") % {"team": said["team"], "name": name})
        row = services.delegate(by=user, **{**said, "to": members[name]})
        return Response(DelegationOut(row).data, status=201)

    @extend_schema(responses={200: DelegationOut})
    def destroy(self, request: Request, pk: str) -> Response:
        """End it now."""
        row = services.end_delegation(by=asker(request), delegation=self.get_object())
        return Response(DelegationOut(row).data)
