"""The form of a rate."""

from collections.abc import Iterator
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.core.validators import RegexValidator
from django.http import QueryDict
from django.utils import timezone

from core.errors import Invalid
from core.inputs import AskingForm, LocalMoment
from core.text import DEFAULT_CURRENCY
from inventory.models import Cluster
from usage.models import Rate
from usage.rate_matches import require_expression
from usage.rate_preview import matches_nothing


class RetireForm(forms.Form):
    """When a rate ends; empty is now."""

    until = LocalMoment(
        label="Ends",
        required=False,
        help_text="Empty: now. Hours before keep their price.",
    )


class RateForm(AskingForm):
    """The fields of `usage.services.save_rate`."""

    title = forms.CharField(label="Title", max_length=80)
    product = forms.CharField(
        label="Product",
        max_length=120,
        required=False,
        help_text="Short or full name, such as “H100” or “AMD Instinct MI300X”. Empty: every product.",
    )
    driver = forms.CharField(
        label="Driver",
        max_length=63,
        required=False,
        help_text="Such as gpu.nvidia.com. Empty: every driver.",
    )
    cluster = forms.ModelChoiceField(
        label="Cluster", queryset=Cluster.objects.all(), required=False, empty_label="Every cluster"
    )
    expression = forms.CharField(
        label="Expression",
        required=False,
        max_length=10_240,
        strip=True,
        widget=forms.Textarea({"rows": 3, "spellcheck": "false"}),
        help_text=(
            'A condition in CEL, such as device.capacityType == "spot". Fields of device: cluster, driver, '
            'product, partition, capacityType, nodeLabels["topology.kubernetes.io/zone"]. Empty: none.'
        ),
    )
    per_hour = forms.DecimalField(
        label="Price per hour",
        min_value=0,
        max_digits=12,
        decimal_places=4,
        help_text="Of a whole device; a partition costs its fraction.",
    )
    currency = forms.CharField(
        label="Currency",
        min_length=3,
        max_length=3,
        validators=[RegexValidator("^[A-Za-z]{3}$", "Three letters, such as EUR (ISO 4217).")],
    )
    valid_from = LocalMoment(
        label="Applies from",
        help_text="A time in the past also prices usage since then.",
    )

    valid_until = LocalMoment(
        label="Applies until",
        required=False,
        help_text="Empty: until another rate follows it.",
    )

    def __init__(
        self,
        data: QueryDict | None = None,
        *,
        currency: str = DEFAULT_CURRENCY,
        rate: Rate | None = None,
        follows: bool = False,
    ) -> None:
        """Fill the form from `rate`, else with `currency`; a rate that `follows` it applies from now on."""
        initial: dict[str, Any] = (
            {name: getattr(rate, name) for name in self.base_fields if hasattr(rate, name)}
            if rate
            else {"currency": currency}
        )
        if rate is None or follows:
            initial["valid_from"] = timezone.now().replace(second=0, microsecond=0)
            initial.pop("valid_until", None)
        super().__init__(data, initial=initial)

    def surprises(self) -> Iterator[tuple[str, str]]:
        asks = not self.errors and "preview" not in self.data
        if asks and (surprise := matches_nothing(Rate(**self.cleaned_data))):
            yield "product", surprise

    def clean(self) -> dict[str, Any]:
        start, end = self.cleaned_data.get("valid_from"), self.cleaned_data.get("valid_until")
        if start and end and end <= start:
            self.add_error("valid_until", "A rate ends after it begins.")
        return self.cleaned_data

    def clean_expression(self) -> str:
        expression: str = self.cleaned_data["expression"]
        if expression:
            try:
                require_expression(expression)
            except Invalid as refusal:
                raise ValidationError(refusal.message) from refusal
        return expression

    def clean_currency(self) -> str:
        currency: str = self.cleaned_data["currency"]
        return currency.upper()
