"""What the API says and takes about use, cost and prices. Amounts are strings: no float ever holds money."""

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from core.inputs import Input
from core.money import DEFAULT
from inventory.models import Cluster
from usage.models import Rate
from usage.series import Presence, Range
from usage.telemetry import Use


class AmountOut(serializers.Serializer[Any]):
    currency = serializers.CharField(help_text="ISO 4217")
    amount = serializers.DecimalField(max_digits=20, decimal_places=2)


class CostOut(serializers.Serializer[Any]):
    """Empty `amounts` with hours means that no rate matches; it never means free."""

    device_hours = serializers.DecimalField(
        max_digits=20,
        decimal_places=2,
        source="hours",
        help_text="Whole devices; a part counts as its fraction.",
    )
    hours_without_rate = serializers.DecimalField(max_digits=20, decimal_places=2, source="unpriced")
    amounts = AmountOut(many=True, source="money")


class ObservationOut(serializers.Serializer[Any]):
    """What is seen now; not a state of the claim."""

    use = serializers.ChoiceField(choices=list(Use))
    activity = serializers.FloatField(allow_null=True, help_text="0 to 1, of the last five minutes")
    idle_since = serializers.DateTimeField(allow_null=True)
    measured_at = serializers.DateTimeField(allow_null=True)


class PointOut(serializers.Serializer[Any]):
    """One bin. Null is not measured, never zero."""

    at = serializers.DateTimeField()
    presence = serializers.ChoiceField(choices=list(Presence))
    activity = serializers.FloatField(allow_null=True, help_text="0 to 1, mean over the claim's devices")
    memory_bytes = serializers.IntegerField(
        allow_null=True, help_text="Sum over its devices of the largest used"
    )
    power_watts = serializers.FloatField(
        allow_null=True, help_text="Sum over its devices of the board's mean"
    )
    by_device = serializers.DictField(child=serializers.FloatField(), help_text="Activity of each device")


class UsageOut(serializers.Serializer[Any]):
    range = serializers.ChoiceField(choices=list(Range))
    start = serializers.DateTimeField()
    end = serializers.DateTimeField()
    step_seconds = serializers.IntegerField()
    now = ObservationOut()
    mean_activity = serializers.FloatField(allow_null=True)
    peak_memory_bytes = serializers.IntegerField(allow_null=True)
    unmeasured_seconds = serializers.IntegerField(help_text="Held, and nothing measured")
    points = PointOut(many=True)


class LineOut(serializers.Serializer[Any]):
    product = serializers.CharField()
    partition = serializers.CharField()
    cost = CostOut()


class ClaimCostOut(serializers.Serializer[Any]):
    so_far = CostOut()
    per_hour = CostOut(help_text="Of what is held now")
    projected = CostOut(allow_null=True, help_text="At its expiry, if it keeps what it holds now")
    lines = LineOut(many=True)


class RowOut(serializers.Serializer[Any]):
    key = serializers.CharField(help_text="Id of the claim or person; name of the product")
    label = serializers.CharField()  # type: ignore[assignment]  # a field of that name, as DRF allows
    cost = CostOut()


class TeamCostOut(serializers.Serializer[Any]):
    """Each of the three groupings adds up to `total`."""

    team = serializers.CharField(source="team.slug")
    month = serializers.CharField()
    until = serializers.DateTimeField(help_text="Costs are counted up to here")
    total = CostOut()
    by_claim = RowOut(many=True)
    by_person = RowOut(many=True)
    by_product = RowOut(many=True)


class RateOut(serializers.ModelSerializer[Rate]):
    cluster = serializers.SlugRelatedField[Cluster](slug_field="name", read_only=True, allow_null=True)

    class Meta:
        model = Rate
        fields = ("id", "title", "product", "driver", "cluster", "per_hour", "currency", "valid_from")


@extend_schema_field({"type": "string", "format": "decimal", "pattern": r"^[0-9]{1,8}(\.[0-9]{1,4})?$"})
class Price(serializers.DecimalField):
    """A decimal that is there: the pattern that drf-spectacular derives matches an empty text too."""


class RateIn(Input):
    """The fields of `usage.services.save_rate`. Empty `product` and `driver`, no `cluster`: everything."""

    title = serializers.CharField(max_length=80)
    product = serializers.CharField(max_length=120, allow_blank=True, default="")
    driver = serializers.CharField(max_length=63, allow_blank=True, default="")
    cluster = serializers.SlugRelatedField(
        slug_field="name", queryset=Cluster.objects.all(), allow_null=True, default=None
    )
    per_hour = Price(max_digits=12, decimal_places=4, min_value=0)
    currency = serializers.RegexField(r"^[A-Z]{3}$", default=DEFAULT)
    valid_from = serializers.DateTimeField()
