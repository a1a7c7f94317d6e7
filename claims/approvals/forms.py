"""Forms of a decision, a delegation, an approval rule and a reason to deny."""

from __future__ import annotations

from typing import Any

from django import forms
from django.http import QueryDict

from claims.approvals.services import LONGEST_REASON, LONGEST_TITLE
from claims.durations import DurationText
from claims.models import Approval, ApprovalRule, Claim, Profile, ProfileVersion, ReasonTemplate
from claims.plans.changes import WantedChange, combined_parts
from core.text import counted
from teams.models import Team, User


class ApproveForm(forms.Form):
    """`spec_hash` is of the specification that the approver has seen: approval is bound to it."""

    spec_hash = forms.CharField(max_length=64, widget=forms.HiddenInput)
    note = forms.CharField(required=False, max_length=500, label="Note")


class DenyForm(forms.Form):
    """A note, or a `reason` that was ready to use, or both."""

    note = forms.CharField(required=False, max_length=500, label="Note")
    reason = forms.CharField(required=False, max_length=2000)

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        said = cleaned.get("note") or cleaned.get("reason")
        if not said and "note" not in self.errors:
            self.add_error("note", "Say why: the person who asked sees this sentence.")
        cleaned["note"] = said or ""
        return cleaned


class Titled(forms.ModelChoiceField):  # type: ignore[type-arg]
    """Profiles by their titles."""

    def label_from_instance(self, obj: Any) -> str:
        return str(obj.title)


class Person(forms.ModelChoiceField):  # type: ignore[type-arg]
    """People as they are shown everywhere else."""

    def label_from_instance(self, obj: Any) -> str:
        return str(obj.label)


class ChangeForm(forms.Form):
    """
    What an approver would make of a request; what is left out stays as it is.

    For a claim that takes several profiles there is a field for each of them, `part_` and its slug; then
    `devices` are those of another profile in their place.
    """

    devices = forms.IntegerField(required=False, min_value=1, max_value=1024, label="Devices per claim")
    duration = DurationText(required=False, label="Duration")
    spec_hash = forms.CharField(required=False, max_length=64, widget=forms.HiddenInput)
    note = forms.CharField(required=False, max_length=500, label="Note")

    def __init__(self, data: QueryDict | None, *, claim: Claim) -> None:
        super().__init__(data)
        profiles = Profile.objects.open_to(claim.team).exclude(current=None).select_related("current")
        self.fields["profile"] = Titled(
            profiles.exclude(pk=claim.profile_version.profile_id),
            required=False,
            to_field_name="slug",
            label="Profile",
            empty_label="as asked",
        )
        self.typed: dict[str, int] = {}  # slug of each of several profiles → the number that was asked for
        for one in combined_parts(claim):
            version = one.alternative.profile_version
            self.typed[version.profile.slug] = one.typed
            self.fields[f"part_{version.profile.slug}"] = part_field(version, one.typed)

    @property
    def parts(self) -> list[forms.BoundField]:
        return [self[f"part_{slug}"] for slug in self.typed]

    @property
    def wanted(self) -> WantedChange:
        said = self.cleaned_data
        counts = [(slug, said.get(f"part_{slug}")) for slug in self.typed]
        changed = tuple(
            (slug, int(count))
            for slug, count in counts
            if count not in (None, "") and int(count) != self.typed[slug]
        )
        return WantedChange(said.get("devices"), said.get("duration"), said.get("profile"), changed)


def part_field(version: ProfileVersion, typed: int) -> forms.Field:
    """Return the field for one of several profiles: how many of it, where it has a number, or whether."""
    title = version.profile.title
    if not version.scalable:
        choices = [("", "as asked"), ("0", "left out")]
        return forms.ChoiceField(required=False, choices=choices, label=title)
    return forms.IntegerField(
        required=False,
        min_value=0,
        max_value=typed,
        widget=forms.NumberInput({"placeholder": typed}),
        label=title,
        help_text=f"{counted(typed, 'device is', 'devices are')} asked for; 0 leaves it out.",
    )


class EndForm(forms.Form):
    """Withdrawing or releasing; the reason is kept in the history."""

    reason = forms.CharField(required=False, max_length=500, label="Reason")


class AwayForm(forms.Form):
    """From when to when who stands in for a lead; `team` is known from the page."""

    starts_at = forms.DateTimeField(
        label="From",
        widget=forms.DateTimeInput({"type": "datetime-local"}, format="%Y-%m-%dT%H:%M"),
    )
    ends_at = forms.DateTimeField(
        label="To",
        widget=forms.DateTimeInput({"type": "datetime-local"}, format="%Y-%m-%dT%H:%M"),
    )

    def __init__(
        self, data: QueryDict | None, *, people: list[User], initial: dict[str, Any] | None = None
    ) -> None:
        super().__init__(data, initial=initial)
        listed = User.objects.filter(pk__in=[person.pk for person in people]).order_by("username")
        self.fields["to"] = Person(listed, to_field_name="username", label="Stand-in")
        self.order_fields(["to", "starts_at", "ends_at"])


AS_THE_PROFILE = ("", "as the profile says")


class RuleForm(forms.Form):
    """The fields of `claims.approvals.services.save_rule`."""

    team = forms.ModelChoiceField(
        Team.objects.all(),
        required=False,
        to_field_name="slug",
        label="Team",
        empty_label="every team",
    )
    profile = forms.ModelChoiceField(
        Profile.objects.filter(retired_at=None),
        required=False,
        to_field_name="slug",
        label="Profile",
        empty_label="every profile",
    )
    approval = forms.ChoiceField(
        required=False, choices=[AS_THE_PROFILE, *Approval.choices], label="Who decides"
    )
    automatic_devices = forms.IntegerField(
        required=False,
        min_value=0,
        max_value=100_000,
        label="Approved automatically up to",
        help_text="Devices of all claims at once. Empty: somebody is always asked.",
    )
    automatic_duration = DurationText(
        required=False,
        label="And for up to",
        help_text="Like 24h or 3d. Empty: however long.",
    )
    escalate_after = DurationText(
        required=False,
        label="Ask platform admins too after",
        help_text="Undecided for so long, like 24h. Empty: never.",
    )
    self_approval = forms.BooleanField(required=False, label="Who decides may decide on their own requests")

    def __init__(self, data: QueryDict | None = None, *, rule: ApprovalRule | None = None) -> None:
        """Start from `rule` if there is one; for whom it holds then stays as it is."""
        initial: dict[str, Any] = {"approval": Approval.LEAD}
        if rule is not None:
            fields = (
                "approval",
                "automatic_devices",
                "automatic_duration",
                "escalate_after",
                "self_approval",
            )
            initial = {name: getattr(rule, name) for name in fields}
            initial["team"] = rule.team.slug if rule.team else ""
            initial["profile"] = rule.profile.slug if rule.profile else ""
        super().__init__(data, initial=initial)
        for name in ("team", "profile"):
            self.fields[name].disabled = rule is not None

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        cleaned["automatic_devices"] = cleaned.get("automatic_devices") or 0
        if not cleaned.get("team") and not cleaned.get("profile") and not self.errors:
            self.add_error("team", "Name a team, a profile, or both.")
        return cleaned


class ReasonForm(forms.Form):
    """The fields of `claims.approvals.services.save_reason`; `everybody`: may it be for every team."""

    title = forms.CharField(
        max_length=LONGEST_TITLE,
        label="Title",
        help_text="What those who decide read in the list.",
    )
    text = forms.CharField(
        max_length=LONGEST_REASON,
        widget=forms.Textarea(attrs={"rows": 3}),
        label="Text",
        help_text="What the person who asked reads. It can still be changed before it is sent.",
    )

    def __init__(
        self,
        data: QueryDict | None = None,
        *,
        teams: list[Team],
        everybody: bool,
        reason: ReasonTemplate | None = None,
    ) -> None:
        initial: dict[str, Any] = {}
        if reason is not None:
            team = reason.team.slug if reason.team else ""
            initial = {"title": reason.title, "text": reason.text, "team": team}
        elif not everybody and teams:
            initial = {"team": teams[0].slug}
        super().__init__(data, initial=initial)
        self.fields["team"] = forms.ModelChoiceField(
            Team.objects.filter(pk__in=[team.pk for team in teams]),
            required=not everybody,
            to_field_name="slug",
            label="Offered in",
            empty_label="every team" if everybody else None,
        )
