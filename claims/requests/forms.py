"""The request form with alternatives and additional profiles, and the form for a manifest."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, cast

from django import forms
from django.core.exceptions import ValidationError
from django.core.validators import RegexValidator
from django.db.models import QuerySet
from django.http import QueryDict
from django.utils.datastructures import MultiValueDict

from claims.models import Claim, Profile
from claims.models.limits import Delivery
from claims.requests.manifest_import import MAX_FILE_LENGTH
from core.inputs import DurationText
from core.times import parse_duration, spell_duration
from inventory.models import Cluster
from teams.access import teams_where
from teams.models import Role, Team, User

MAX_DEVICES = 1024


class OrderedProfilesField(forms.ModelMultipleChoiceField[Profile]):
    """Profiles by slug in the order in which they were sent; cleaned, a list without duplicates."""

    def clean(self, value: Any) -> Any:
        slugs = list(dict.fromkeys(value or ()))
        profiles = {profile.slug: profile for profile in super().clean(slugs)}
        return [profiles[slug] for slug in slugs]


class ProfileCountsWidget(forms.MultipleHiddenInput):
    """Reads all values of `name` and `name_devices` as pairs of texts (slug, number)."""

    def value_from_datadict(self, data: Mapping[str, Any], files: object, name: str) -> list[tuple[str, str]]:
        if not isinstance(data, MultiValueDict):
            return []
        return profile_counts(data, name)


class ProfileCountsField(forms.ModelMultipleChoiceField[Profile]):
    """Profiles, each with a number of devices; cleaned, a list of (profile, number)."""

    widget = ProfileCountsWidget

    def clean(self, value: Any) -> Any:
        slugs = [slug for slug, _count in value or ()]
        profiles = {profile.slug: profile for profile in super().clean(slugs)}
        return [(profiles[slug], self.number(profiles[slug], count)) for slug, count in value or ()]

    def number(self, profile: Profile, text: str) -> int:
        if text.isascii() and text.isdigit() and 1 <= int(text[:9]) <= MAX_DEVICES:
            return int(text)
        raise ValidationError(
            f"{profile.title}: enter a number of devices from 1 to {MAX_DEVICES}, not “{text[:20]}”."
        )


def profile_counts(data: MultiValueDict[str, str], name: str) -> list[tuple[str, str]]:
    """Return (slug, number) of each row with a profile; a missing number is 1."""
    counts = data.getlist(f"{name}_devices")
    return [
        (slug, counts[place] if place < len(counts) else "1")
        for place, slug in enumerate(data.getlist(name))
        if slug
    ]


PRESETS = ("4h", "24h", "3d", "7d")
CUSTOM = "other"
UNKNOWN_PROFILE = {
    "invalid_choice": "“%(value)s” cannot be requested: the profile does not exist, is retired, or is "
    "not open to your teams."
}
# RFC 1123 label: what the API server accepts as the name of the object.
DNS_LABEL = RegexValidator(
    r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$",
    "Use lower-case letters, digits and hyphens, at most 63, starting and ending with a letter or digit.",
)


class RequestForm(forms.Form):
    """
    The fields of a request.

    `duration` is a preset or "other"; then `duration_other` has the duration. Cleaned, it is a timedelta.
    """

    profile = forms.ModelChoiceField(
        Profile.objects.none(),
        to_field_name="slug",
        label="Profile",
        error_messages=UNKNOWN_PROFILE,
    )
    alternatives = OrderedProfilesField(
        Profile.objects.none(),
        to_field_name="slug",
        required=False,
        widget=forms.MultipleHiddenInput,
        label="Alternatives",
        error_messages=UNKNOWN_PROFILE,
    )
    together = ProfileCountsField(
        Profile.objects.none(),
        to_field_name="slug",
        required=False,
        label="Additional devices",
        error_messages=UNKNOWN_PROFILE,
    )
    devices = forms.IntegerField(min_value=1, max_value=1024, initial=1, label="Devices")
    delivery = forms.ChoiceField(choices=Delivery, initial=Delivery.CLAIM, required=False, label="Delivery")
    parallel = forms.IntegerField(
        min_value=1, max_value=1024, initial=1, required=False, label="Concurrent pods"
    )
    duration = forms.CharField(required=False, label="How long")
    duration_other = DurationText(required=False, label="Custom duration")
    team = forms.ModelChoiceField(
        Team.objects.none(),
        to_field_name="slug",
        label="Team",
        error_messages={"invalid_choice": "You cannot request GPUs for this team."},
    )
    cluster = forms.ModelChoiceField(
        Cluster.objects.none(),
        to_field_name="name",
        label="Cluster",
        error_messages={"invalid_choice": "Your teams have no namespace in this cluster."},
    )
    name = forms.CharField(required=False, max_length=63, validators=[DNS_LABEL], label="Claim name")
    reason = forms.CharField(required=False, max_length=500, label="Purpose")
    key = forms.CharField(required=False, max_length=80, widget=forms.HiddenInput)
    replaces = forms.ModelChoiceField(
        Claim.objects.none(), required=False, widget=forms.HiddenInput, label="Replaces"
    )

    def __init__(
        self, data: QueryDict | None = None, *, user: User, prefill: QueryDict | None = None, team: str = ""
    ) -> None:
        """`team` is the team that the user has selected, used if the address has none."""
        teams = [team.pk for team in teams_where(user, at_least=Role.MEMBER)]
        super().__init__(data)
        profiles = Profile.objects.visible_to(user).filter(retired_at=None, current__isnull=False)
        choices: dict[str, Any] = {
            "profile": profiles.select_related("current"),
            "alternatives": profiles.select_related("current"),
            "together": profiles.select_related("current"),
            "team": Team.objects.filter(pk__in=teams),
            "cluster": Cluster.objects.filter(enabled=True, team_namespaces__team__in=teams).distinct(),
            "replaces": Claim.objects.filter(team__in=teams).select_related(
                "team", "profile_version__profile"
            ),
        }
        for name, queryset in choices.items():
            choice_field(self, name).queryset = queryset
        if data is None:
            self.initial = self.initial_values(prefill or QueryDict(), team)

    def initial_values(self, prefill: QueryDict, team: str) -> dict[str, Any]:
        """Return the initial values: from the address, else the most likely value."""
        initial: dict[str, Any] = {name: prefill[name] for name in self.fields if name in prefill}
        if "alternatives" in initial:
            initial["alternatives"] = prefill.getlist("alternatives")
        if "together" in initial:
            initial["together"] = profile_counts(prefill, "together")
        if "team" not in initial and choice_queryset(self, "team").filter(slug=team).exists():
            initial["team"] = team
        if "duration" in initial and initial["duration"] not in (*PRESETS, CUSTOM):
            initial |= {"duration_other": initial["duration"], "duration": CUSTOM}
        first = choice_queryset(self, "team").first()
        if first is not None:
            initial.setdefault("team", first.slug)
        where = (
            choice_queryset(self, "cluster").filter(team_namespaces__team__slug=initial.get("team")).first()
        )
        if where is not None:
            initial.setdefault("cluster", where.name)
        initial.setdefault("key", str(uuid.uuid4()))
        return initial

    @property
    def replaced_claim(self) -> Claim | None:
        """The claim that the request replaces, if it belongs to a team of the user."""
        try:
            claim: Claim | None = self.fields["replaces"].clean(self["replaces"].value())
        except ValidationError:
            return None
        return claim

    def clean_delivery(self) -> str:
        return self.cleaned_data["delivery"] or Delivery.CLAIM

    def clean_parallel(self) -> int:
        return int(self.cleaned_data["parallel"] or 1)

    def clean_alternatives(self) -> list[Profile]:
        """Leave out the profile itself, which is tried first anyway."""
        chosen = self.cleaned_data.get("profile")
        return [profile for profile in self.cleaned_data["alternatives"] if profile != chosen]

    def clean_key(self) -> str:
        return self.cleaned_data["key"] or str(uuid.uuid4())

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        cleaned["duration"] = self.chosen_duration(cleaned)
        if cleaned.get("delivery") == Delivery.CLAIM:
            cleaned["parallel"] = 1
        team, cluster = cleaned.get("team"), cleaned.get("cluster")
        if team and cluster and not team.namespaces.filter(cluster=cluster).exists():
            here = ", ".join(
                team.namespaces.order_by("cluster__name").values_list("cluster__name", flat=True)
            )
            self.add_error(
                "cluster",
                f"{team} has no namespace in {cluster}. It works in: {here or 'no cluster yet'}.",
            )
        return cleaned

    def chosen_duration(self, cleaned: dict[str, Any]) -> timedelta | None:
        """None means the default of the profile."""
        picked = cleaned.get("duration") or ""
        if picked and picked != CUSTOM:
            try:
                return parse_duration(picked)
            except ValueError:
                self.add_error("duration", "Enter a duration such as 24h, 3d or 1d 12h.")
                return None
        other: timedelta | None = cleaned.get("duration_other")
        if picked == CUSTOM and other is None and "duration_other" not in self.errors:
            self.add_error("duration_other", "Enter a duration, for example 36h or 5d.")
        return other

    def duration_choices(self) -> list[tuple[str, str, bool]]:
        """Return (value, text, is chosen) of each preset, with the default of the chosen profile."""
        chosen = str(self["duration"].value() or "")
        values = list(PRESETS)
        profile = self.chosen_profile()
        if profile is not None and profile.current is not None:
            default, longest = profile.current.default_duration, profile.current.max_duration
            values = [value for value in values if parse_duration(value) <= longest]
            if spell_duration(default) not in values:
                values.append(spell_duration(default))
            chosen = chosen or spell_duration(default)
        values.sort(key=parse_duration)
        rows = [(value, value, value == chosen) for value in values]
        return [*rows, (CUSTOM, "other", chosen not in values and bool(chosen))]

    def chosen_profile(self) -> Profile | None:
        """Return the selected profile, even if the form is invalid."""
        slug = self["profile"].value()
        profile: Profile | None = None
        if slug:
            profile = choice_queryset(self, "profile").filter(slug=str(slug)).first()
        return profile


def choice_field(form: forms.Form, name: str) -> forms.ModelChoiceField[Any]:
    return cast("forms.ModelChoiceField[Any]", form.fields[name])


def choice_queryset(form: forms.Form, name: str) -> QuerySet[Any]:
    queryset = choice_field(form, name).queryset
    assert queryset is not None  # set by the form itself  # noqa: S101
    return queryset


NOT_FIELDS = (
    "together_devices",
    "help",
    "draft",
    "more",
    "drop",
)  # parameters of the address that are not fields


def prefill_problems(prefill: QueryDict, *, user: User) -> list[str]:
    """Return a sentence for each name and value of the address that the form cannot use."""
    form = RequestForm(prefill, user=user)
    form.is_valid()
    problems = [
        f"The form has no field “{name[:40]}”, which is in the address."
        for name in prefill
        if name not in form.fields and name not in NOT_FIELDS
    ]
    for name, errors in form.errors.items():
        if any(prefill.getlist(name)):
            problems += [f"{form.fields[name].label}: {error}" for error in errors]
    return problems


MAX_FILE_BYTES = 4 * MAX_FILE_LENGTH  # of UTF-8, in the worst case


class ManifestForm(forms.Form):
    """Cleaned, `manifest` is the text of the field or file, and `source` its name for a sentence."""

    text = forms.CharField(
        required=False,
        strip=False,
        widget=forms.Textarea(attrs={"rows": 14, "spellcheck": "false", "class": "dg-code"}),
        label="Manifest",
        help_text="A ResourceClaim or ResourceClaimTemplate, or a Pod, Job or Deployment with its claims.",
    )
    file = forms.FileField(required=False, label="Or a file")

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        upload = cleaned.get("file")
        if not upload:  # False if the checkbox that clears the file was sent
            cleaned |= {"manifest": cleaned.get("text", ""), "source": "The text"}
        elif upload.size > MAX_FILE_BYTES:
            raise forms.ValidationError(
                f"{upload.name} has {upload.size} bytes; the limit is {MAX_FILE_BYTES}."
            )
        else:
            cleaned |= {"manifest": self._decoded(upload), "source": upload.name}
        if not str(cleaned["manifest"]).strip():
            raise forms.ValidationError("Paste a manifest or choose a file.")
        return cleaned

    def _decoded(self, upload: Any) -> str:
        try:
            text: str = upload.read().decode()
        except UnicodeDecodeError:
            raise forms.ValidationError(f"{upload.name} is not a text file.") from None
        return text
