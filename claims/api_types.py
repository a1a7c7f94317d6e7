"""
Serializers shared by several resources of the API: inputs (shape only; services decide what is allowed), and
claims as responses.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.contrib.postgres.expressions import ArraySubquery
from django.db.models import Exists, OuterRef
from django.http import Http404
from django.utils import timezone
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from claims.models import Allocation, Alternative, Claim, Delivery, Profile, Quota, Transition
from claims.models.limits import MAX_DEVICES
from claims.observation.drift import find_drift
from claims.observation.observations import observe
from claims.plans.changes import current_parts
from claims.plans.plan import delivery_kind
from claims.states import ClaimState
from core.errors import UnknownName
from core.inputs import AskingInput, Input
from core.prepared import by_keys
from core.times import MAX_DURATION, parse_duration, spell_duration
from inventory.clusters import Unknown
from inventory.models import Cluster
from inventory.states import EndPolicy
from teams.access import team_for, teams_where
from teams.models import Role, Team, User


@extend_schema_field({"type": "string", "minLength": 1, "examples": ["36h"]})
class SpelledDuration(serializers.DurationField):
    """
    A duration as "36h" or "1d 12h", as seconds, or as ISO 8601. It is described as a text: generators of
    clients make no type of a text or a number.
    """

    default_error_messages = {"invalid": "Enter a duration such as 24h, 3d, 1d 12h, PT24H or 86400."}

    def to_internal_value(self, value: Any) -> timedelta:
        if value == "":  # the field would read it as 0
            self.fail("invalid")
        try:
            return parse_duration(str(value))
        except ValueError:
            duration: timedelta = super().to_internal_value(value)
            if not timedelta(0) <= duration <= MAX_DURATION:
                self.fail("invalid")
            return duration

    def to_representation(self, value: timedelta) -> str:
        return spell_duration(value)


class FurtherIn(Input):
    """An additional profile of the claim."""

    profile = serializers.CharField(max_length=40, help_text="Slug of the profile")
    devices = serializers.IntegerField(min_value=1, max_value=MAX_DEVICES, default=1, help_text="Per claim")


class PartIn(Input):
    """A profile of a claim with several, and the number of devices to approve."""

    profile = serializers.CharField(max_length=40, help_text="Slug of the profile")
    devices = serializers.IntegerField(
        min_value=0, max_value=MAX_DEVICES, help_text="Per claim; 0 leaves the profile out"
    )


class RequestIn(Input):
    """A request. Without `duration`, the default of the profile applies."""

    team = serializers.CharField(max_length=40, help_text="Slug of the team")
    cluster = serializers.CharField(
        max_length=40,
        allow_blank=True,
        default="",
        help_text="Name of the cluster; without it, the one of the team where the request fits best now",
    )
    profile = serializers.CharField(max_length=40, help_text="Slug of the profile")
    alternatives = serializers.ListField(
        child=serializers.CharField(max_length=40),
        max_length=7,
        default=list,
        help_text="Slugs of profiles to use, in this order, if the profile does not fit",
    )
    together = serializers.ListField(
        child=FurtherIn(),
        max_length=31,
        default=list,
        help_text="Additional profiles of the claim; cannot be combined with alternatives",
    )
    devices = serializers.IntegerField(min_value=1, max_value=MAX_DEVICES, default=1, help_text="Per claim")
    parallel = serializers.IntegerField(
        min_value=1, max_value=1000, default=1, help_text="Concurrent claims of a template"
    )
    delivery = serializers.ChoiceField(choices=Delivery.choices, default=Delivery.CLAIM)
    duration = SpelledDuration(
        required=False, allow_null=True, default=None, help_text="36h, 1d 12h, PT36H, or seconds"
    )
    name = serializers.CharField(
        max_length=63, allow_blank=True, default="", help_text="Name of the object; generated if empty"
    )


class ClaimIn(RequestIn):
    reason = serializers.CharField(max_length=2000, allow_blank=True, default="")
    keep_alive = SpelledDuration(
        required=False,
        allow_null=True,
        default=None,
        min_value=timedelta(minutes=1),
        max_value=timedelta(days=7),
        error_messages={"min_value": "At least 1 min.", "max_value": "At most 7 d."},
        help_text="End the claim once it was not renewed (`PUT …/keep-alive/`) for this long: 15m to 7d",
    )


class ApproveIn(Input):
    """With `devices`, `duration`, `profile` or `together`, less is approved than requested."""

    spec_hash = serializers.CharField(max_length=64, help_text="`spec_hash` of the claim that you read")
    note = serializers.CharField(max_length=2000, allow_blank=True, default="")
    devices = serializers.IntegerField(
        min_value=1,
        max_value=MAX_DEVICES,
        required=False,
        allow_null=True,
        default=None,
        help_text="Per claim",
    )
    duration = SpelledDuration(required=False, allow_null=True, default=None, help_text="36h, PT36H, seconds")
    profile = serializers.CharField(
        max_length=40, allow_blank=True, default="", help_text="Slug of another profile"
    )
    together = serializers.ListField(
        child=PartIn(),
        max_length=32,
        default=list,
        help_text="For a claim with several profiles: those to approve in part",
    )


class DenyIn(Input):
    reason = serializers.CharField(
        max_length=2000,
        help_text="Seen by the team",
        error_messages={"blank": "Enter a reason: the requester sees it."},
    )


class EndIn(Input):
    reason = serializers.CharField(max_length=2000, allow_blank=True, default="")


class QuotaIn(AskingInput):
    """A limit for one device class or profile, or (`counts`: claims) for the number of claims."""

    team = serializers.CharField(max_length=40)
    device_class = serializers.CharField(max_length=253, allow_blank=True, default="")
    profile = serializers.CharField(max_length=40, allow_blank=True, default="")
    counts = serializers.ChoiceField(choices=Quota.Counts.choices, default=Quota.Counts.DEVICES)
    devices = serializers.IntegerField(min_value=0, max_value=Quota.MOST, help_text="The limit")
    guaranteed = serializers.IntegerField(
        min_value=0,
        max_value=Quota.MOST,
        required=False,
        help_text="Kept free for the team; for device classes only. Left out it stays",
    )


class QuotaRequestIn(AskingInput):
    """A request for a limit of `devices` in total, until a time or permanently."""

    team = serializers.CharField(max_length=40)
    device_class = serializers.CharField(max_length=253, allow_blank=True, default="")
    profile = serializers.CharField(max_length=40, allow_blank=True, default="")
    counts = serializers.ChoiceField(choices=Quota.Counts.choices, default=Quota.Counts.DEVICES)
    devices = serializers.IntegerField(min_value=1, max_value=Quota.MOST, help_text="The limit in total")
    until = serializers.DateTimeField(allow_null=True, default=None, help_text="Permanent if left out")
    reason = serializers.CharField(max_length=2000)


class QuotaGrantIn(Input):
    """Fields that are left out are granted as requested."""

    devices = serializers.IntegerField(min_value=1, max_value=Quota.MOST, allow_null=True, default=None)
    until = serializers.DateTimeField(allow_null=True, default=None)
    note = serializers.CharField(max_length=2000, allow_blank=True, default="")


def cluster_named(name: str) -> Cluster:
    """Raise UnknownName if there is no such cluster."""
    cluster = Cluster.objects.filter(name=name).first()
    if cluster is None:
        names = ", ".join(Cluster.objects.order_by("name").values_list("name", flat=True))
        raise UnknownName(f"There is no cluster {name}. Clusters: {names or 'none'}.", field="cluster")
    return cluster


def team_named(slug: str, user: User) -> Team:
    """Return the team for a member; Unknown (404) for an outsider, PermissionDenied for a viewer."""
    try:
        return team_for(user, slug, at_least=Role.MEMBER)
    except Http404:
        teams = ", ".join(team.slug for team in teams_where(user, at_least=Role.MEMBER))
        sentence = f"There is no team {slug}, or you are not in it. Your teams: {teams or 'none'}."
        raise Unknown(sentence) from None


def further_named(rows: list[dict[str, Any]], user: User) -> list[tuple[Profile, int]]:
    """Return the profiles of `together` with their devices. Raises as `profile_named`."""
    return [(profile_named(row["profile"], user), row["devices"]) for row in rows]


def profile_named(name: str, user: User) -> Profile:
    """Raise UnknownName if there is no such profile that `user` may see."""
    visible = Profile.objects.visible_to(user).select_related("current")
    profile = visible.filter(slug=name).first()
    if profile is None:
        raise UnknownName(f"There is no profile {name}. “dragoman profiles” lists them.", field="profile")
    return profile


@extend_schema_field({"type": "integer", "description": "Seconds"})
class SecondsField(serializers.Field[timedelta, Any, int, Any]):
    def to_representation(self, value: timedelta) -> int:
        return int(value.total_seconds())


class ClaimOut(serializers.ModelSerializer[Claim]):
    """A claim as a list shows it."""

    team = serializers.CharField(source="team.slug")
    cluster = serializers.CharField(source="cluster.name")
    profile = serializers.CharField(source="profile_version.profile.slug")
    profile_version = serializers.IntegerField(source="profile_version.number")
    profiles = serializers.SerializerMethodField(help_text="Slugs of all its profiles")
    together = serializers.SerializerMethodField(
        help_text="True if it gets all of `profiles`, false if it gets the first that fits"
    )
    requested_by = serializers.CharField(source="requested_by.username")
    decided_by = serializers.CharField(source="decided_by.username", allow_null=True, default=None)
    kind = serializers.SerializerMethodField(help_text="Kind of the object in the cluster")
    duration = SecondsField()
    state = serializers.ChoiceField(choices=ClaimState.choices)
    delivery = serializers.ChoiceField(choices=Delivery.choices)

    class Meta:
        model = Claim
        fields = (
            "id", "name", "team", "cluster", "namespace", "kind", "profile", "profile_version",
            "profiles", "together", "requested_by", "delivery", "devices", "parallel", "duration", "reason",
            "state", "state_since", "version", "created_at", "decide_by", "decided_by", "decided_at",
            "decision_note", "expires_at", "spec_hash", "problem",
        )  # fmt: skip
        read_only_fields = fields

    def get_profiles(self, claim: Claim) -> list[str]:
        return [version.profile.slug for version in claim.versions]

    def get_together(self, claim: Claim) -> bool:
        return claim.together

    def get_kind(self, claim: Claim) -> str:
        return delivery_kind(claim.delivery).kind


ALTERNATIVES = Alternative.objects.filter(claim=OuterRef("pk")).order_by("position")
# The fields of `ClaimOut` that are a column, each with its path; `claims_by_keys` makes the others.
CLAIM_COLUMNS = {
    **{name: name for name in ClaimOut.Meta.fields if name not in {"kind", "profiles", "together"}},
    "team": "team__slug",
    "cluster": "cluster__name",
    "profile": "profile_version__profile__slug",
    "profile_version": "profile_version__number",
    "requested_by": "requested_by__username",
    "decided_by": "decided_by__username",
}
CLAIM_ROWS = by_keys(
    lambda key: Claim.objects.filter(pk=key).values_list(
        *CLAIM_COLUMNS.values(),
        ArraySubquery(ALTERNATIVES.values("profile_version__profile__slug")),
        Exists(ALTERNATIVES.filter(together=True).order_by()),
    )
)


def claims_by_keys(keys: Sequence[UUID]) -> list[dict[str, Any]]:
    """
    Return the claims in the order of their keys, each as `ClaimOut` shows it, in one query without models.

    A query has chosen the keys: those of claims that the reader may see.
    """
    zone = timezone.get_current_timezone()
    claims: dict[UUID, dict[str, Any]] = {}
    for *values, slugs, together in CLAIM_ROWS.rows(list(keys)) if keys else ():
        claim = dict(zip(CLAIM_COLUMNS, values, strict=True))
        claims[claim["id"]] = claim
        for name, value in claim.items():
            if isinstance(value, datetime):
                claim[name] = value.astimezone(zone).isoformat().replace("+00:00", "Z")
        claim["id"], claim["duration"] = str(claim["id"]), int(claim["duration"].total_seconds())
        claim["profiles"], claim["together"] = slugs or [claim["profile"]], together
        claim["kind"] = delivery_kind(claim["delivery"]).kind
    ordered = (claims[key] for key in keys if key in claims)
    return [{name: claim[name] for name in ClaimOut.Meta.fields} for claim in ordered]


class AllocationOut(serializers.ModelSerializer[Allocation]):
    """A device that the claim holds now."""

    class Meta:
        model = Allocation
        fields = (
            "request", "driver", "pool", "device", "share_id", "node_name", "product", "partition", "uuid",
            "memory_bytes", "fraction", "capacity_type", "object_name", "started_at",
        )  # fmt: skip
        read_only_fields = fields
        extra_kwargs = {
            "started_at": {
                "help_text": "When the cluster allocated it. Cost counts from then on, also while its driver "
                "still makes it ready for a pod (binding conditions)"
            }
        }


class AlternativeOut(serializers.Serializer[Any]):
    """One of several profiles of a claim."""

    profile = serializers.CharField(source="alternative.profile_version.profile.slug")
    profile_version = serializers.IntegerField(source="alternative.profile_version.number")
    request = serializers.CharField(source="alternative.name", help_text="Request name, as in `allocations`")
    devices = serializers.IntegerField(
        source="alternative.devices",
        help_text="Devices that it counts against its quota, over all claims of a template",
    )
    held = serializers.IntegerField(help_text="Devices of this profile that the claim holds now")
    together = serializers.BooleanField(
        source="alternative.together",
        help_text="True if the claim gets all profiles, false if it gets the first that fits",
    )


class ClaimDetailOut(ClaimOut):
    """A claim with its spec and the devices that it holds now."""

    problem_code = serializers.SerializerMethodField(
        help_text="Code of drift: deleted, replaced, …; empty for any other problem"
    )
    allocations = AllocationOut(many=True, source="held_now")
    alternatives = serializers.SerializerMethodField(
        help_text="In order of preference, or all together; empty for a claim with one profile"
    )
    end_policy = serializers.ChoiceField(
        choices=EndPolicy.choices, help_text="What happens to pods that still hold devices at its end"
    )
    evict_at = serializers.DateTimeField(
        allow_null=True, help_text="When such pods are evicted, once that is announced"
    )
    keep_alive = SecondsField(allow_null=True, help_text="Of a claim that its program keeps alive")

    class Meta:
        model = Claim
        fields = (
            *ClaimOut.Meta.fields,
            "problem_code",
            "spec",
            "object_uid",
            "replaces",
            "allocations",
            "alternatives",
            "end_policy",
            "evict_at",
            "keep_alive",
            "ends_unless_renewed_at",
        )
        read_only_fields = fields

    def get_problem_code(self, claim: Claim) -> str:
        if not claim.problem:
            return ""
        drift = find_drift(claim, observe([claim])[claim.pk])
        return drift.code if drift else ""

    @extend_schema_field(AlternativeOut(many=True))
    def get_alternatives(self, claim: Any) -> Any:  # Any: a query has set `held_now`
        return AlternativeOut(current_parts(claim, claim.held_now), many=True).data


class TransitionOut(serializers.ModelSerializer[Transition]):
    by = serializers.CharField(source="by.username", allow_null=True, default=None)
    old = serializers.CharField()

    class Meta:
        model = Transition
        fields = ("old", "new", "reason", "by", "at")
        read_only_fields = fields


class MatchStepOut(serializers.Serializer[Any]):
    label = serializers.CharField()  # type: ignore[assignment]
    count = serializers.IntegerField()
    dropped = serializers.IntegerField()
    kind = serializers.CharField()
    detail = serializers.CharField()
    request = serializers.CharField()


class MatchOut(serializers.Serializer[Any]):
    """Null means unknown, never 0."""

    steps = MatchStepOut(many=True)
    matching = serializers.IntegerField(allow_null=True, help_text="Devices that match class and selectors")
    free = serializers.IntegerField(allow_null=True, help_text="Matching devices that are free now")
    nodes_that_fit = serializers.IntegerField(allow_null=True)
    claims_that_fit = serializers.IntegerField(allow_null=True)
    fits = serializers.BooleanField()
    problem = serializers.CharField()
    reason = serializers.CharField(help_text="Code of the problem")
