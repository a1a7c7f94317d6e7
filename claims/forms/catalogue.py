"""The filters of the catalogue as they stand in its address."""

from __future__ import annotations

from collections.abc import Iterable

from django import forms
from django.http import QueryDict
from django.utils.translation import gettext_lazy as _

from claims.catalogue.filter import SORTS, Wanted
from claims.catalogue.sharing import Sharing

SORT_LABELS = {
    "title": _("by name"),
    "free": _("most free first"),
    "price": _("cheapest first"),
    "memory": _("most memory first"),
    "wait": _("shortest wait first"),
    "devices": _("most devices first"),
}


class CatalogueForm(forms.Form):
    """What is malformed asks for nothing and is said beside its field."""

    q = forms.CharField(required=False, max_length=200)
    memory = forms.IntegerField(
        required=False,
        min_value=1,
        max_value=100_000,
        label=_("Memory at least, GB"),
        widget=forms.NumberInput(attrs={"placeholder": _("GB at least"), "step": "any"}),
    )
    model = forms.ChoiceField(required=False, label=_("Model"))
    sharing = forms.ChoiceField(
        required=False, choices=[("", _("Any sharing")), *Sharing.choices], label=_("Sharing")
    )
    price = forms.DecimalField(
        required=False,
        min_value=0,
        max_digits=9,
        decimal_places=4,
        label=_("Price of one device and hour at most"),
        widget=forms.NumberInput(attrs={"placeholder": _("Price at most"), "step": "any"}),
    )
    free = forms.BooleanField(required=False, label=_("Free now"))
    mine = forms.BooleanField(required=False, label=_("I may request"))
    automatic = forms.BooleanField(required=False, label=_("Without approval"))
    sort = forms.ChoiceField(required=False, choices=SORT_LABELS, label=_("Sort by"))

    def __init__(self, data: QueryDict, *, models: Iterable[str]) -> None:
        """`models` are the products that the catalogue has."""
        super().__init__(data)
        choices = [("", _("Any model")), *((one, one) for one in sorted(models))]
        self.fields["model"].choices = choices  # type: ignore[attr-defined]
        for name in ("memory", "price"):
            self.fields[name].widget.attrs["class"] = "form-control"
        for name in ("model", "sharing", "sort"):
            self.fields[name].widget.attrs["class"] = "form-select"

    @property
    def numbers(self) -> list[forms.BoundField]:
        """What stands as fields beside the search: memory, model, sharing, price."""
        return [self[name] for name in ("memory", "model", "sharing", "price")]

    @property
    def wanted(self) -> Wanted:
        self.is_valid()
        said = self.cleaned_data
        return Wanted(
            words=said.get("q", ""),
            memory_gb=said.get("memory"),
            model=said.get("model", ""),
            sharing=said.get("sharing", ""),
            price=said.get("price"),
            free=said.get("free", False),
            mine=said.get("mine", False),
            automatic=said.get("automatic", False),
        )

    @property
    def order(self) -> str:
        """One of SORTS."""
        self.is_valid()
        asked = self.cleaned_data.get("sort", "")
        return asked if asked in SORTS else "title"
