"""API of profiles, and of the check of the catalogue."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import PermissionDenied
from django.db.models import Q, QuerySet
from django.http import Http404
from drf_spectacular.utils import OpenApiParameter, PolymorphicProxySerializer, extend_schema
from rest_framework import serializers, status
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from claims.api_types import SecondsField, SpelledDuration
from claims.approvals.rules import Rule
from claims.catalogue import services
from claims.catalogue.definition import ProfileDefinition, sent_definition
from claims.catalogue.lint import catalogue_report, definition_findings
from claims.catalogue.listing import (
    SORTS,
    CatalogueFilter,
    TeamApprovals,
    approval_in_words,
    catalogue,
    entries,
    filtered_entries,
)
from claims.catalogue.sharing import Sharing
from claims.catalogue.versions import live_versions, proposed_difference, versions_with_claim_counts
from claims.models import LIMITS, Approval, Limit, Profile, ProfileLimits, Purpose
from claims.models.limits import Choice, Choices, Duration, Number, Text
from core.idempotency import Objects
from core.inputs import FigureField, Input, Rows, Texts, is_true, ordered, page_of
from core.schema import refuses
from core.scopes import Scope, needs
from dra.lint import LintCode, Severity, Subject
from teams.access import is_platform_admin, require_admin, roles_by_team, user_of
from teams.models import Team


class ProfilesIn(Input):
    """The filters of the catalogue. An unknown value of a profile meets no condition."""

    q = serializers.CharField(max_length=200, default="", allow_blank=True, help_text="Words")
    memory = serializers.IntegerField(
        min_value=1, required=False, help_text="Least memory of each matching device in GB"
    )
    model = serializers.CharField(max_length=120, default="", allow_blank=True, help_text="Full product name")
    sharing = serializers.ChoiceField(choices=Sharing.choices, required=False, allow_blank=True)
    price = serializers.DecimalField(
        max_digits=9,
        decimal_places=4,
        min_value=0,
        required=False,
        help_text="Highest price per device and hour",
    )
    free = serializers.BooleanField(default=False, help_text="A device is free now")
    mine = serializers.BooleanField(default=False, help_text="You may request it")
    automatic = serializers.BooleanField(default=False, help_text="Some requests need no approval")
    order = serializers.ChoiceField(choices=list(SORTS), default="title", allow_blank=True)

    @property
    def filters(self) -> CatalogueFilter:
        values = self.validated_data
        return CatalogueFilter(
            words=values["q"],
            memory_gb=values.get("memory"),
            model=values["model"],
            sharing=values.get("sharing", ""),
            price=values.get("price"),
            free=values["free"],
            mine=values["mine"],
            automatic=values["automatic"],
        )


def limit_input(limit: Limit) -> serializers.Field[Any, Any, Any, Any]:
    """Return the field that takes a limit; left out it has its default."""
    about: dict[str, Any] = {"default": limit.default, "help_text": limit.help_text}
    match limit.kind:
        case Text(max_length):
            return serializers.CharField(max_length=max_length, allow_blank=not limit.required, **about)
        case Number(min_value, max_value):
            about |= {"allow_null": limit.default is None}
            return serializers.IntegerField(min_value=min_value, max_value=max_value, **about)
        case Duration():
            return SpelledDuration(allow_null=limit.default is None, **about)
        case Choice(choices):
            return serializers.ChoiceField(choices=choices.choices, **about)
        case Choices(choices):
            about |= {"default": list(limit.default)}
            return serializers.ListField(child=serializers.ChoiceField(choices=choices.choices), **about)


def limit_output(limit: Limit, **about: Any) -> serializers.Field[Any, Any, Any, Any]:
    """Return the field that shows a limit; durations are in seconds."""
    about |= {"help_text": limit.help_text}
    match limit.kind:
        case Text():
            return serializers.CharField(**about)
        case Number():
            return serializers.IntegerField(allow_null=limit.default is None, **about)
        case Duration():
            return SecondsField(allow_null=limit.default is None, **about)
        case Choice(choices):
            return serializers.ChoiceField(choices=choices.choices, **about)
        case Choices(choices):
            return serializers.ListField(child=serializers.ChoiceField(choices=choices.choices), **about)


class TypicalOut(serializers.Serializer[Any]):
    """Waits of the past 30 days: median and 90th percentile in seconds, null if there are fewer than 5."""

    count = serializers.IntegerField()
    median = SecondsField(allow_null=True)
    p90 = SecondsField(allow_null=True, help_text="90th percentile")


class WaitsOut(serializers.Serializer[Any]):
    decision = TypicalOut(help_text="From the request to the decision of a person")
    device = TypicalOut(help_text="From the approval to the first device")


class TeamApprovalsOut(serializers.ListSerializer[Any]):
    def to_representation(self, data: Any) -> list[dict[str, Any]]:
        """Return the fields, made once for each rule; of a list only for teams of the reader."""
        fields_of: dict[int, dict[str, Any]] = {}
        rows = []
        members = self.context.get("members")
        for team, rule in data.with_rules() if isinstance(data, TeamApprovals) else ():
            if members is not None and team.pk not in members:
                continue
            fields = fields_of.get(id(rule))
            if fields is None:
                fields = fields_of[id(rule)] = self._fields(rule)
            rows.append({"team": team.slug} | fields)
        return rows

    @staticmethod
    def _fields(rule: Rule) -> dict[str, Any]:
        span = rule.automatic_duration
        return {
            "approval": str(rule.approval),
            "automatic_devices": rule.automatic_devices,
            "automatic_duration": None if span is None else int(span.total_seconds()),
            "sentence": approval_in_words(rule.approval, rule.automatic_devices, span),
        }


class TeamApprovalOut(serializers.Serializer[Any]):
    """Who approves requests of one team, by its approval rules and the limits of the version."""

    team = serializers.CharField(source="team.slug")
    approval = serializers.ChoiceField(choices=Approval.choices)
    automatic_devices = serializers.IntegerField(help_text="Up to this many devices need no approval")
    automatic_duration = SecondsField(allow_null=True)
    sentence = serializers.CharField()

    class Meta:
        list_serializer_class = TeamApprovalsOut


class ProfileOut(serializers.Serializer[Any]):
    """
    A profile: its spec, its limits, its free devices, and whether you may request it.
    """

    id = serializers.UUIDField(source="profile.id")
    slug = serializers.CharField(source="profile.slug")
    title = serializers.CharField(source="profile.title")
    use = serializers.CharField(source="profile.use")
    purpose = serializers.ChoiceField(source="profile.purpose", choices=Purpose.choices)
    retired_at = serializers.DateTimeField(source="profile.retired_at", allow_null=True)
    version = serializers.IntegerField(source="version.number")
    spec = serializers.JSONField(source="version.spec")
    spec_hash = serializers.CharField(source="version.spec_hash")
    approval_sentence = serializers.CharField(help_text="Who approves requests of your teams")
    approval_of_teams = TeamApprovalOut(
        many=True,
        source="who.of_teams",
        help_text="The same for each of your teams that may request it. Platform admins: of every team, in a "
        "list of those of which you are a member",
    )
    free = serializers.IntegerField(allow_null=True, help_text="Matching devices that are free now")
    total = serializers.IntegerField(allow_null=True, help_text="Matching devices")
    nodes = serializers.IntegerField(allow_null=True, help_text="Nodes on which one claim fits now")
    most = serializers.IntegerField(
        allow_null=True, help_text="Devices that one claim could get now, at most; your quota may allow fewer"
    )
    computed_at = serializers.DateTimeField(
        allow_null=True, help_text="When free, total, nodes and most were computed"
    )
    products = Texts()
    memory = serializers.IntegerField(allow_null=True, help_text="Least memory of a matching device in bytes")
    sharing = serializers.ListField(child=serializers.ChoiceField(choices=Sharing.choices))
    price = FigureField(4, allow_null=True, help_text="Highest price per device and hour")
    waits = WaitsOut()
    may_request = serializers.BooleanField()
    reason = serializers.CharField(help_text="Why you may not request it; empty if you may")

    def get_fields(self) -> dict[str, Any]:
        limits = {limit.name: limit_output(limit, source=f"version.{limit.name}") for limit in LIMITS}
        return super().get_fields() | limits


class VersionOut(serializers.Serializer[Any]):
    """A version and its limits; it never changes."""

    number = serializers.IntegerField()
    spec = serializers.JSONField()
    spec_hash = serializers.CharField()
    created_by = serializers.CharField(source="created_by.username", allow_null=True, default=None)
    created_at = serializers.DateTimeField()
    current = serializers.BooleanField()
    restores = serializers.BooleanField(help_text="The profile was retired, and this version restored it")
    claims = serializers.IntegerField(source="used", help_text="Claims of this version, live or ended")

    def get_fields(self) -> dict[str, Any]:
        return super().get_fields() | {limit.name: limit_output(limit) for limit in LIMITS}


class ChangeOut(serializers.Serializer[Any]):
    limit = serializers.CharField(source="label")
    before = serializers.CharField()
    after = serializers.CharField()


class LintMessageOut(serializers.Serializer[Any]):
    """A sentence, and the clusters it is true for."""

    clusters = Texts()
    message = serializers.CharField()


class LintFixOut(serializers.Serializer[Any]):
    """A replacement for the expression at `path`."""

    path = serializers.CharField()
    before = serializers.CharField()
    after = serializers.CharField()


class LintFindingOut(serializers.Serializer[Any]):
    subject = serializers.ChoiceField(choices=[subject.value for subject in Subject])
    name = serializers.CharField()
    code = serializers.ChoiceField(choices=[code.value for code in LintCode])
    severity = serializers.ChoiceField(choices=[severity.value for severity in Severity])
    path = serializers.CharField()
    messages = LintMessageOut(many=True)
    fix = LintFixOut(allow_null=True)


class PlanOut(serializers.Serializer[Any]):
    """What saving would change; `version` is the number that the profile would then have."""

    version = serializers.IntegerField()
    makes_version = serializers.BooleanField()
    restores = serializers.BooleanField(help_text="The profile is retired, and saving restores it")
    spec_diff = serializers.CharField(help_text="Unified diff of the specs as YAML; empty if they are equal")
    limits = ChangeOut(many=True)
    live_claims = serializers.IntegerField(help_text="Live claims, which keep their version")
    findings = LintFindingOut(
        many=True, help_text="What the check against the clusters finds, the worst first"
    )


class SavedProfileOut(ProfileOut):
    """The profile, and what the check of its spec against the devices of the clusters finds."""

    findings = LintFindingOut(many=True, help_text="The worst first; none if all is well")


class ChangeProfileIn(Input):
    """A complete profile: a field that is left out gets its default, not its current value."""

    title = serializers.CharField(max_length=80)
    use = serializers.CharField(max_length=1000, default="", allow_blank=True)
    purpose = serializers.ChoiceField(
        choices=Purpose.choices, default=Purpose.OTHER, help_text="The group of its card in the catalogue"
    )
    teams = serializers.SlugRelatedField(
        slug_field="slug",
        queryset=Team.objects.all(),
        many=True,
        required=False,
        help_text="Empty: open to every team",
    )
    spec = serializers.DictField(help_text="Spec of a ResourceClaim, resource.k8s.io/v1")
    base = serializers.IntegerField(
        min_value=1,
        required=False,
        help_text="Number of the version that was edited; 409 if it is no longer the current one",
    )

    def get_fields(self) -> dict[str, Any]:
        return super().get_fields() | {limit.name: limit_input(limit) for limit in LIMITS}

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if problems := ProfileLimits.among(attrs).problems():
            raise serializers.ValidationError(problems)
        return attrs


class NewProfileIn(ChangeProfileIn):
    slug = serializers.CharField(max_length=40)


DRY_RUN = OpenApiParameter("dry_run", bool, description="Return what would change; save nothing.")

SAVED = PolymorphicProxySerializer(
    component_name="ProfileOrPlan",
    serializers=[SavedProfileOut, PlanOut],
    resource_type_field_name=None,
)


@needs(Scope.ADMIN)
class ProfileViewSet(Objects[Profile]):
    """Profiles that you may see."""

    volatile = frozenset(
        ("free", "total", "nodes", "most", "computed_at", "products", "memory", "price", "waits")
    )
    serializer_class = ProfileOut
    pagination_class = Rows
    queryset = Profile.objects.none()
    lookup_field = "slug"

    def get_queryset(self) -> QuerySet[Profile]:
        return Profile.objects.visible_to(user_of(self.request)).filter(current__isnull=False)

    @extend_schema(parameters=[ProfilesIn])
    def list(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """List the catalogue."""
        query, user = ProfilesIn(data=request.query_params), user_of(request)
        query.is_valid(raise_exception=True)
        rows = filtered_entries(catalogue(user), query.filters, query.validated_data["order"] or "title")
        # Not every profile with every team, of which there are hundreds.
        return page_of(self, rows, ProfileOut, context={"members": roles_by_team(user)})

    def retrieve(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        return self._answer(self.get_object())

    @extend_schema(request=NewProfileIn, parameters=[DRY_RUN], responses={201: SavedProfileOut, 200: PlanOut})
    def create(self, request: Request) -> Response:
        """Create a profile with its first version. Platform admins only."""
        fields = self._body(NewProfileIn)
        return self._save(None, sent_definition(fields), base=None)

    @refuses(409)
    @extend_schema(request=ChangeProfileIn, parameters=[DRY_RUN], responses=SAVED)
    def update(self, request: Request, slug: str) -> Response:
        """
        Replace a profile; a new version is made if spec or limits differ. Saving a retired profile restores
        it: `dry_run` shows that as `restores`. Platform admins only.
        """
        fields = self._body(ChangeProfileIn)
        return self._save(
            self._profile(slug), sent_definition(fields | {"slug": slug}), base=fields.get("base")
        )

    @extend_schema(responses=VersionOut(many=True))
    @action(detail=True, pagination_class=ordered("-number"))
    def versions(self, request: Request, slug: str) -> Response:
        """Every version, newest first."""
        profile = self.get_object()
        rows = versions_with_claim_counts(profile)
        return page_of(self, rows.annotate(current=Q(pk=profile.current_id)), VersionOut)

    @extend_schema(request=None, responses=ProfileOut)
    @action(detail=True, methods=["post"])
    def retire(self, request: Request, slug: str) -> Response:
        """Remove a profile from the catalogue; its claims keep it. Platform admins only."""
        require_admin(user_of(request))
        return self._answer(services.retire_profile(by=user_of(request), profile=self._profile(slug)))

    @extend_schema(request=None, responses=ProfileOut)
    @action(detail=True, methods=["post"])
    def restore(self, request: Request, slug: str) -> Response:
        """Put a retired profile back into the catalogue. Platform admins only."""
        require_admin(user_of(request))
        return self._answer(services.restore_profile(by=user_of(request), profile=self._profile(slug)))

    def _body(self, serializer_class: type[ChangeProfileIn]) -> dict[str, Any]:
        require_admin(user_of(self.request))
        return dict(serializer_class.of(self.request).validated_data)

    def _save(self, profile: Profile | None, definition: ProfileDefinition, *, base: int | None) -> Response:
        dry_run = is_true(self.request, "dry_run")
        version = services.save_profile(
            by=user_of(self.request), profile=profile, definition=definition, base=base, dry_run=dry_run
        )
        findings = LintFindingOut(definition_findings(definition), many=True).data
        if dry_run:
            return Response(PlanOut(save_plan(definition) | {"findings": findings}).data)
        answer = self._answer(version.profile, status.HTTP_200_OK if profile else status.HTTP_201_CREATED)
        answer.data["findings"] = findings
        return answer

    def _profile(self, slug: str) -> Profile:
        profile = Profile.objects.select_related("current").filter(slug=slug).first()
        if profile is None:
            raise Http404
        return profile

    def _answer(self, profile: Profile, code: int = status.HTTP_200_OK) -> Response:
        (entry,) = entries(user_of(self.request), Profile.objects.filter(pk=profile.pk))
        return Response(ProfileOut(entry).data, status=code)


def save_plan(definition: ProfileDefinition) -> dict[str, Any]:
    """Return what saving would change, as `PlanOut` has it but for findings."""
    profile = Profile.objects.select_related("current").filter(slug=definition.slug).first()
    if profile is None or profile.current is None:
        return {
            "version": 1,
            "makes_version": True,
            "restores": False,
            "spec_diff": "",
            "limits": [],
            "live_claims": 0,
        }
    difference = proposed_difference(profile.current, definition.spec, definition.limits)
    return {
        "version": profile.current.number + bool(difference),
        "makes_version": bool(difference),
        "restores": profile.retired_at is not None,
        "spec_diff": "\n".join(map(str, difference.lines)),
        "limits": difference.limits,
        "live_claims": sum(use.live for use in live_versions(profile)),
    }


class LintOut(serializers.Serializer[Any]):
    """
    Findings as of `computed_at`, the worst first. `silent` clusters publish no device, so they were not
    checked.
    """

    computed_at = serializers.DateTimeField(allow_null=True)
    profiles = serializers.IntegerField()
    checked = Texts()
    silent = Texts()
    findings = LintFindingOut(many=True)


@needs(Scope.ADMIN, reading=True)
@refuses(403)
class LintView(APIView):
    """Profiles and device classes that match nothing, fail, or miss devices by rounding. Admins only."""

    @extend_schema(responses=LintOut)
    def get(self, request: Request) -> Response:
        if not is_platform_admin(request.user):
            raise PermissionDenied("Only a platform admin can check the catalogue.")
        return Response(LintOut(catalogue_report()).data)
