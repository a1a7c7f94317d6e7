"""What a request would come to: what matches now and why not more, what would help, what else would fit."""

from dataclasses import dataclass
from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from claims import api_types
from claims.api_types import MatchOut
from claims.approvals.authority import Route
from claims.match_page import PER_PAGE, devices_of
from claims.requests.preview import RequestPreview, preview
from core.errors import Invalid
from core.schema import refuses
from dra.help import RelaxationKind
from dra.match import Drop, DropCause, dropped
from teams.access import team_for, user_of
from teams.models import Role, User


class MatchIn(api_types.RequestIn):
    """A request that is not made. With `step`, the devices that this step of the match drops come along."""

    help = serializers.BooleanField(default=False, help_text="Say what would help even if it fits")
    step = serializers.IntegerField(
        min_value=1,
        max_value=1000,
        required=False,
        default=None,
        allow_null=True,
        help_text="Its place in steps",
    )
    offset = serializers.IntegerField(
        min_value=0, max_value=10_000_000, default=0, help_text="Of devices dropped"
    )


class MatchQuery(MatchIn):
    """The same in an address, which has no room for profiles with numbers of their own."""

    together = None  # type: ignore[assignment]  # how a serializer leaves out a field that it inherits


class QuotaLineOut(serializers.Serializer[Any]):
    label = serializers.CharField()  # type: ignore[assignment]
    before = serializers.IntegerField()
    needs = serializers.IntegerField()
    after = serializers.IntegerField()
    limit = serializers.IntegerField()
    fits = serializers.BooleanField()
    sentence = serializers.CharField()


class RouteOut(serializers.Serializer[Any]):
    automatic = serializers.BooleanField()
    sentence = serializers.CharField()
    rule = serializers.CharField(help_text="Which rule asks for a person, or lets it through")
    who = serializers.SerializerMethodField(help_text="User names of those who may decide")

    def get_who(self, route: Route) -> list[str]:
        return [person.username for person in route.who]


class RelaxationOut(serializers.Serializer[Any]):
    """One part of the spec relaxed, and what that brings."""

    way = serializers.ChoiceField(choices=[kind.value for kind in RelaxationKind], source="kind")
    request = serializers.CharField(help_text="Request or alternative; empty for all of them")
    what = serializers.CharField()
    was = serializers.CharField(source="current")
    instead = serializers.CharField(source="proposed")
    fits = serializers.BooleanField(help_text="All claims would fit now, which they do not as asked")
    more = serializers.IntegerField(
        source="more_devices", help_text="Free devices that match, beyond those that do now"
    )
    more_nodes = serializers.IntegerField()
    sentence = serializers.CharField()


class OfferOut(serializers.Serializer[Any]):
    """Another profile that fits now; `problem` says why it cannot be an alternative of this one."""

    profile = serializers.CharField(source="profile.slug")
    title = serializers.CharField(source="profile.title")
    devices = serializers.IntegerField(help_text="Per claim")
    free = serializers.IntegerField()
    problem = serializers.CharField()


@dataclass(frozen=True, slots=True)
class Left:
    """A device that a step drops; `id` is None where the mirror has lost it since, `holder` is masked."""

    drop: Drop
    id: str | None
    holder: str


class LeftOut(serializers.Serializer[Left]):
    """A device that does not come into question, and the first thing in its way."""

    id = serializers.UUIDField(allow_null=True)
    driver = serializers.CharField(source="drop.device.driver")
    pool = serializers.CharField(source="drop.device.pool")
    name = serializers.CharField(source="drop.device.name")
    node = serializers.CharField(source="drop.device.node_name")
    cause = serializers.ChoiceField(choices=[cause.value for cause in DropCause], source="drop.cause")
    sentence = serializers.CharField(source="drop.sentence")
    condition = serializers.CharField(source="drop.condition.text", default="", help_text="CEL")
    holder = serializers.CharField()


class DroppedOut(serializers.Serializer[Any]):
    step = serializers.IntegerField()
    total = serializers.IntegerField()
    offset = serializers.IntegerField()
    devices = LeftOut(many=True)


class PreviewOut(serializers.Serializer[Any]):
    """What a request would come to now. Nothing of it is reserved."""

    name = serializers.CharField(source="wish.name")
    devices = serializers.IntegerField(source="wish.devices")
    charge = serializers.DictField(child=serializers.IntegerField(), source="wish.charge")
    spec_hash = serializers.CharField(source="wish.spec_hash")
    quota = QuotaLineOut(many=True, source="quota_lines")
    fits_quota = serializers.BooleanField()
    approval = RouteOut()
    manifest = serializers.CharField(help_text="YAML")
    problems = serializers.ListField(child=serializers.CharField())
    match = MatchOut()
    dropped = DroppedOut(allow_null=True, default=None, help_text="Of the step that was asked for")
    help = RelaxationOut(
        many=True, help_text="Where it does not fit, or on demand: what fits now comes first"
    )
    alternatives = OfferOut(many=True, source="offers", help_text="Likewise: other profiles that fit now")


class MatchView(APIView):
    """What matches now, quota, who decides, the manifest, and what is wrong with the request."""

    @refuses(404)
    @extend_schema(request=MatchIn, responses=PreviewOut)
    def post(self, request: Request) -> Response:
        """Work a request out; nothing is made."""
        return self._answer(request, MatchIn(data=request.data))

    @refuses(403, 404)
    @extend_schema(parameters=[MatchQuery], responses=PreviewOut)
    def get(self, request: Request) -> Response:
        """Work a request out; nothing is made."""
        return self._answer(request, MatchQuery(data=request.query_params))

    def _answer(self, request: Request, asked: MatchIn) -> Response:
        user = user_of(request)
        asked.is_valid(raise_exception=True)
        wish = dict(asked.validated_data)
        step, offset = wish.pop("step"), wish.pop("offset")
        wish["team"] = team_for(user, wish["team"], at_least=Role.MEMBER)
        wish["cluster"] = api_types.cluster_named(wish["cluster"])
        wish["profile"] = api_types.profile_named(wish["profile"], user)
        wish["alternatives"] = [api_types.profile_named(name, user) for name in wish["alternatives"]]
        wish["together"] = api_types.further_named(wish.get("together", []), user)
        with_help = wish.pop("help")
        found = preview(by=user, **wish, with_help=with_help)
        left = None if step is None else dropped_of(user, found, step, offset)
        return Response({**PreviewOut(found).data, "dropped": left and DroppedOut(left).data})


def dropped_of(user: User, found: RequestPreview, step: int, offset: int) -> dict[str, Any]:
    """Return a page of what a step drops. Raise Invalid if the match has no such step."""
    steps = len(found.match.steps)
    if step >= steps:
        raise Invalid(f"The match has steps 0 to {steps - 1}; there is no step {step}.")
    page = dropped(found.snapshot, found.wish.spec, step, offset, PER_PAGE)
    rows = devices_of(user, found.wish.cluster, page.drops)
    devices = []
    for drop in page.drops:
        row = rows.get(drop.device.key)
        holder = row.holder if row is not None and drop.holder else None
        devices.append(Left(drop, str(row.pk) if row else None, holder.text if holder else ""))
    return {"step": step, "total": page.total, "offset": offset, "devices": devices}
