"""Options of the manifests of a claim. They come with GET, stay in the address, and are stored nowhere."""

from __future__ import annotations

from typing import Any

from django import forms
from django.core.validators import RegexValidator
from django.http import QueryDict
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from dra.capacity import Capacity
from dra.landing import Landing
from dra.workloads import ASSUMED, Options, Use
from dra.workloads.use import (
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
    gettext_lazy("Use lower-case letters, digits, hyphens and dots, as Kubernetes' names have them."),
)
IMAGE = RegexValidator(
    WHOLE.format(REFERENCE.pattern),
    gettext_lazy("Write an image like registry.example.org/team/train:1.2, without spaces or quotes."),
)
CUDA_VERSION = RegexValidator(WHOLE.format(CUDA.pattern), gettext_lazy("Write a version like 12.9."))
RESTRICTED, PLAIN = "restricted", "none"
OPEN, ISOLATED = "open", "isolated"
CAPACITIES = {
    Capacity.SPOT: gettext_lazy("Spot"),
    Capacity.ON_DEMAND: gettext_lazy("On-demand"),
    Capacity.RESERVED: gettext_lazy("Reserved"),
}


class SnippetForm(forms.Form):
    """What `dra.workloads.Options` holds, each field of that name or folded into it by `options`."""

    image = forms.CharField(
        required=False, max_length=LONGEST_REFERENCE, validators=[IMAGE], label=gettext_lazy("Image")
    )
    cuda = forms.CharField(
        required=False,
        validators=[CUDA_VERSION],
        label=gettext_lazy("CUDA in the image"),
        help_text=gettext_lazy("Read from the tag where it is named there."),
    )
    request = forms.ChoiceField(required=False, label=gettext_lazy("Devices of the container"))
    pods = forms.IntegerField(
        required=False, min_value=1, max_value=MOST_PODS, label=gettext_lazy("Pods at once")
    )
    completions = forms.IntegerField(
        required=False, min_value=1, max_value=MOST_COMPLETIONS, label=gettext_lazy("Pods of the Job in all")
    )
    port = forms.IntegerField(
        required=False,
        min_value=1,
        max_value=LAST_PORT,
        label=gettext_lazy("Port"),
        help_text=gettext_lazy("That a Deployment or StatefulSet serves."),
    )
    priority = forms.CharField(
        required=False, max_length=LONGEST_NAME, validators=[NAME], label=gettext_lazy("PriorityClass")
    )
    capacity = forms.ChoiceField(required=False, label=gettext_lazy("Nodes"))
    tolerate = forms.MultipleChoiceField(
        required=False,
        widget=forms.CheckboxSelectMultiple,
        label=gettext_lazy("Tolerate taints of nodes"),
    )
    security = forms.ChoiceField(
        required=False,
        choices=[
            (RESTRICTED, gettext_lazy("Pod Security “restricted”")),
            (PLAIN, gettext_lazy("As the image wants")),
        ],
        label=gettext_lazy("Security"),
    )
    network = forms.ChoiceField(
        required=False,
        choices=[
            (OPEN, gettext_lazy("As the namespace has it")),
            (ISOLATED, gettext_lazy("Closed but for its ports and DNS")),
        ],
        label=gettext_lazy("Network"),
    )
    weights_claim = forms.CharField(
        required=False,
        max_length=LONGEST_NAME,
        validators=[NAME],
        label=gettext_lazy("Model weights: volume claim"),
        help_text=gettext_lazy("A PersistentVolumeClaim that many nodes may read."),
    )
    weights_image = forms.CharField(
        required=False,
        max_length=LONGEST_REFERENCE,
        validators=[IMAGE],
        label=gettext_lazy("Model weights: OCI image"),
    )

    def __init__(self, data: QueryDict | None, *, use: Use, landing: Landing) -> None:
        """Without any of its fields in `data` the form is unbound, and shows what is usual."""
        given = data if data is not None and any(name in data for name in self.base_fields) else None
        super().__init__(given, auto_id="snippet_%s")
        self.sent = given or QueryDict()
        self.use = use
        names = [name for name, _count in use.requests]
        whole = [("", gettext_lazy("All requests of the claim")), *((name, name) for name in names)]
        self._choose("request", whole if len(names) > 1 else [("", whole[0][1])])
        self._choose("capacity", [("", gettext_lazy("Any")), *capacity_choices(landing)])
        self._choose("tolerate", taint_choices(landing))
        if not use.template:
            self.fields["pods"].help_text = _("They share the devices of the claim.")

    def _choose(self, name: str, choices: list[tuple[Any, Any]]) -> None:
        field = self.fields[name]
        assert isinstance(field, forms.ChoiceField)  # noqa: S101 - declared so above
        field.choices = choices

    def clean_pods(self) -> int:
        pods = int(self.cleaned_data["pods"] or 0)
        if self.use.template and pods > self.use.parallel:
            told = ngettext(
                "The claim is for %(most)d pod at once; %(pods)d would wait for claims that nobody granted.",
                "The claim is for %(most)d pods at once; %(pods)d would wait for claims that nobody granted.",
                self.use.parallel,
            )
            raise forms.ValidationError(told % {"most": self.use.parallel, "pods": pods})
        return pods

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        if cleaned.get("weights_claim") and cleaned.get("weights_image"):
            self.add_error(
                "weights_image", _("Weights come from a volume claim or from an image, not from both.")
            )
        return cleaned

    def options(self) -> Options:
        """Return the options of a valid form, the usual ones of an unbound one."""
        if not self.is_bound:
            return Options()
        cleaned = self.cleaned_data
        return Options(
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


def capacity_choices(landing: Landing) -> list[tuple[str, str]]:
    """Return how the nodes with matching devices are paid for, with number and label."""
    return [
        (
            billing.label or ASSUMED,
            f"{CAPACITIES[billing.capacity]}: {in_nodes(number)}, {billing.label}"
            if billing.label
            else _("On-demand (assumed): %(nodes)s") % {"nodes": in_nodes(number)},
        )
        for billing, number in landing.billings
    ]


def taint_choices(landing: Landing) -> list[tuple[str, str]]:
    return [
        (
            taint,
            _("%(taint)s on %(number)d of %(nodes)s")
            % {"taint": taint, "number": number, "nodes": in_nodes(landing.nodes)},
        )
        for taint, number in landing.taints
    ]


def in_nodes(number: int) -> str:
    return ngettext("%(n)d node", "%(n)d nodes", number) % {"n": number}
