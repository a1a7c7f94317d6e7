"""A rule that says who decides."""

from __future__ import annotations

from typing import Any

from django import forms
from django.http import QueryDict
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from claims.forms.durations import DurationText
from claims.models import Approval, ApprovalRule, Profile
from teams.models import Team

AS_THE_PROFILE = ("", gettext_lazy("as the profile says"))


class RuleForm(forms.Form):
    """The fields of `claims.services.save_rule`."""

    team = forms.ModelChoiceField(
        Team.objects.all(),
        required=False,
        to_field_name="slug",
        label=gettext_lazy("Team"),
        empty_label=gettext_lazy("every team"),
    )
    profile = forms.ModelChoiceField(
        Profile.objects.filter(retired_at=None),
        required=False,
        to_field_name="slug",
        label=gettext_lazy("Profile"),
        empty_label=gettext_lazy("every profile"),
    )
    approval = forms.ChoiceField(
        required=False, choices=[AS_THE_PROFILE, *Approval.choices], label=gettext_lazy("Who decides")
    )
    automatic_devices = forms.IntegerField(
        required=False,
        min_value=0,
        max_value=100_000,
        label=gettext_lazy("Nobody is asked up to"),
        help_text=gettext_lazy("Devices of all claims at once. Empty: somebody is always asked."),
    )
    automatic_duration = DurationText(
        required=False,
        label=gettext_lazy("And for up to"),
        help_text=gettext_lazy("Like 24h or 3d. Empty: however long."),
    )
    escalate_after = DurationText(
        required=False,
        label=gettext_lazy("Ask platform admins too after"),
        help_text=gettext_lazy("Undecided for so long, like 24h. Empty: never."),
    )
    self_approval = forms.BooleanField(
        required=False, label=gettext_lazy("Who decides may decide on their own requests")
    )

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
            self.add_error("team", _("Name a team, a profile, or both."))
        return cleaned
