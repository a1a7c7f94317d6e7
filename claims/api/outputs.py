"""What the API gives. Names as in the models; durations in seconds; times in UTC."""

from datetime import timedelta
from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from claims.manifests import kind_of
from claims.models import Allocation, Claim, Delivery, Transition
from claims.observed.behind import trouble_of
from claims.observed.sightings import look
from claims.request.alternatives import standing_of
from claims.states import ClaimState


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
    profiles = serializers.SerializerMethodField(help_text="Slugs of all profiles that it names")
    together = serializers.SerializerMethodField(
        help_text="All of `profiles` are taken, not the first that fits"
    )
    requested_by = serializers.CharField(source="requested_by.username")
    decided_by = serializers.CharField(source="decided_by.username", allow_null=True, default=None)
    kind = serializers.SerializerMethodField(help_text="Of the object in the cluster")
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
        return kind_of(claim.delivery).kind


class AllocationOut(serializers.ModelSerializer[Allocation]):
    """A device that the claim holds now."""

    class Meta:
        model = Allocation
        fields = (
            "request", "driver", "pool", "device", "share_id", "node_name", "product", "partition", "uuid",
            "memory_bytes", "fraction", "object_name", "started_at",
        )  # fmt: skip
        read_only_fields = fields


class AlternativeOut(serializers.Serializer[Any]):
    """One of the profiles of a claim that names several."""

    profile = serializers.CharField(source="alternative.profile_version.profile.slug")
    profile_version = serializers.IntegerField(source="alternative.profile_version.number")
    request = serializers.CharField(source="alternative.name", help_text="As in `allocations`")
    devices = serializers.IntegerField(
        source="alternative.devices", help_text="That it takes of its quota, of all claims together"
    )
    held = serializers.IntegerField(help_text="Devices that the claim holds of it now")
    together = serializers.BooleanField(
        source="alternative.together", help_text="All profiles are taken, not the first that fits"
    )


class ClaimDetailOut(ClaimOut):
    """A claim with its spec and the devices that it holds now."""

    problem_code = serializers.SerializerMethodField(
        help_text="Of what others did to its object: deleted, replaced …; empty for any other problem"
    )
    allocations = AllocationOut(many=True, source="held_now")
    alternatives = serializers.SerializerMethodField(
        help_text="In the order of preference, or all together; empty for a claim of one profile"
    )

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
        )
        read_only_fields = fields

    def get_problem_code(self, claim: Claim) -> str:
        if not claim.problem:
            return ""
        trouble = trouble_of(claim, look([claim])[claim.pk])
        return trouble.code if trouble else ""

    @extend_schema_field(AlternativeOut(many=True))
    def get_alternatives(self, claim: Any) -> Any:  # Any: a query has set `held_now`
        return AlternativeOut(standing_of(claim, claim.held_now), many=True).data


class TransitionOut(serializers.ModelSerializer[Transition]):
    by = serializers.CharField(source="by.username", allow_null=True, default=None)
    old = serializers.CharField()

    class Meta:
        model = Transition
        fields = ("old", "new", "why", "by", "at")
        read_only_fields = fields


class MatchStepOut(serializers.Serializer[Any]):
    label = serializers.CharField()  # type: ignore[assignment]
    count = serializers.IntegerField()
    dropped = serializers.IntegerField()
    kind = serializers.CharField()
    detail = serializers.CharField()
    request = serializers.CharField()


class MatchOut(serializers.Serializer[Any]):
    """Null means that it cannot be told, never 0."""

    steps = MatchStepOut(many=True)
    matching = serializers.IntegerField(allow_null=True, help_text="Devices that pass class and selectors")
    free = serializers.IntegerField(allow_null=True, help_text="Devices that could be taken now")
    nodes_that_fit = serializers.IntegerField(allow_null=True)
    claims_that_fit = serializers.IntegerField(allow_null=True)
    fits = serializers.BooleanField()
    problem = serializers.CharField()
    reason = serializers.CharField(help_text="Code of the problem")
