"""Forms of the profile editor, the filters of the catalogue and an uploaded catalogue file."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from typing import Any

from django import forms
from django.core.validators import RegexValidator
from django.http import QueryDict

from claims.catalogue.definition import ProfileDefinition, sent_definition
from claims.catalogue.listing import SORTS, CatalogueFilter
from claims.catalogue.selectors import Conditions, conditions_in, new_spec, parse_spec, with_conditions
from claims.catalogue.sharing import Sharing
from claims.models import LIMITS, Limit, Profile, ProfileLimits, Purpose
from claims.models.limits import Choice, Choices, Duration, Number, Text
from core.errors import Invalid
from core.inputs import DurationText
from core.text import as_options
from core.yaml_documents import MAX_BYTES, text_in
from dra import validation
from dra.manifests import in_key_order, to_yaml
from teams.models import Team

FIELDS, YAML = "fields", "yaml"
REQUEST_NAME = "gpu"  # of the request of a new profile
CONDITIONS = ("device_class", "count", "domain", "product", "memory_gib", "compute")
SOURCES = ((FIELDS, "Fields"), (YAML, "YAML"))


def limit_field(limit: Limit) -> forms.Field:
    """Return the field of the editor for one limit."""
    about: dict[str, Any] = {
        "label": limit.label,
        "help_text": limit.help_text,
        "required": limit.required,
        "initial": limit.default,
    }
    match limit.kind:
        case Text(max_length):
            return forms.CharField(max_length=max_length, **about)
        case Number(min_value, max_value):
            return forms.IntegerField(min_value=min_value, max_value=max_value, **about)
        case Duration():
            return DurationText(**about)
        case Choice(choices):
            return forms.ChoiceField(choices=as_options(choices.choices), **about)
        case Choices(choices):
            return forms.MultipleChoiceField(choices=choices, widget=forms.CheckboxSelectMultiple, **about)


class ProfileForm(forms.Form):
    """
    `source` names the description that is edited. FIELDS change the spec in `spec_yaml`, which keeps all
    that they cannot show; YAML is used as it is. There is one more field for each of `LIMITS`.

    Cleaned, `spec` is the ResourceClaim spec of either source.
    """

    marks_required = True

    slug = forms.SlugField(max_length=40, label="Slug")
    title = forms.CharField(max_length=80, label="Title")
    use = forms.CharField(
        required=False,
        max_length=1000,
        widget=forms.Textarea(attrs={"rows": 2}),
        label="Use",
    )
    purpose = forms.ChoiceField(
        required=False,
        choices=Purpose,
        initial=Purpose.OTHER,
        label="Purpose",
        help_text="The group of its card in the catalogue and the request form.",
    )
    teams = forms.ModelMultipleChoiceField(
        Team.objects.active(),
        to_field_name="slug",
        required=False,
        widget=forms.CheckboxSelectMultiple,
        label="Open to",
        help_text="None: open to every team.",
    )
    source = forms.ChoiceField(choices=SOURCES, initial=FIELDS, label="Edit as")
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
        help_text="Empty: the driver that the name of the device class names.",
    )
    product = forms.CharField(required=False, max_length=120, label="Product starts with")
    memory_gib = forms.IntegerField(
        required=False,
        min_value=0,
        max_value=4096,
        label="Min memory per device",
        help_text="GiB. A GPU of 80 GB publishes less than 80 GiB: enter 79.",
    )
    compute = forms.CharField(
        required=False,
        validators=[RegexValidator(r"^\d{1,2}\.\d{1,2}$", "Write it as 8.0.")],
        label="Min compute capability",
    )
    spec_yaml = forms.CharField(
        required=False,
        strip=False,
        max_length=64_000,
        widget=forms.Textarea(attrs={"rows": 14, "spellcheck": "false", "class": "dg-code"}),
        label="ResourceClaim spec",
        help_text="The spec of a ResourceClaim (resource.k8s.io/v1), with the count for one portion.",
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
        super().__init__(data, initial=initial or (None if profile is None else initial_values(profile)))
        self.fields |= {limit.name: limit_field(limit) for limit in LIMITS}
        if profile is not None:
            self.fields["slug"].disabled = True
            self.initial["slug"] = profile.slug

    @property
    def limit_rows(self) -> list[list[forms.BoundField]]:
        """The fields of the limits, a row for each group."""
        limits = sorted(LIMITS, key=lambda limit: limit.group)
        rows = groupby(limits, key=lambda limit: limit.group)
        return [[self[limit.name] for limit in row] for _group, row in rows]

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        for limit in LIMITS:
            if cleaned.get(limit.name) in (None, "") and not limit.required and limit.name in cleaned:
                cleaned[limit.name] = limit.default
        cleaned["spec"] = self.spec_from_yaml() if cleaned.get("source") == YAML else self.spec_from_fields()
        if self.profile is None and not cleaned.get("scalable") and cleaned.get("source") == FIELDS:
            cleaned["scalable"] = REQUEST_NAME
        if not any(limit.name in self.errors for limit in LIMITS):
            for name, problem in ProfileLimits.among(cleaned).problems().items():
                self.add_error(name, problem)
        return cleaned

    def clean_purpose(self) -> str:
        """Keep the purpose where the field was not sent."""
        kept = Purpose.OTHER if self.profile is None else self.profile.purpose
        return self.cleaned_data["purpose"] or kept

    def definition(self) -> ProfileDefinition:
        """Return what a valid form defines."""
        return sent_definition(self.cleaned_data)

    def spec_from_fields(self) -> dict[str, Any]:
        """Return the spec of `spec_yaml` with the values of the fields; a new spec where there is none."""
        cleaned = self.cleaned_data
        if not cleaned.get("device_class"):
            self.add_error("device_class", "Enter a device class, for example gpu.nvidia.com.")
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
            return new_spec(conditions, REQUEST_NAME)
        spec = self.spec_from_yaml()
        if conditions_in(spec) is None:
            self.add_error(None, "The fields cannot show this spec. Edit it as YAML.")
            return spec
        return with_conditions(spec, conditions)

    def spec_from_yaml(self) -> dict[str, Any]:
        try:
            return parse_spec(self.cleaned_data.get("spec_yaml") or "")
        except Invalid as refusal:
            self.add_error("spec_yaml", refusal.message)
            return {}


def spec_as_yaml(spec: dict[str, Any]) -> str:
    return to_yaml(in_key_order(spec))


def initial_values(profile: Profile) -> dict[str, Any]:
    """Return the initial values of the editor of an existing profile: those of its current version."""
    page = {
        "slug": profile.slug,
        "title": profile.title,
        "use": profile.use,
        "purpose": profile.purpose,
        "teams": [team.slug for team in profile.teams.all()],
    }
    version = profile.current
    if version is None:
        return page
    return page | vars(version.limits) | spec_values(version.spec, FIELDS, spec_as_yaml(version.spec))


def spec_values(spec: dict[str, Any], source: str, text: str) -> dict[str, Any]:
    """
    Return the values of the fields for a spec, `text` being its YAML; the source is YAML where fields cannot
    show it.
    """
    conditions = conditions_in(spec)
    if conditions is None:
        return {"source": YAML, "spec_yaml": text}
    return {"source": source, "spec_yaml": text} | {name: getattr(conditions, name) for name in CONDITIONS}


def switched_values(form: ProfileForm, source: str) -> dict[str, Any] | None:
    """
    Return the values of `form` as initial values of a form with the other `source`, FIELDS or YAML.

    None where the form has no valid spec; its errors then say why. The YAML text keeps its comments unless a
    field has changed the spec.
    """
    form.is_valid()
    values = {name: form[name].data for name in form.fields if not form.fields[name].disabled}
    if not any(values[name] for name in ("device_class", "spec_yaml")):
        return values | {"source": source}
    if any(name in form.errors for name in ("source", "spec_yaml", *CONDITIONS)):
        return None
    spec, text = form.cleaned_data["spec"], form.cleaned_data.get("spec_yaml") or ""
    if source == FIELDS and (problems := validation.problems(spec)):
        for problem in problems:
            form.add_error("spec_yaml", problem.message)
        return None
    if not text.strip() or spec != form.spec_from_yaml():
        text = spec_as_yaml(spec)
    return values | spec_values(spec, source, text)


SORT_LABELS = {
    "": "Sort by fit",
    "title": "Sort by name",
    "free": "Sort by free devices",
    "price": "Sort by price",
    "memory": "Sort by memory",
    "wait": "Sort by wait",
    "devices": "Sort by devices per claim",
}


class CatalogueForm(forms.Form):
    """The filters of the catalogue. An invalid value filters nothing and shows an error."""

    q = forms.CharField(required=False, max_length=200)
    memory = forms.IntegerField(
        required=False,
        min_value=1,
        max_value=100_000,
        label="Min memory, GB",
        widget=forms.NumberInput(attrs={"placeholder": "Min GB", "step": "any"}),
    )
    model = forms.ChoiceField(required=False, label="Model")
    sharing = forms.ChoiceField(
        required=False, choices=[("", "Any sharing"), *as_options(Sharing.choices)], label="Sharing"
    )
    price = forms.DecimalField(
        required=False,
        min_value=0,
        max_digits=9,
        decimal_places=4,
        label="Max price per device and hour",
        widget=forms.NumberInput(attrs={"placeholder": "Max price", "step": "any"}),
    )
    free = forms.BooleanField(required=False, label="Free now")
    mine = forms.BooleanField(required=False, label="I may request")
    automatic = forms.BooleanField(required=False, label="Without approval")
    sort = forms.ChoiceField(required=False, choices=SORT_LABELS, label="Sort by")

    def __init__(self, data: QueryDict, *, models: Iterable[str]) -> None:
        """`models` are the products that the catalogue has."""
        super().__init__(data)
        choices = [("", "Any model"), *((model, model) for model in sorted(models))]
        self.fields["model"].choices = choices  # type: ignore[attr-defined]
        for name in ("memory", "price"):
            self.fields[name].widget.attrs["class"] = "form-control"
        for name in ("model", "sharing", "sort"):
            self.fields[name].widget.attrs["class"] = "form-select"

    @property
    def numbers(self) -> list[forms.BoundField]:
        """The fields beside the search: memory, model, sharing, price."""
        return [self[name] for name in ("memory", "model", "sharing", "price")]

    @property
    def filters(self) -> CatalogueFilter:
        self.is_valid()
        values = self.cleaned_data
        return CatalogueFilter(
            words=values.get("q", ""),
            memory_gb=values.get("memory"),
            model=values.get("model", ""),
            sharing=values.get("sharing", ""),
            price=values.get("price"),
            free=values.get("free", False),
            mine=values.get("mine", False),
            automatic=values.get("automatic", False),
        )

    @property
    def order(self) -> str:
        """One of SORTS, "" if the reader chose none."""
        self.is_valid()
        sort = self.cleaned_data.get("sort", "")
        return sort if sort in SORTS else ""


PASTED = "catalogue.yaml"  # the name of pasted text in messages


class CatalogueFileForm(forms.Form):
    """Cleaned, `text` is the content of the file, and `name` its name in messages."""

    file = forms.FileField(required=False, label="File", widget=forms.FileInput())
    text = forms.CharField(
        required=False,
        strip=False,
        widget=forms.Textarea(attrs={"rows": 10, "spellcheck": "false", "class": "dg-code"}),
        label="Or paste its text",
    )
    name = forms.CharField(required=False, max_length=120, widget=forms.HiddenInput)
    prune = forms.BooleanField(required=False, label="Retire profiles that are not in the file")

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        upload = cleaned.get("file")
        if upload is None:
            if not cleaned.get("text", "").strip():
                self.add_error("file", "Choose a file, or paste its text.")
            return cleaned | {"name": cleaned.get("name") or PASTED}
        if upload.size > MAX_BYTES:
            self.add_error(
                "file", f"The file has {upload.size >> 10} KiB; the limit is {MAX_BYTES >> 10} KiB."
            )
            return cleaned
        try:
            text = text_in(upload.read())
        except UnicodeDecodeError:
            self.add_error("file", "This is not a text file.")
            return cleaned
        return cleaned | {"text": text, "name": upload.name}
