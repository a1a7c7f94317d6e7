"""The preview of a request in the API: match, quota, approval, manifest, relaxations and suggestions."""

from dataclasses import dataclass
from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from claims import api_types
from claims.access import require_member
from claims.api_types import MatchOut
from claims.approvals.authority import ApprovalRoute
from claims.match_page import DEVICES_PER_PAGE, excluded_devices
from claims.models import AtLimit, Delivery
from claims.requests.cluster_choice import cluster_for
from claims.requests.manifest_import import import_for
from claims.requests.manifest_specs import MAX_FILE_LENGTH
from claims.requests.preview import RequestPreview, preview
from claims.requests.verdict import Outcome
from core.errors import Invalid
from core.inputs import FigureField, Input, Texts
from core.schema import refuses
from core.scopes import Scope, needs
from dra.match import Drop, DropCause, dropped
from dra.relaxations import RelaxationKind
from teams.access import user_of
from teams.models import User


class MatchIn(api_types.RequestIn):
    """The fields of a request. With `step`, the response lists the devices dropped by this step."""

    help = serializers.BooleanField(
        default=False, help_text="Return `help` and `alternatives` even if it fits"
    )
    step = serializers.IntegerField(
        min_value=1,
        max_value=1000,
        required=False,
        default=None,
        allow_null=True,
        help_text="Index in `match.steps`",
    )
    offset = serializers.IntegerField(
        min_value=0, max_value=10_000_000, default=0, help_text="Into the dropped devices"
    )


class MatchQuery(MatchIn):
    """The same as query parameters, without `together`, which is a list of objects."""

    together = None  # type: ignore[assignment]  # how a serializer leaves out a field that it inherits


class QuotaLineOut(serializers.Serializer[Any]):
    label = serializers.CharField()  # type: ignore[assignment]
    before = serializers.IntegerField()
    needs = serializers.IntegerField()
    after = serializers.IntegerField()
    limit = serializers.IntegerField()
    fits = serializers.BooleanField()
    sentence = serializers.CharField()


class BudgetLimitOut(serializers.Serializer[Any]):
    """A limit of a budget in money, or in GPU-hours where `currency` is empty."""

    currency = serializers.CharField()
    limit = FigureField()
    used = FigureField()
    reserved = FigureField(help_text="What live claims of the team may still cost")
    cost = FigureField(allow_null=True, help_text="The most this may cost; null: no rate")
    left = FigureField()
    fits = serializers.BooleanField()


class BudgetLineOut(serializers.Serializer[Any]):
    """What the request may do to one budget in its current period."""

    budget = serializers.UUIDField(source="budget.id")
    label = serializers.CharField()  # type: ignore[assignment]
    at_limit = serializers.ChoiceField(source="budget.at_limit", choices=AtLimit.choices)
    limits = BudgetLimitOut(many=True)
    fits = serializers.BooleanField()
    sentence = serializers.CharField()


class RouteOut(serializers.Serializer[Any]):
    automatic = serializers.BooleanField()
    sentence = serializers.CharField()
    rule = serializers.CharField(help_text="The rule that applies")
    who = serializers.SerializerMethodField(help_text="User names of the people who may decide")

    def get_who(self, route: ApprovalRoute) -> list[str]:
        return [person.username for person in route.deciders]


class RelaxationOut(serializers.Serializer[Any]):
    """One part of the spec relaxed, and its effect."""

    kind = serializers.ChoiceField(choices=[kind.value for kind in RelaxationKind])
    request = serializers.CharField(help_text="Request or alternative; empty for all of them")
    change = serializers.CharField()
    current = serializers.CharField()
    proposed = serializers.CharField()
    fits = serializers.BooleanField(help_text="All claims would fit now; they do not without it")
    more = serializers.IntegerField(
        source="more_devices", help_text="Additional free devices that would match"
    )
    more_nodes = serializers.IntegerField()
    sentence = serializers.CharField()


class SuggestionOut(serializers.Serializer[Any]):
    """Another profile that fits now; `problem` says why it cannot be an alternative of the chosen one."""

    profile = serializers.CharField(source="profile.slug")
    title = serializers.CharField(source="profile.title")
    devices = serializers.IntegerField(help_text="Per claim")
    free = serializers.IntegerField()
    problem = serializers.CharField()


@dataclass(frozen=True, slots=True)
class DroppedDevice:
    """A device that a step drops; `id` is None if the mirror has no row any more, `holder` may be masked."""

    drop: Drop
    id: str | None
    holder: str


class DroppedDeviceOut(serializers.Serializer[DroppedDevice]):
    """An excluded device, and the first reason."""

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
    devices = DroppedDeviceOut(many=True)


class VerdictOut(serializers.Serializer[Any]):
    """Devices, quota, budget and policy in one, as the request form says it."""

    outcome = serializers.ChoiceField(choices=[outcome.value for outcome in Outcome])
    accepted = serializers.BooleanField(help_text="The same request would be accepted now")
    fits = serializers.BooleanField(help_text="It would be accepted, and its devices are free now")
    sentence = serializers.CharField(source="__str__")


class PreviewOut(serializers.Serializer[Any]):
    """The preview of a request at this moment. Nothing is reserved."""

    name = serializers.CharField(source="plan.name")
    devices = serializers.IntegerField(source="plan.devices")
    charge = serializers.DictField(child=serializers.IntegerField(), source="plan.charge")
    spec_hash = serializers.CharField(source="plan.spec_hash")
    quota = QuotaLineOut(many=True, source="quota_lines")
    fits_quota = serializers.BooleanField()
    budget = BudgetLineOut(many=True, source="budget_lines")
    fits_budget = serializers.BooleanField()
    approval = RouteOut()
    manifest = serializers.CharField(help_text="YAML")
    problems = Texts()
    match = MatchOut()
    verdict = VerdictOut()
    dropped = DroppedOut(allow_null=True, default=None, help_text="For the requested `step`")
    help = RelaxationOut(
        many=True,
        help_text="Only if it does not fit, or on demand. Those that fit now come first, of these the one "
        "with the lowest price per device if all have a price",
    )
    alternatives = SuggestionOut(
        many=True,
        source="suggestions",
        help_text="Likewise: other profiles that fit now, the cheapest first if all have a price, else the "
        "smallest",
    )


class ManifestImportIn(Input):
    text = serializers.CharField(
        max_length=MAX_FILE_LENGTH, trim_whitespace=False, help_text="YAML or JSON of one or more objects"
    )
    name = serializers.CharField(default="The text", max_length=200, help_text="Of the file, for messages")


class ImportedFindingOut(serializers.Serializer[Any]):
    """What is wrong with a spec in a cluster."""

    message = serializers.CharField()
    selector = serializers.CharField(
        source="fix.after", default="", help_text="That would be right; empty if unknown"
    )


class ClusterVerdictOut(serializers.Serializer[Any]):
    """What a claim of a file would meet in a cluster; null is unknown, never 0."""

    cluster = serializers.CharField()
    fits = serializers.BooleanField()
    matching = serializers.IntegerField(allow_null=True)
    free = serializers.IntegerField(allow_null=True)
    sentence = serializers.CharField()
    findings = ImportedFindingOut(many=True)


class ImportedProfileOut(serializers.Serializer[Any]):
    """A profile for a claim of a file; `differences` say what the file has instead."""

    profile = serializers.CharField(source="profile.slug")
    devices = serializers.IntegerField(source="similarity.count")
    differences = Texts(source="similarity.differences")


class ImportedCombinationOut(serializers.Serializer[Any]):
    """Profiles that together give the claim of a file."""

    profiles = ImportedProfileOut(many=True, source="parts")
    exact = serializers.BooleanField()
    differences = Texts()


class ImportedClaimOut(serializers.Serializer[Any]):
    """A claim of a file, and the profiles for it: the same, several that give it together, or the nearest."""

    title = serializers.CharField()
    name = serializers.CharField()
    line = serializers.IntegerField(source="imported.line")
    delivery = serializers.ChoiceField(choices=Delivery.choices)
    parallel = serializers.IntegerField(help_text="Pods at once that use it")
    spec = serializers.JSONField()
    note = serializers.CharField(source="imported.note", help_text="What was changed to read it")
    problems = Texts(source="imported.problems")
    exact = ImportedProfileOut(many=True)
    combination = ImportedCombinationOut(allow_null=True)
    nearest = ImportedProfileOut(many=True)
    clusters = ClusterVerdictOut(many=True)


class ManifestImportOut(serializers.Serializer[Any]):
    """What a file of manifests requests. `converted` are its objects as they should be, as YAML."""

    claims = ImportedClaimOut(many=True)
    remarks = Texts(help_text="On the other objects")
    converted = serializers.CharField()


@needs(Scope.READ)
class ManifestImportView(APIView):
    """The import of manifests: what they request, converted, and the profiles for it."""

    @refuses(403)
    @extend_schema(request=ManifestImportIn, responses=ManifestImportOut)
    def post(self, request: Request) -> Response:
        """Read a file of manifests; nothing is created."""
        user = require_member(request._request)
        sent = ManifestImportIn.of(request)
        return Response(
            ManifestImportOut(import_for(user, sent.validated_data["text"], sent.validated_data["name"])).data
        )


@needs(Scope.READ)
class MatchView(APIView):
    """The preview of a request: match, quota, approval, manifest and problems."""

    @refuses(404)
    @extend_schema(request=MatchIn, responses=PreviewOut)
    def post(self, request: Request) -> Response:
        """Preview a request; nothing is created or reserved."""
        return self._preview(request, MatchIn(data=request.data))

    @refuses(403, 404)
    @extend_schema(parameters=[MatchQuery], responses=PreviewOut)
    def get(self, request: Request) -> Response:
        """Preview a request; nothing is created or reserved."""
        return self._preview(request, MatchQuery(data=request.query_params))

    def _preview(self, request: Request, serializer: MatchIn) -> Response:
        user = user_of(request)
        serializer.is_valid(raise_exception=True)
        fields = dict(serializer.validated_data)
        step, offset, with_help = fields.pop("step"), fields.pop("offset"), fields.pop("help")
        fields["team"] = api_types.team_named(fields["team"], user)
        fields["profile"] = api_types.profile_named(fields["profile"], user)
        fields["alternatives"] = [api_types.profile_named(slug, user) for slug in fields["alternatives"]]
        fields["together"] = api_types.further_named(fields.get("together", []), user)
        fields["cluster"] = cluster_for(fields)
        result = preview(by=user, **fields, with_help=with_help)
        page = None if step is None else _dropped_page(user, result, step, offset)
        return Response({**PreviewOut(result).data, "dropped": page and DroppedOut(page).data})


def _dropped_page(user: User, result: RequestPreview, step: int, offset: int) -> dict[str, Any]:
    """Return a page of the devices that a step drops. Raise Invalid if the match has no such step."""
    steps = len(result.match.steps)
    if step >= steps:
        raise Invalid(f"The match has steps 0 to {steps - 1}; there is no step {step}.")
    page = dropped(result.snapshot, result.plan.spec, step, offset, DEVICES_PER_PAGE)
    rows = excluded_devices(user, result.plan.cluster, page.drops)
    devices = []
    for drop in page.drops:
        row = rows.get(drop.device.key)
        holder = row.holder if row is not None and drop.holder else None
        devices.append(DroppedDevice(drop, str(row.pk) if row else None, holder.text if holder else ""))
    return {"step": step, "total": page.total, "offset": offset, "devices": devices}
