"""What the API takes. Shape only: whether something is allowed, the services say."""

from datetime import timedelta
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from claims.forms.durations import LONGEST, parse
from claims.models import Delivery, Profile, Quota
from core.errors import Invalid
from core.inputs import Input
from inventory.models import Cluster
from teams.models import User


@extend_schema_field({"oneOf": [{"type": "string", "minLength": 1}, {"type": "integer", "minimum": 0}]})
class SpelledDuration(serializers.DurationField):
    """As people write it in the form, "36h" or "1d 12h"; or seconds, or ISO 8601."""

    default_error_messages = {
        "invalid": gettext_lazy("Write a duration like 24h, 3d, 1d 12h, PT24H or 86400.")
    }

    def to_internal_value(self, value: Any) -> timedelta:
        if value == "":  # which the field would read as no time at all
            self.fail("invalid")
        try:
            return parse(str(value))
        except ValueError:
            found: timedelta = super().to_internal_value(value)
            if not timedelta(0) <= found <= LONGEST:
                self.fail("invalid")
            return found


class FurtherIn(Input):
    """A profile that the claim takes as well."""

    profile = serializers.CharField(max_length=40, help_text="Slug of the profile")
    devices = serializers.IntegerField(min_value=1, max_value=1024, default=1, help_text="Per claim")


class PartIn(Input):
    """A profile of a claim that takes several, and how many devices of it there shall be."""

    profile = serializers.CharField(max_length=40, help_text="Slug of the profile")
    devices = serializers.IntegerField(
        min_value=0, max_value=1024, help_text="Per claim; 0 leaves the profile out"
    )


class WishIn(Input):
    """A request: `duration` is the usual one of the profile if left out."""

    team = serializers.CharField(max_length=40, help_text="Slug of the team")
    cluster = serializers.CharField(max_length=40, help_text="Name of the cluster")
    profile = serializers.CharField(max_length=40, help_text="Slug of the profile")
    alternatives = serializers.ListField(
        child=serializers.CharField(max_length=40),
        max_length=7,
        default=list,
        help_text="Slugs of profiles to take, in this order, where the profile does not fit",
    )
    together = serializers.ListField(
        child=FurtherIn(),
        max_length=31,
        default=list,
        help_text="Profiles that the claim takes as well; not beside alternatives",
    )
    devices = serializers.IntegerField(min_value=1, max_value=1024, default=1, help_text="Per claim")
    parallel = serializers.IntegerField(
        min_value=1, max_value=1000, default=1, help_text="Claims of a template at once"
    )
    delivery = serializers.ChoiceField(choices=Delivery.choices, default=Delivery.CLAIM)
    duration = SpelledDuration(
        required=False, allow_null=True, default=None, help_text="36h, 1d 12h, PT36H, or seconds"
    )
    name = serializers.CharField(max_length=63, allow_blank=True, default="", help_text="Of the object")


class ClaimIn(WishIn):
    reason = serializers.CharField(max_length=2000, allow_blank=True, default="")


class ApproveIn(Input):
    """With `devices`, `duration`, `profile` or `together`, less is approved than was asked for."""

    spec_hash = serializers.CharField(max_length=64, help_text="Of the claim as you read it")
    note = serializers.CharField(max_length=2000, allow_blank=True, default="")
    devices = serializers.IntegerField(
        min_value=1, max_value=1024, required=False, allow_null=True, default=None, help_text="Per claim"
    )
    duration = SpelledDuration(required=False, allow_null=True, default=None, help_text="36h, PT36H, seconds")
    profile = serializers.CharField(
        max_length=40, allow_blank=True, default="", help_text="Slug of another profile"
    )
    together = serializers.ListField(
        child=PartIn(),
        max_length=32,
        default=list,
        help_text="Of a claim that takes several profiles: those of which less is approved",
    )


class DenyIn(Input):
    reason = serializers.CharField(
        max_length=2000,
        help_text="Seen by the team",
        error_messages={"blank": gettext_lazy("Say why: the person who asked sees this sentence.")},
    )


class EndIn(Input):
    reason = serializers.CharField(max_length=2000, allow_blank=True, default="")


class QuotaIn(Input):
    """A limit for one device class, for one profile, or (`counts`: claims) for the number of claims."""

    team = serializers.CharField(max_length=40)
    device_class = serializers.CharField(max_length=253, allow_blank=True, default="")
    profile = serializers.CharField(max_length=40, allow_blank=True, default="")
    counts = serializers.ChoiceField(choices=Quota.Counts.choices, default=Quota.Counts.DEVICES)
    devices = serializers.IntegerField(min_value=0, max_value=1_000_000, help_text="The limit")
    guaranteed = serializers.IntegerField(
        min_value=0, max_value=1_000_000, default=0, help_text="Of a device class: kept free for the team"
    )


class QuotaRequestIn(Input):
    """A wish for a limit of so many `devices` in all, until a moment or for good."""

    team = serializers.CharField(max_length=40)
    device_class = serializers.CharField(max_length=253, allow_blank=True, default="")
    profile = serializers.CharField(max_length=40, allow_blank=True, default="")
    counts = serializers.ChoiceField(choices=Quota.Counts.choices, default=Quota.Counts.DEVICES)
    devices = serializers.IntegerField(min_value=1, max_value=1_000_000, help_text="The limit in all")
    until = serializers.DateTimeField(allow_null=True, default=None, help_text="Left out: for good")
    reason = serializers.CharField(max_length=2000)


class QuotaGrantIn(Input):
    """What is left out is given as it was asked for."""

    devices = serializers.IntegerField(min_value=1, max_value=1_000_000, allow_null=True, default=None)
    until = serializers.DateTimeField(allow_null=True, default=None)
    note = serializers.CharField(max_length=2000, allow_blank=True, default="")


def cluster_named(name: str) -> Cluster:
    """Raise Invalid if there is no such cluster."""
    cluster = Cluster.objects.filter(name=name).first()
    if cluster is None:
        raise Invalid(_("There is no cluster %(name)s.") % {"name": name})
    return cluster


def further_named(rows: list[dict[str, Any]], user: User) -> list[tuple[Profile, int]]:
    """Return the profiles of `together` with their devices. Raises as `profile_named`."""
    return [(profile_named(row["profile"], user), row["devices"]) for row in rows]


def profile_named(name: str, user: User) -> Profile:
    """Raise Invalid if there is no such profile that `user` may see."""
    visible = Profile.objects.visible_to(user).select_related("current")
    profile = visible.filter(slug=name).first()
    if profile is None:
        raise Invalid(_("There is no profile %(name)s.") % {"name": name})
    return profile
