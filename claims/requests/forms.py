"""The request form with its alternatives and further profiles, and the form that takes a manifest."""

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

from claims.durations import DurationText, parse, spell
from claims.models import Claim, Profile
from claims.models.limits import Delivery
from claims.requests.manifest_import import LONGEST
from inventory.models import Cluster
from teams.access import teams_where
from teams.models import Role, Team, User

MOST_DEVICES = 1024


class InOrder(forms.ModelMultipleChoiceField[Profile]):
    """Profiles by their slugs in the order in which they were sent; cleaned, a list without repetitions."""

    def clean(self, value: Any) -> Any:
        slugs = list(dict.fromkeys(value or ()))
        found = {profile.slug: profile for profile in super().clean(slugs)}
        return [found[slug] for slug in slugs]


class Pairs(forms.MultipleHiddenInput):
    """Reads `name` and `name_devices`, as often as they were sent, as (slug, number) pairs of texts."""

    def value_from_datadict(self, data: Mapping[str, Any], files: object, name: str) -> list[tuple[str, str]]:
        if not isinstance(data, MultiValueDict):
            return []
        return pairs_in(data, name)


class Counted(forms.ModelMultipleChoiceField[Profile]):
    """Profiles with a number of devices each; cleaned, a list of (profile, number)."""

    widget = Pairs

    def clean(self, value: Any) -> Any:
        slugs = [slug for slug, _count in value or ()]
        found = {profile.slug: profile for profile in super().clean(slugs)}
        return [(found[slug], self.number(found[slug], count)) for slug, count in value or ()]

    def number(self, profile: Profile, text: str) -> int:
        if text.isascii() and text.isdigit() and 1 <= int(text[:9]) <= MOST_DEVICES:
            return int(text)
        raise ValidationError(
            f"{profile.title}: write a number of devices from 1 to {MOST_DEVICES}, not “{text[:20]}”."
        )


def pairs_in(data: MultiValueDict[str, str], name: str) -> list[tuple[str, str]]:
    """Return (slug, number) of each row; a row without a profile is none, a number that is missing is 1."""
    counts = data.getlist(f"{name}_devices")
    return [
        (slug, counts[place] if place < len(counts) else "1")
        for place, slug in enumerate(data.getlist(name))
        if slug
    ]


PRESETS = ("4h", "24h", "3d", "7d")
OTHER = "other"
UNKNOWN_PROFILE = {
    "invalid_choice": "“%(value)s” cannot be asked for: there is no such profile, it is retired, or "
    "not open to your teams."
}
# RFC 1123 label: what the API server accepts as the name of the object.
DNS_LABEL = RegexValidator(
    r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$",
    "Use lower-case letters, digits and hyphens, at most 63, starting and ending with a letter or digit.",
)


class RequestForm(forms.Form):
    """
    A wish: which profile, which alternatives to it or which others as well, how many, for whom, where, how
    long, why.

    `duration` is one of the presets or "other"; then `duration_other` says it. Cleaned, it is one timedelta.
    """

    profile = forms.ModelChoiceField(
        Profile.objects.none(),
        to_field_name="slug",
        label="Profile",
        error_messages=UNKNOWN_PROFILE,
    )
    alternatives = InOrder(
        Profile.objects.none(),
        to_field_name="slug",
        required=False,
        widget=forms.MultipleHiddenInput,
        label="Alternatives",
        error_messages=UNKNOWN_PROFILE,
    )
    together = Counted(
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
        error_messages={"invalid_choice": "This is no team that you can ask for."},
    )
    cluster = forms.ModelChoiceField(
        Cluster.objects.none(),
        to_field_name="name",
        label="Cluster",
        error_messages={"invalid_choice": "This is no cluster in which your teams work."},
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
        """`team` is the one that the reader looks at, taken where the address names none."""
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
            field_of(self, name).queryset = queryset
        if data is None:
            self.initial = self.begin(prefill or QueryDict(), team)

    def begin(self, prefill: QueryDict, team: str) -> dict[str, Any]:
        """Return what the form starts with: the address where it says something, else what is most likely."""
        initial: dict[str, Any] = {name: prefill[name] for name in self.fields if name in prefill}
        if "alternatives" in initial:
            initial["alternatives"] = prefill.getlist("alternatives")
        if "together" in initial:
            initial["together"] = pairs_in(prefill, "together")
        if "team" not in initial and choices_of(self, "team").filter(slug=team).exists():
            initial["team"] = team
        if "duration" in initial and initial["duration"] not in (*PRESETS, OTHER):
            initial |= {"duration_other": initial["duration"], "duration": OTHER}
        first = choices_of(self, "team").first()
        if first is not None:
            initial.setdefault("team", first.slug)
        where = choices_of(self, "cluster").filter(team_namespaces__team__slug=initial.get("team")).first()
        if where is not None:
            initial.setdefault("cluster", where.name)
        initial.setdefault("key", str(uuid.uuid4()))
        return initial

    @property
    def replaced(self) -> Claim | None:
        """The claim that this one is to replace, if it is one of the reader's teams."""
        try:
            found: Claim | None = self.fields["replaces"].clean(self["replaces"].value())
        except ValidationError:
            return None
        return found

    def clean_delivery(self) -> str:
        return self.cleaned_data["delivery"] or Delivery.CLAIM

    def clean_parallel(self) -> int:
        return int(self.cleaned_data["parallel"] or 1)

    def clean_alternatives(self) -> list[Profile]:
        """Leave out the profile itself, which is tried first in any case."""
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
        if picked and picked != OTHER:
            try:
                return parse(picked)
            except ValueError:
                self.add_error("duration", "Write a duration like 24h, 3d or 1d 12h.")
                return None
        other: timedelta | None = cleaned.get("duration_other")
        if picked == OTHER and other is None and "duration_other" not in self.errors:
            self.add_error("duration_other", "Say how long, for example 36h or 5d.")
        return other

    def duration_choices(self) -> list[tuple[str, str, bool]]:
        """Return (value, text, chosen) of the segments; the default of the chosen profile is among them."""
        chosen = str(self["duration"].value() or "")
        values = list(PRESETS)
        profile = self.chosen_profile()
        if profile is not None and profile.current is not None:
            default, longest = profile.current.default_duration, profile.current.max_duration
            values = [value for value in values if parse(value) <= longest]
            if spell(default) not in values:
                values.append(spell(default))
            chosen = chosen or spell(default)
        values.sort(key=parse)
        rows = [(value, value, value == chosen) for value in values]
        return [*rows, (OTHER, "other", chosen not in values and bool(chosen))]

    def chosen_profile(self) -> Profile | None:
        """Return the profile that is ticked at the moment, valid form or not."""
        slug = self["profile"].value()
        found: Profile | None = None
        if slug:
            found = choices_of(self, "profile").filter(slug=str(slug)).first()
        return found


def field_of(form: forms.Form, name: str) -> forms.ModelChoiceField[Any]:
    return cast("forms.ModelChoiceField[Any]", form.fields[name])


def choices_of(form: forms.Form, name: str) -> QuerySet[Any]:
    queryset = field_of(form, name).queryset
    assert queryset is not None  # set by the form itself  # noqa: S101
    return queryset


ASIDE = ("together_devices", "help", "draft", "more", "drop")  # parts of the address that are no fields


def complaints(prefill: QueryDict, *, user: User) -> list[str]:
    """Return a sentence for each name and value of the address that the form has no use for."""
    form = RequestForm(prefill, user=user)
    form.is_valid()
    found = [
        f"The address says “{name[:40]}”, for which the form has no field."
        for name in prefill
        if name not in form.fields and name not in ASIDE
    ]
    for name, errors in form.errors.items():
        if any(prefill.getlist(name)):
            found += [f"{form.fields[name].label}: {error}" for error in errors]
    return found


MOST_BYTES = 4 * LONGEST  # of UTF-8, in the worst case


class ManifestForm(forms.Form):
    """Cleaned, `manifest` is the text whichever way it came, and `source` what to call it in a sentence."""

    text = forms.CharField(
        required=False,
        strip=False,
        widget=forms.Textarea(attrs={"rows": 14, "spellcheck": "false", "class": "dg-code"}),
        label="Manifest",
        help_text="A ResourceClaim or ResourceClaimTemplate; or a Pod, Job or Deployment with what it names.",
    )
    file = forms.FileField(required=False, label="Or a file")

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        upload = cleaned.get("file")
        if not upload:  # False where somebody sends the box that clears a file
            cleaned |= {"manifest": cleaned.get("text", ""), "source": "The text"}
        elif upload.size > MOST_BYTES:
            raise forms.ValidationError(
                f"{upload.name} has {upload.size} bytes; {MOST_BYTES} are read at most."
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
            raise forms.ValidationError(f"{upload.name} is not text.") from None
        return text
