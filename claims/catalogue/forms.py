"""Forms of the profile editor, the filters of the catalogue and an uploaded catalogue file."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from django import forms
from django.core.validators import RegexValidator
from django.http import QueryDict

from claims.catalogue.listing import SORTS, CatalogueFilter
from claims.catalogue.selectors import Conditions, fresh, read, spec_in, written
from claims.catalogue.sharing import Sharing
from claims.catalogue.yaml_import import MOST_BYTES
from claims.durations import DurationText
from claims.models import Profile
from claims.models.profile import Approval, Delivery
from dra import validation
from dra.canonical import in_key_order
from dra.manifests import to_yaml
from teams.models import Team

FIELDS, YAML = "fields", "yaml"
NAME = "gpu"  # of the request of a new profile
CONDITIONS = ("device_class", "count", "domain", "product", "memory_gib", "compute")
LIMITS = (
    "scalable",
    "max_devices",
    "deliveries",
    "default_duration",
    "max_duration",
    "grace",
    "extension",
    "approval",
    "automatic_devices",
    "automatic_duration",
)
SOURCES = ((FIELDS, "Fields"), (YAML, "YAML"))


class ProfileForm(forms.Form):
    """
    `source` says which description is being written. Fields are written into the spec of `spec_yaml`, which
    keeps all that they cannot show; YAML is taken as it stands.

    Cleaned, `spec` is the ResourceClaim spec whichever way it was written.
    """

    slug = forms.SlugField(max_length=40, label="Short name")
    title = forms.CharField(max_length=80, label="Title")
    use = forms.CharField(
        required=False,
        max_length=1000,
        widget=forms.Textarea(attrs={"rows": 2}),
        label="What it is for",
    )
    teams = forms.ModelMultipleChoiceField(
        Team.objects.all(),
        to_field_name="slug",
        required=False,
        widget=forms.CheckboxSelectMultiple,
        label="Open to",
        help_text="No team chosen: open to everybody.",
    )
    source = forms.ChoiceField(choices=SOURCES, initial=FIELDS, label="Described by")
    device_class = forms.CharField(
        required=False,
        max_length=253,
        widget=forms.TextInput(attrs={"list": "device-classes"}),
        label="Device class",
    )
    count = forms.IntegerField(
        required=False,
        min_value=1,
        max_value=32,
        initial=1,
        label="Devices",
        help_text="Fixed number of devices per claim.",
    )
    domain = forms.CharField(
        required=False,
        max_length=253,
        label="Attributes of driver",
        help_text="Empty: the driver that the device class is named after.",
    )
    product = forms.CharField(required=False, max_length=120, label="Product begins with")
    memory_gib = forms.IntegerField(
        required=False,
        min_value=0,
        max_value=4096,
        label="Memory per device, at least",
        help_text="GiB. A GPU of 80 GB publishes a little less than 80 GiB: 79 finds it.",
    )
    compute = forms.CharField(
        required=False,
        validators=[RegexValidator(r"^\d{1,2}\.\d{1,2}$", "Write it as 8.0.")],
        label="Compute capability, at least",
    )
    spec_yaml = forms.CharField(
        required=False,
        strip=False,
        max_length=64_000,
        widget=forms.Textarea(attrs={"rows": 14, "spellcheck": "false", "class": "dg-code"}),
        label="ResourceClaim spec",
        help_text="The spec of a ResourceClaim (resource.k8s.io/v1), with the count for one portion.",
    )
    scalable = forms.CharField(
        required=False,
        max_length=63,
        label="Scalable request",
        help_text="Its name. People choose its number of devices; empty: the number is fixed.",
    )
    max_devices = forms.IntegerField(
        min_value=1,
        max_value=1024,
        initial=1,
        label="Max devices",
        help_text="In one claim, all of its requests together.",
    )
    deliveries = forms.MultipleChoiceField(
        choices=Delivery,
        initial=Delivery.values,
        widget=forms.CheckboxSelectMultiple,
        label="Delivered as",
    )
    default_duration = DurationText(initial="24h", label="Default duration")
    max_duration = DurationText(initial="14d", label="Longest duration")
    grace = DurationText(
        required=False,
        initial="0min",
        label="Grace after the end",
        help_text="How long after its end a claim is released. Its owner is notified at the end.",
    )
    extension = DurationText(
        required=False,
        initial="0min",
        label="Extension without asking",
        help_text="So much at a time, while the whole stays within the longest duration. None: "
        "somebody decides.",
    )
    approval = forms.ChoiceField(
        choices=Approval,
        initial=Approval.LEAD,
        label="Who approves",
        help_text="A rule for the team or for this profile goes before it.",
    )
    automatic_devices = forms.IntegerField(
        required=False,
        min_value=0,
        max_value=1024,
        initial=0,
        label="Approved automatically up to",
        help_text="Devices of all pods together; 0: somebody is always asked.",
    )
    automatic_duration = DurationText(
        required=False,
        label="… for at most",
        help_text="Empty: however long.",
    )

    def __init__(
        self,
        data: QueryDict | None = None,
        *,
        profile: Profile | None = None,
        initial: dict[str, Any] | None = None,
    ) -> None:
        """Without `initial` the form starts with the current version of `profile`."""
        self.profile = profile
        super().__init__(data, initial=initial or (None if profile is None else begin(profile)))
        if profile is not None:
            self.fields["slug"].disabled = True
            self.initial["slug"] = profile.slug

    def clean_automatic_devices(self) -> int:
        return int(self.cleaned_data["automatic_devices"] or 0)

    def clean_grace(self) -> timedelta:
        return self.cleaned_data["grace"] or timedelta(0)

    def clean_extension(self) -> timedelta:
        return self.cleaned_data["extension"] or timedelta(0)

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        default, longest = cleaned.get("default_duration"), cleaned.get("max_duration")
        if default and longest and default > longest:
            self.add_error("default_duration", "The usual duration is longer than the longest.")
        cleaned["spec"] = self.from_yaml() if cleaned.get("source") == YAML else self.from_fields()
        if self.profile is None and not cleaned.get("scalable") and cleaned.get("source") == FIELDS:
            cleaned["scalable"] = NAME
        return cleaned

    def from_fields(self) -> dict[str, Any]:
        """Return the spec of `spec_yaml` with the fields written into it; a new one where there is none."""
        cleaned = self.cleaned_data
        if not cleaned.get("device_class"):
            self.add_error("device_class", "Name the device class, for example gpu.nvidia.com.")
            return {}
        conditions = Conditions(
            device_class=cleaned["device_class"],
            count=cleaned.get("count"),
            domain=cleaned.get("domain") or "",
            product=cleaned.get("product") or "",
            memory_gib=cleaned.get("memory_gib") or 0,
            compute=cleaned.get("compute") or "",
        )
        if not (cleaned.get("spec_yaml") or "").strip():
            return fresh(conditions, NAME)
        spec = self.from_yaml()
        if read(spec) is None:
            self.add_error(None, "Fields cannot show this specification; write it as YAML.")
            return spec
        return written(conditions, spec)

    def from_yaml(self) -> dict[str, Any]:
        try:
            return spec_in(self.cleaned_data.get("spec_yaml") or "")
        except ValueError as error:
            self.add_error("spec_yaml", str(error))
            return {}


def text_of(spec: dict[str, Any]) -> str:
    return to_yaml(in_key_order(spec))


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
    return words | limits | described(version.spec, FIELDS, text_of(version.spec))


def described(spec: dict[str, Any], source: str, text: str) -> dict[str, Any]:
    """
    Return the fields of the form for a spec, `text` being its YAML; as YAML alone where fields cannot show
    it.
    """
    conditions = read(spec)
    if conditions is None:
        return {"source": YAML, "spec_yaml": text}
    return {"source": source, "spec_yaml": text} | {name: getattr(conditions, name) for name in CONDITIONS}


def switched(form: ProfileForm, to: str) -> dict[str, Any] | None:
    """
    Return what a form starts with that shows what was typed in `form` the other way, `to` FIELDS or YAML.

    None where what was typed is no specification; then the form says why. The text of YAML stays as it was
    typed, comments and all, unless a field has changed what it says.
    """
    form.is_valid()
    typed = {name: form[name].data for name in form.fields if not form.fields[name].disabled}
    if not any(typed[name] for name in ("device_class", "spec_yaml")):
        return typed | {"source": to}
    if any(name in form.errors for name in ("source", "spec_yaml", *CONDITIONS)):
        return None
    spec, text = form.cleaned_data["spec"], form.cleaned_data.get("spec_yaml") or ""
    if to == FIELDS and (problems := validation.problems(spec)):
        for problem in problems:
            form.add_error("spec_yaml", problem.message)
        return None
    if not text.strip() or spec != form.from_yaml():
        text = text_of(spec)
    return typed | described(spec, to, text)


SORT_LABELS = {
    "title": "by name",
    "free": "most free first",
    "price": "cheapest first",
    "memory": "most memory first",
    "wait": "shortest wait first",
    "devices": "most devices first",
}


class CatalogueForm(forms.Form):
    """What is malformed asks for nothing and is said beside its field."""

    q = forms.CharField(required=False, max_length=200)
    memory = forms.IntegerField(
        required=False,
        min_value=1,
        max_value=100_000,
        label="Memory at least, GB",
        widget=forms.NumberInput(attrs={"placeholder": "GB at least", "step": "any"}),
    )
    model = forms.ChoiceField(required=False, label="Model")
    sharing = forms.ChoiceField(
        required=False, choices=[("", "Any sharing"), *Sharing.choices], label="Sharing"
    )
    price = forms.DecimalField(
        required=False,
        min_value=0,
        max_digits=9,
        decimal_places=4,
        label="Price per device device and hour at most",
        widget=forms.NumberInput(attrs={"placeholder": "Price at most", "step": "any"}),
    )
    free = forms.BooleanField(required=False, label="Free now")
    mine = forms.BooleanField(required=False, label="I may request")
    automatic = forms.BooleanField(required=False, label="Without approval")
    sort = forms.ChoiceField(required=False, choices=SORT_LABELS, label="Sort by")

    def __init__(self, data: QueryDict, *, models: Iterable[str]) -> None:
        """`models` are the products that the catalogue has."""
        super().__init__(data)
        choices = [("", "Any model"), *((one, one) for one in sorted(models))]
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
    def wanted(self) -> CatalogueFilter:
        self.is_valid()
        said = self.cleaned_data
        return CatalogueFilter(
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


PASTED = "catalogue.yaml"  # what a text without a file is called in messages


class CatalogueFileForm(forms.Form):
    """Cleaned, `text` is what stands in the file, and `name` what messages call it."""

    file = forms.FileField(
        required=False, label="File", widget=forms.FileInput(attrs={"class": "form-control"})
    )
    text = forms.CharField(
        required=False,
        strip=False,
        widget=forms.Textarea(attrs={"rows": 10, "spellcheck": "false", "class": "dg-code"}),
        label="… or its text",
    )
    name = forms.CharField(required=False, max_length=120, widget=forms.HiddenInput)
    prune = forms.BooleanField(required=False, label="Retire every profile that is not in the file")

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        sent = cleaned.get("file")
        if sent is None:
            if not cleaned.get("text", "").strip():
                self.add_error("file", "Choose a file, or paste its text.")
            return cleaned | {"name": cleaned.get("name") or PASTED}
        if sent.size > MOST_BYTES:
            self.add_error(
                "file", f"The file has {sent.size >> 10} KiB; {MOST_BYTES >> 10} are read at most."
            )
            return cleaned
        try:
            text = sent.read().decode()
        except UnicodeDecodeError:
            self.add_error("file", "This is not a text in UTF-8.")
            return cleaned
        return cleaned | {"text": text, "name": sent.name}
