"""A reason to deny that is ready to use."""

from __future__ import annotations

from typing import Any

from django import forms
from django.http import QueryDict
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from claims.models import ReasonTemplate
from claims.services.reasons import LONGEST, LONGEST_TITLE
from teams.models import Team


class ReasonForm(forms.Form):
    """The fields of `claims.services.save_reason`; `everybody` tells whether it may be for every team."""

    title = forms.CharField(
        max_length=LONGEST_TITLE,
        label=gettext_lazy("Title"),
        help_text=gettext_lazy("What those who decide read in the list."),
    )
    text = forms.CharField(
        max_length=LONGEST,
        widget=forms.Textarea(attrs={"rows": 3}),
        label=gettext_lazy("Text"),
        help_text=gettext_lazy("What the person who asked reads. It can still be changed before it is sent."),
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
            label=_("Offered in"),
            empty_label=_("every team") if everybody else None,
        )
