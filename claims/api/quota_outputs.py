"""What the API gives of quotas and of requests for more. Devices, or claims where `counts` says so."""

from typing import Any

from rest_framework import serializers

from claims.api.outputs import ClaimOut
from claims.models import Answer, Quota


class QuotaOut(serializers.Serializer[Any]):
    """A quota and how it stands: `reserved` by pending requests, `over` beyond the limit."""

    id = serializers.UUIDField(source="quota.id")
    team = serializers.CharField(source="team.slug")
    device_class = serializers.CharField(source="quota.device_class")
    profile = serializers.CharField(source="quota.profile.slug", allow_null=True, default=None)
    counts = serializers.ChoiceField(source="quota.counts", choices=Quota.Counts.choices)
    limit = serializers.IntegerField(help_text="With the raises that run now")
    raised = serializers.IntegerField(help_text="What raises add to the limit now")
    guaranteed = serializers.IntegerField(help_text="Kept free for the team")
    held = serializers.IntegerField()
    reserved = serializers.IntegerField()
    outside = serializers.IntegerField(help_text="Used past the portal")
    free = serializers.IntegerField()
    over = serializers.IntegerField()


class ContributionOut(serializers.Serializer[Any]):
    claim = ClaimOut()
    devices = serializers.IntegerField()
    reserved = serializers.BooleanField()
    carried = serializers.IntegerField(help_text="Counted with the claim that it replaces")


class OutsidePartOut(serializers.Serializer[Any]):
    """An object past the portal."""

    kind = serializers.CharField(source="use.kind")
    cluster = serializers.CharField(source="use.cluster_name")
    namespace = serializers.CharField(source="use.namespace")
    name = serializers.CharField(source="use.name")
    origin = serializers.CharField(source="use.origin")
    uid = serializers.CharField(source="use.uid")
    devices = serializers.IntegerField()


class RaiseOut(serializers.Serializer[Any]):
    devices = serializers.IntegerField()
    starts_at = serializers.DateTimeField()
    ends_at = serializers.DateTimeField()


class QuotaDetailOut(QuotaOut):
    contributions = ContributionOut(many=True)
    outside_parts = OutsidePartOut(many=True)
    raises = RaiseOut(many=True)


class QuotaRequestOut(serializers.Serializer[Any]):
    """A request for a limit of so many `devices` in all; `until` null is for good."""

    id = serializers.UUIDField()
    team = serializers.CharField(source="team.slug")
    device_class = serializers.CharField()
    profile = serializers.CharField(source="profile.slug", allow_null=True, default=None)
    counts = serializers.ChoiceField(choices=Quota.Counts.choices)
    devices = serializers.IntegerField()
    until = serializers.DateTimeField(allow_null=True)
    reason = serializers.CharField()
    asked_by = serializers.CharField(source="asked_by.username")
    asked_at = serializers.DateTimeField()
    answer = serializers.ChoiceField(choices=Answer.choices)
    decided_by = serializers.CharField(source="decided_by.username", allow_null=True, default=None)
    decided_at = serializers.DateTimeField(allow_null=True)
    decision_note = serializers.CharField()
