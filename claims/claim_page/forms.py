"""Options of the manifests of a claim. They come with GET, stay in the address, and are stored nowhere."""

from __future__ import annotations

from typing import Any

from django import forms
from django.core.validators import RegexValidator
from django.http import QueryDict

from core.text import counted
from dra.placement import CapacityType, Placement
from dra.workloads import ASSUMED, ClaimUse, WorkloadOptions
from dra.workloads.pods import (
    CUDA,
    LAST_PORT,
    LONGEST_NAME,
    LONGEST_REFERENCE,
    MOST_COMPLETIONS,
    MOST_PODS,
    REFERENCE,
    SUBDOMAIN,
)

WHOLE = r"\A(?:{})\Z"
NAME = RegexValidator(
    WHOLE.format(SUBDOMAIN.pattern),
    "Use lower-case letters, digits, hyphens and dots, as Kubernetes' names have them.",
)
IMAGE = RegexValidator(
    WHOLE.format(REFERENCE.pattern),
    "Write an image like registry.example.org/team/train:1.2, without spaces or quotes.",
)
CUDA_VERSION = RegexValidator(WHOLE.format(CUDA.pattern), "Write a version like 12.9.")
RESTRICTED, PLAIN = "restricted", "none"
OPEN, ISOLATED = "open", "isolated"
CAPACITY_TYPES = {
    CapacityType.SPOT: "Spot",
    CapacityType.ON_DEMAND: "On-demand",
    CapacityType.RESERVED: "Reserved",
}


class SnippetForm(forms.Form):
    """What `dra.workloads.pods.WorkloadOptions` holds, by field or folded into it by `options`."""

    image = forms.CharField(required=False, max_length=LONGEST_REFERENCE, validators=[IMAGE], label="Image")
    cuda = forms.CharField(
        required=False,
        validators=[CUDA_VERSION],
        label="CUDA in the image",
        help_text="Read from the tag where it is named there.",
    )
    request = forms.ChoiceField(required=False, label="Devices of the container")
    pods = forms.IntegerField(required=False, min_value=1, max_value=MOST_PODS, label="Concurrent pods")
    completions = forms.IntegerField(
        required=False, min_value=1, max_value=MOST_COMPLETIONS, label="Pods of the Job in all"
    )
    port = forms.IntegerField(
        required=False,
        min_value=1,
        max_value=LAST_PORT,
        label="Port",
        help_text="That a Deployment or StatefulSet serves.",
    )
    priority = forms.CharField(
        required=False, max_length=LONGEST_NAME, validators=[NAME], label="PriorityClass"
    )
    capacity = forms.ChoiceField(required=False, label="Nodes")
    tolerate = forms.MultipleChoiceField(
        required=False,
        widget=forms.CheckboxSelectMultiple,
        label="Tolerate taints of nodes",
    )
    security = forms.ChoiceField(
        required=False,
        choices=[
            (RESTRICTED, "Pod Security “restricted”"),
            (PLAIN, "As the image wants"),
        ],
        label="Security",
    )
    network = forms.ChoiceField(
        required=False,
        choices=[
            (OPEN, "As the namespace has it"),
            (ISOLATED, "Closed but for its ports and DNS"),
        ],
        label="Network",
    )
    weights_claim = forms.CharField(
        required=False,
        max_length=LONGEST_NAME,
        validators=[NAME],
        label="Model weights: volume claim",
        help_text="A PersistentVolumeClaim that many nodes may read.",
    )
    weights_image = forms.CharField(
        required=False,
        max_length=LONGEST_REFERENCE,
        validators=[IMAGE],
        label="Model weights: OCI image",
    )

    def __init__(self, data: QueryDict | None, *, use: ClaimUse, placement: Placement) -> None:
        """Without any of its fields in `data` the form is unbound, and shows what is usual."""
        given = data if data is not None and any(name in data for name in self.base_fields) else None
        super().__init__(given, auto_id="snippet_%s")
        self.sent = given or QueryDict()
        self.use = use
        names = [name for name, _count in use.requests]
        whole = [("", "All requests of the claim"), *((name, name) for name in names)]
        self._choose("request", whole if len(names) > 1 else [("", whole[0][1])])
        self._choose("capacity", [("", "Any"), *capacity_choices(placement)])
        self._choose("tolerate", taint_choices(placement))
        if not use.template:
            self.fields["pods"].help_text = "They share the devices of the claim."

    def _choose(self, name: str, choices: list[tuple[Any, Any]]) -> None:
        field = self.fields[name]
        assert isinstance(field, forms.ChoiceField)  # noqa: S101 - declared so above
        field.choices = choices

    def clean_pods(self) -> int:
        pods = int(self.cleaned_data["pods"] or 0)
        if self.use.template and pods > self.use.parallel:
            raise forms.ValidationError(
                f"The claim is for {counted(self.use.parallel, 'pod')} at once; {pods} would wait for "
                "claims that nobody granted."
            )
        return pods

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        if cleaned.get("weights_claim") and cleaned.get("weights_image"):
            self.add_error(
                "weights_image", "Weights come from a volume claim or from an image, not from both."
            )
        return cleaned

    def options(self) -> WorkloadOptions:
        """Return the options of a valid form, the usual ones of an unbound one."""
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

    def chosen(self) -> dict[str, list[str]]:
        """Return what is sent and says something, for the addresses of links."""
        sent = {name: [text for text in self.sent.getlist(name) if text] for name in self.fields}
        return {name: texts for name, texts in sent.items() if texts and texts not in ([RESTRICTED], [OPEN])}


def capacity_choices(placement: Placement) -> list[tuple[str, str]]:
    """Return how the nodes with matching devices are paid for, with number and label."""
    return [
        (
            pricing.label or ASSUMED,
            f"{CAPACITY_TYPES[pricing.capacity]}: {in_nodes(number)}, {pricing.label}"
            if pricing.label
            else f"On-demand (assumed): {in_nodes(number)}",
        )
        for pricing, number in placement.pricings
    ]


def taint_choices(placement: Placement) -> list[tuple[str, str]]:
    return [
        (
            taint,
            f"{taint} on {number} of {in_nodes(placement.nodes)}",
        )
        for taint, number in placement.taints
    ]


def in_nodes(number: int) -> str:
    return f"{counted(number, 'node')}"
