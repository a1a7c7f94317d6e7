"""Forms of decisions, delegations, approval rules and reasons to deny."""

from __future__ import annotations

from typing import Any

from django import forms
from django.db.models import Q
from django.http import QueryDict

from claims.approvals.services import MAX_REASON_LENGTH, MAX_TITLE_LENGTH
from claims.models import Approval, ApprovalRule, Claim, Profile, ProfileVersion, ReasonTemplate
from claims.models.limits import MAX_DEVICES
from claims.plans.changes import WantedChange, combined_parts
from core.inputs import DurationText, LocalMoment, PersonField, TitleField
from core.text import as_options, counted
from core.times import spell_duration
from teams.models import Team, User


class NoteForm(forms.Form):
    note = forms.CharField(required=False, max_length=500, label="Note")


class ApproveForm(NoteForm):
    """The approval is bound to `spec_hash`, the hash of the spec that the approver read."""

    spec_hash = forms.CharField(max_length=64, widget=forms.HiddenInput)


class DenyForm(NoteForm):
    """A denial needs a note, or a saved `reason`."""

    reason = forms.CharField(required=False, max_length=2000)

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        note = cleaned.get("note") or cleaned.get("reason")
        if not note and "note" not in self.errors:
            self.add_error("note", "Give a reason. The requester will see it.")
        cleaned["note"] = note or ""
        return cleaned


class ChangeForm(forms.Form):
    """
    The change an approver makes to a request; an empty field, and one as requested, changes nothing.

    A claim that combines profiles has a field `part_<slug>` for each; `devices` then belongs to another
    profile that replaces them all.
    """

    devices = forms.IntegerField(
        required=False, min_value=1, max_value=MAX_DEVICES, label="Devices per claim"
    )
    duration = DurationText(required=False, label="Duration")
    spec_hash = forms.CharField(required=False, max_length=64, widget=forms.HiddenInput)
    note = forms.CharField(required=False, max_length=500, label="Note")

    def __init__(self, data: QueryDict | None, *, claim: Claim) -> None:
        super().__init__(data)
        self.claim = claim
        profiles = Profile.objects.open_to(claim.team).exclude(current=None).select_related("current")
        self.fields["profile"] = TitleField(
            profiles.exclude(pk=claim.profile_version.profile_id),
            required=False,
            to_field_name="slug",
            label="Profile",
            empty_label="As requested",
        )
        self.requested: dict[str, int] = {}  # slug of each combined profile → number in the request
        for part in combined_parts(claim):
            version = part.alternative.profile_version
            self.requested[version.profile.slug] = part.typed
            self.fields[f"part_{version.profile.slug}"] = part_field(version, part.typed)

    @property
    def parts(self) -> list[forms.BoundField]:
        return [self[f"part_{slug}"] for slug in self.requested]

    @property
    def wanted(self) -> WantedChange:
        fields = self.cleaned_data
        counts = [(slug, fields.get(f"part_{slug}")) for slug in self.requested]
        changed = tuple(
            (slug, int(count))
            for slug, count in counts
            if count not in (None, "") and int(count) != self.requested[slug]
        )
        devices, duration = fields.get("devices"), fields.get("duration")
        if devices == self.claim.devices and not self.requested:
            devices = None
        return WantedChange(
            devices, None if duration == self.claim.duration else duration, fields.get("profile"), changed
        )

    @classmethod
    def requested_values(cls, claim: Claim) -> QueryDict:
        """Return the fields as they are requested; of combined profiles only the duration."""
        data = QueryDict(mutable=True)
        data["duration"] = spell_duration(claim.duration)
        parts = combined_parts(claim)
        for part in parts:
            if part.alternative.profile_version.scalable:
                data[f"part_{part.alternative.profile_version.profile.slug}"] = str(part.typed)
        if not parts:
            data["devices"] = str(claim.devices)
        return data


def part_field(version: ProfileVersion, requested: int) -> forms.Field:
    """Return the field for one combined profile: a number if it is scalable, else whether to keep it."""
    title = version.profile.title
    if not version.scalable:
        choices = [("", "As requested"), ("0", "Leave out")]
        return forms.ChoiceField(required=False, choices=choices, label=title)
    return forms.IntegerField(
        required=False,
        min_value=0,
        max_value=requested,
        label=title,
        help_text=f"Requested: {counted(requested, 'device')}. 0 leaves the profile out.",
    )


class EndForm(forms.Form):
    """Withdraw or release a claim; the reason is kept in the history."""

    reason = forms.CharField(
        required=False, max_length=500, label="Reason", help_text="Kept in the history of the claim."
    )


class DelegationForm(forms.Form):
    """The delegate and the period; the page adds the team."""

    starts_at = LocalMoment(
        label="From",
    )
    ends_at = LocalMoment(
        label="To",
    )

    def __init__(
        self, data: QueryDict | None, *, people: list[User], initial: dict[str, Any] | None = None
    ) -> None:
        super().__init__(data, initial=initial)
        candidates = User.objects.filter(pk__in=[person.pk for person in people]).order_by("username")
        self.fields["to"] = PersonField(candidates, to_field_name="username", label="Delegate")
        self.order_fields(["to", "starts_at", "ends_at"])


PROFILE_DEFAULT = ("", "As in the profile")


class RuleForm(forms.Form):
    """The fields of `claims.approvals.services.save_rule`."""

    marks_required = True

    team = forms.ModelChoiceField(
        Team.objects.active(),
        required=False,
        to_field_name="slug",
        label="Team",
        empty_label="Every team",
    )
    profile = TitleField(
        Profile.objects.filter(retired_at=None),
        required=False,
        to_field_name="slug",
        label="Profile",
        empty_label="Every profile",
    )
    approval = forms.ChoiceField(
        required=False, choices=[PROFILE_DEFAULT, *as_options(Approval.choices)], label="Who decides"
    )
    automatic_devices = forms.IntegerField(
        required=False,
        min_value=0,
        max_value=ApprovalRule.MOST,
        label="Auto-approve up to (devices)",
        help_text="Total of all pods. Leave empty to require approval for every request.",
    )
    automatic_duration = DurationText(
        required=False,
        label="For at most",
        help_text="For example 24h or 3d. Leave empty for any duration.",
    )
    escalate_after = DurationText(
        required=False,
        label="Escalate to admins after",
        help_text="For example 24h without a decision. Leave empty to never escalate.",
    )
    self_approval = forms.BooleanField(required=False, label="Approvers may decide on their own requests")

    def __init__(self, data: QueryDict | None = None, *, rule: ApprovalRule | None = None) -> None:
        """Edit `rule`, whose team and profile are fixed, or create one."""
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
        if rule is not None:  # of hundreds of teams the page shows one
            team, profile = Q(pk=rule.team_id), Q(pk=rule.profile_id)
            self.fields["team"].queryset = Team.objects.filter(team)  # type: ignore[attr-defined]
            self.fields["profile"].queryset = Profile.objects.filter(profile)  # type: ignore[attr-defined]

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        cleaned["automatic_devices"] = cleaned.get("automatic_devices") or 0
        if not cleaned.get("team") and not cleaned.get("profile") and not self.errors:
            self.add_error("team", "Choose a team, a profile, or both.")
        return cleaned


class ReasonForm(forms.Form):
    """The fields of `claims.approvals.services.save_reason`; `for_all`: whether it may be for every team."""

    title = forms.CharField(
        max_length=MAX_TITLE_LENGTH,
        label="Title",
        help_text="Shown to approvers in the list.",
    )
    text = forms.CharField(
        max_length=MAX_REASON_LENGTH,
        widget=forms.Textarea(attrs={"rows": 3}),
        label="Text",
        help_text="Shown to the requester. The approver can edit it before sending.",
    )

    def __init__(
        self,
        data: QueryDict | None = None,
        *,
        teams: list[Team],
        for_all: bool,
        reason: ReasonTemplate | None = None,
    ) -> None:
        initial: dict[str, Any] = {}
        if reason is not None:
            team = reason.team.slug if reason.team else ""
            initial = {"title": reason.title, "text": reason.text, "team": team}
        elif not for_all and teams:
            initial = {"team": teams[0].slug}
        super().__init__(data, initial=initial)
        self.fields["team"] = forms.ModelChoiceField(
            Team.objects.filter(pk__in=[team.pk for team in teams]),
            required=not for_all,
            to_field_name="slug",
            label="Offered in",
            empty_label="Every team" if for_all else None,
        )
