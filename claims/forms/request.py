"""What somebody asks for. The same fields prefill the form from an address and fill the panel beside it."""

from __future__ import annotations

import uuid
from datetime import timedelta
from typing import Any, cast

from django import forms
from django.core.exceptions import ValidationError
from django.core.validators import RegexValidator
from django.db.models import QuerySet
from django.http import QueryDict
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from claims.forms.durations import DurationText, parse, spell
from claims.forms.several import Counted, InOrder, pairs_in
from claims.models import Claim, Profile
from claims.models.profile import Delivery
from inventory.models import Cluster
from teams.access import teams_where
from teams.models import Role, Team, User

PRESETS = ("4h", "24h", "3d", "7d")
OTHER = "other"
UNKNOWN_PROFILE = {
    "invalid_choice": gettext_lazy(
        "“%(value)s” cannot be asked for: there is no such profile, it is retired, or not open to your teams."
    )
}
# RFC 1123 label: what the API server accepts as the name of the object.
DNS_LABEL = RegexValidator(
    r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$",
    gettext_lazy(
        "Use lower-case letters, digits and hyphens, at most 63, starting and ending with a letter or digit."
    ),
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
        label=gettext_lazy("Profile"),
        error_messages=UNKNOWN_PROFILE,
    )
    alternatives = InOrder(
        Profile.objects.none(),
        to_field_name="slug",
        required=False,
        widget=forms.MultipleHiddenInput,
        label=gettext_lazy("Alternatives"),
        error_messages=UNKNOWN_PROFILE,
    )
    together = Counted(
        Profile.objects.none(),
        to_field_name="slug",
        required=False,
        label=gettext_lazy("And also"),
        error_messages=UNKNOWN_PROFILE,
    )
    devices = forms.IntegerField(min_value=1, max_value=1024, initial=1, label=gettext_lazy("Devices"))
    delivery = forms.ChoiceField(
        choices=Delivery, initial=Delivery.CLAIM, required=False, label=gettext_lazy("Delivery")
    )
    parallel = forms.IntegerField(
        min_value=1, max_value=1024, initial=1, required=False, label=gettext_lazy("Pods at once")
    )
    duration = forms.CharField(required=False, label=gettext_lazy("How long"))
    duration_other = DurationText(required=False, label=gettext_lazy("Other duration"))
    team = forms.ModelChoiceField(
        Team.objects.none(),
        to_field_name="slug",
        label=gettext_lazy("Team"),
        error_messages={"invalid_choice": gettext_lazy("This is no team that you can ask for.")},
    )
    cluster = forms.ModelChoiceField(
        Cluster.objects.none(),
        to_field_name="name",
        label=gettext_lazy("Cluster"),
        error_messages={"invalid_choice": gettext_lazy("This is no cluster in which your teams work.")},
    )
    name = forms.CharField(
        required=False, max_length=63, validators=[DNS_LABEL], label=gettext_lazy("Claim name")
    )
    reason = forms.CharField(required=False, max_length=500, label=gettext_lazy("Purpose"))
    key = forms.CharField(required=False, max_length=80, widget=forms.HiddenInput)
    replaces = forms.ModelChoiceField(
        Claim.objects.none(), required=False, widget=forms.HiddenInput, label=gettext_lazy("Replaces")
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
                _("%(team)s has no namespace in %(cluster)s. It works in: %(here)s.")
                % {"team": team, "cluster": cluster, "here": here or _("no cluster yet")},
            )
        return cleaned

    def chosen_duration(self, cleaned: dict[str, Any]) -> timedelta | None:
        """None means the default of the profile."""
        picked = cleaned.get("duration") or ""
        if picked and picked != OTHER:
            try:
                return parse(picked)
            except ValueError:
                self.add_error("duration", _("Write a duration like 24h, 3d or 1d 12h."))
                return None
        other: timedelta | None = cleaned.get("duration_other")
        if picked == OTHER and other is None and "duration_other" not in self.errors:
            self.add_error("duration_other", _("Say how long, for example 36h or 5d."))
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
        return [*rows, (OTHER, _("other"), chosen not in values and bool(chosen))]

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
