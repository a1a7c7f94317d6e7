"""A catalogue entry: words, limits, and the claim specification either as fields or as YAML."""

from __future__ import annotations

from typing import Any

import yaml
from django import forms
from django.core.validators import RegexValidator
from django.http import QueryDict
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from claims.forms.durations import DurationText
from claims.forms.selectors import Conditions, from_spec, to_spec
from claims.models import Profile
from claims.models.profile import Approval, Delivery
from dra.manifests import to_yaml
from teams.models import Team

FIELDS, YAML = "fields", "yaml"
CONDITIONS = ("device_class", "count", "domain", "product", "memory_gib", "compute")
LIMITS = (
    "scalable",
    "max_devices",
    "deliveries",
    "default_duration",
    "max_duration",
    "approval",
    "automatic_devices",
    "automatic_duration",
)
SOURCES = ((FIELDS, gettext_lazy("Fields")), (YAML, "YAML"))


class ProfileForm(forms.Form):
    """
    `source` says which of the two descriptions counts; the other is shown, never merged.

    Cleaned, `spec` is the ResourceClaim spec whichever way it was written.
    """

    slug = forms.SlugField(max_length=40, label=gettext_lazy("Short name"))
    title = forms.CharField(max_length=80, label=gettext_lazy("Title"))
    use = forms.CharField(
        required=False,
        max_length=1000,
        widget=forms.Textarea(attrs={"rows": 2}),
        label=gettext_lazy("What it is for"),
    )
    teams = forms.ModelMultipleChoiceField(
        Team.objects.all(),
        to_field_name="slug",
        required=False,
        widget=forms.CheckboxSelectMultiple,
        label=gettext_lazy("Open to"),
        help_text=gettext_lazy("No team chosen: open to everybody."),
    )
    source = forms.ChoiceField(choices=SOURCES, initial=FIELDS, label=gettext_lazy("Described by"))
    device_class = forms.CharField(
        required=False,
        max_length=253,
        widget=forms.TextInput(attrs={"list": "device-classes"}),
        label=gettext_lazy("Device class"),
    )
    count = forms.IntegerField(
        required=False, min_value=1, max_value=32, initial=1, label=gettext_lazy("Devices")
    )
    domain = forms.CharField(
        required=False,
        max_length=253,
        label=gettext_lazy("Attributes of driver"),
        help_text=gettext_lazy("Empty: the driver that the device class is named after."),
    )
    product = forms.CharField(required=False, max_length=120, label=gettext_lazy("Product begins with"))
    memory_gib = forms.IntegerField(
        required=False, min_value=0, max_value=4096, label=gettext_lazy("Memory per device, at least")
    )
    compute = forms.CharField(
        required=False,
        validators=[RegexValidator(r"^\d{1,2}\.\d{1,2}$", gettext_lazy("Write it as 8.0."))],
        label=gettext_lazy("Compute capability, at least"),
    )
    spec_yaml = forms.CharField(
        required=False,
        max_length=64_000,
        widget=forms.Textarea(attrs={"rows": 14, "spellcheck": "false", "class": "dg-code"}),
        label=gettext_lazy("ResourceClaim spec"),
        help_text=gettext_lazy(
            "The spec of a ResourceClaim (resource.k8s.io/v1), with the count for one portion."
        ),
    )
    scalable = forms.CharField(required=False, max_length=63, label=gettext_lazy("Request that scales"))
    max_devices = forms.IntegerField(
        min_value=1, max_value=1024, initial=1, label=gettext_lazy("Most devices")
    )
    deliveries = forms.MultipleChoiceField(
        choices=Delivery,
        initial=Delivery.values,
        widget=forms.CheckboxSelectMultiple,
        label=gettext_lazy("Delivered as"),
    )
    default_duration = DurationText(initial="24h", label=gettext_lazy("Usual duration"))
    max_duration = DurationText(initial="14d", label=gettext_lazy("Longest duration"))
    approval = forms.ChoiceField(choices=Approval, initial=Approval.LEAD, label=gettext_lazy("Who approves"))
    automatic_devices = forms.IntegerField(
        required=False, min_value=0, max_value=1024, initial=0, label=gettext_lazy("Nobody is asked up to")
    )
    automatic_duration = DurationText(required=False, label=gettext_lazy("… and as long as"))

    def __init__(self, data: QueryDict | None = None, *, profile: Profile | None = None) -> None:
        super().__init__(data, initial=None if profile is None else begin(profile))
        if profile is not None:
            self.fields["slug"].disabled = True

    def clean_automatic_devices(self) -> int:
        return int(self.cleaned_data["automatic_devices"] or 0)

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        default, longest = cleaned.get("default_duration"), cleaned.get("max_duration")
        if default and longest and default > longest:
            self.add_error("default_duration", _("The usual duration is longer than the longest."))
        cleaned["spec"] = self.from_yaml() if cleaned.get("source") == YAML else self.from_fields()
        if not cleaned.get("scalable") and cleaned.get("source") == FIELDS:
            cleaned["scalable"] = Conditions.request
        return cleaned

    def from_fields(self) -> dict[str, Any]:
        cleaned = self.cleaned_data
        if not cleaned.get("device_class"):
            self.add_error("device_class", _("Name the device class, for example gpu.nvidia.com."))
            return {}
        return to_spec(
            Conditions(
                device_class=cleaned["device_class"],
                count=cleaned.get("count") or 1,
                domain=cleaned.get("domain") or driver_of(cleaned["device_class"]),
                product=cleaned.get("product") or "",
                memory_gib=cleaned.get("memory_gib") or 0,
                compute=cleaned.get("compute") or "",
            )
        )

    def from_yaml(self) -> dict[str, Any]:
        try:
            spec = yaml.safe_load(self.cleaned_data.get("spec_yaml") or "")
        except yaml.YAMLError as error:
            self.add_error("spec_yaml", _("This is not YAML: %(why)s") % {"why": error})
            return {}
        if not isinstance(spec, dict):
            self.add_error("spec_yaml", _("Write the spec of a ResourceClaim, which begins with devices."))
            return {}
        # A whole ResourceClaim pasted from a manifest means its spec.
        return (
            spec["spec"]
            if spec.get("kind") == "ResourceClaim" and isinstance(spec.get("spec"), dict)
            else spec
        )


def driver_of(device_class: str) -> str:
    """Guess whose attributes a class is about: NVIDIA publishes all of its classes as gpu.nvidia.com."""
    return "gpu.nvidia.com" if device_class.endswith(".nvidia.com") else device_class


def begin(profile: Profile) -> dict[str, Any]:
    """Return what the editor of an existing profile starts with: its current version."""
    words = {
        "slug": profile.slug,
        "title": profile.title,
        "use": profile.use,
        "teams": [team.slug for team in profile.teams.all()],
    }
    version = profile.current
    if version is None:
        return words
    limits = {name: getattr(version, name) for name in LIMITS}
    spec = {"source": YAML, "spec_yaml": to_yaml(version.spec)}
    conditions = from_spec(version.spec)
    if conditions is not None:
        spec |= {"source": FIELDS} | {name: getattr(conditions, name) for name in CONDITIONS}
    return words | limits | spec
