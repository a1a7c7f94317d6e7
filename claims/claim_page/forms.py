"""Options of the snippets of a claim. They are query parameters of the address and are not stored."""

from __future__ import annotations

from typing import Any

from django import forms
from django.core.validators import RegexValidator
from django.http import QueryDict

from core.text import counted
from dra.placement import CapacityType, Placement
from dra.workload_parts import (
    ASSUMED,
    CUDA,
    LAST_PORT,
    MAX_COMPLETIONS,
    MAX_NAME_LENGTH,
    MAX_PODS,
    MAX_REFERENCE_LENGTH,
    REFERENCE,
    SUBDOMAIN,
    ClaimUse,
    WorkloadOptions,
)

ENTIRE_TEXT = r"\A(?:{})\Z"
NAME = RegexValidator(
    ENTIRE_TEXT.format(SUBDOMAIN.pattern),
    "Use lower-case letters, digits, hyphens and dots.",
)
IMAGE = RegexValidator(
    ENTIRE_TEXT.format(REFERENCE.pattern),
    "Enter an image like registry.example.org/team/train:1.2, without spaces or quotes.",
)
CUDA_VERSION = RegexValidator(ENTIRE_TEXT.format(CUDA.pattern), "Enter a version like 12.9.")
RESTRICTED, PLAIN = "restricted", "none"
OPEN, ISOLATED = "open", "isolated"
CAPACITY_TYPES = {
    CapacityType.SPOT: "Spot",
    CapacityType.ON_DEMAND: "On-demand",
    CapacityType.RESERVED: "Reserved",
}


class SnippetForm(forms.Form):
    """The fields of `dra.workload_parts.WorkloadOptions`; `options` returns them."""

    image = forms.CharField(
        required=False, max_length=MAX_REFERENCE_LENGTH, validators=[IMAGE], label="Image"
    )
    cuda = forms.CharField(
        required=False,
        validators=[CUDA_VERSION],
        label="CUDA version of the image",
        help_text="Leave empty to read it from the image tag.",
    )
    request = forms.ChoiceField(required=False, label="Device request of the container")
    pods = forms.IntegerField(required=False, min_value=1, max_value=MAX_PODS, label="Concurrent pods")
    completions = forms.IntegerField(
        required=False, min_value=1, max_value=MAX_COMPLETIONS, label="Total pods of the Job"
    )
    port = forms.IntegerField(
        required=False,
        min_value=1,
        max_value=LAST_PORT,
        label="Port",
        help_text="Served by a Deployment or StatefulSet.",
    )
    priority = forms.CharField(
        required=False,
        max_length=MAX_NAME_LENGTH,
        validators=[NAME],
        label="PriorityClass",
        help_text="It orders the queue of pods, but takes no device from a pod that runs.",
    )
    capacity = forms.ChoiceField(required=False, label="Nodes")
    tolerate = forms.MultipleChoiceField(
        required=False,
        widget=forms.CheckboxSelectMultiple,
        label="Tolerate node taints",
    )
    security = forms.ChoiceField(
        required=False,
        choices=[
            (RESTRICTED, "Pod Security “restricted”"),
            (PLAIN, "Image default"),
        ],
        label="Security",
    )
    network = forms.ChoiceField(
        required=False,
        choices=[
            (OPEN, "Namespace default"),
            (ISOLATED, "Only its ports and DNS"),
        ],
        label="Network",
    )
    weights_claim = forms.CharField(
        required=False,
        max_length=MAX_NAME_LENGTH,
        validators=[NAME],
        label="Model weights: PersistentVolumeClaim",
        help_text="Must be readable from several nodes.",
    )
    weights_image = forms.CharField(
        required=False,
        max_length=MAX_REFERENCE_LENGTH,
        validators=[IMAGE],
        label="Model weights: OCI image",
    )

    def __init__(self, data: QueryDict | None, *, use: ClaimUse, placement: Placement) -> None:
        """A form with none of its fields in `data` is unbound and shows the defaults."""
        submitted = data if data is not None and any(name in data for name in self.base_fields) else None
        super().__init__(submitted, auto_id="snippet_%s")
        self.submitted = submitted or QueryDict()
        self.use = use
        names = [name for name, _count in use.requests]
        all_requests = ("", "All requests of the claim")
        by_name = [(name, name) for name in names] if len(names) > 1 else []
        self._set_choices("request", [all_requests, *by_name])
        self._set_choices("capacity", [("", "Any"), *capacity_choices(placement)])
        self._set_choices("tolerate", taint_choices(placement))
        if not use.template:
            self.fields["pods"].help_text = "All of them share the devices of the claim."

    def _set_choices(self, name: str, choices: list[tuple[Any, Any]]) -> None:
        field = self.fields[name]
        assert isinstance(field, forms.ChoiceField)  # noqa: S101 - declared so above
        field.choices = choices

    def clean_pods(self) -> int:
        pods = int(self.cleaned_data["pods"] or 0)
        if self.use.template and pods > self.use.parallel:
            raise forms.ValidationError(
                f"The claim was approved for {counted(self.use.parallel, 'concurrent pod')}, not {pods}."
            )
        return pods

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        if cleaned.get("weights_claim") and cleaned.get("weights_image"):
            self.add_error(
                "weights_image", "Choose a PersistentVolumeClaim or an image for the weights, not both."
            )
        return cleaned

    def options(self) -> WorkloadOptions:
        """Return the options of a valid form, the defaults of an unbound one."""
        if not self.is_bound:
            return WorkloadOptions()
        cleaned = self.cleaned_data
        return WorkloadOptions(
            **{name: cleaned[name] for name in ("image", "cuda", "request", "priority", "capacity", "pods")},
            completions=cleaned["completions"] or 0,
            port=cleaned["port"] or 0,
            tolerate=tuple(cleaned["tolerate"]),
            restricted=cleaned["security"] != PLAIN,
            isolated=cleaned["network"] == ISOLATED,
            weights_claim=cleaned["weights_claim"],
            weights_image=cleaned["weights_image"],
        )

    def query(self) -> dict[str, list[str]]:
        """Return the submitted values that are not the defaults, for the addresses of links."""
        values = {name: [text for text in self.submitted.getlist(name) if text] for name in self.fields}
        return {
            name: texts for name, texts in values.items() if texts and texts not in ([RESTRICTED], [OPEN])
        }


def capacity_choices(placement: Placement) -> list[tuple[str, str]]:
    """Return the capacity types of nodes with matching devices, with number of nodes and label."""
    return [
        (
            pricing.label or ASSUMED,
            f"{CAPACITY_TYPES[pricing.capacity]}: {node_count(number)}, {pricing.label}"
            if pricing.label
            else f"On-demand (assumed): {node_count(number)}",
        )
        for pricing, number in placement.pricings
    ]


def taint_choices(placement: Placement) -> list[tuple[str, str]]:
    return [
        (
            taint,
            f"{taint} on {number} of {node_count(placement.nodes)}",
        )
        for taint, number in placement.taints
    ]


def node_count(number: int) -> str:
    return counted(number, "node")
