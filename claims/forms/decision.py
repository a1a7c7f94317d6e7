"""What a decision or an end carries."""

from __future__ import annotations

from django import forms
from django.utils.translation import gettext_lazy as _


class ApproveForm(forms.Form):
    """`spec_hash` is of the specification that the approver has seen: approval is bound to it."""

    spec_hash = forms.CharField(max_length=64, widget=forms.HiddenInput)
    note = forms.CharField(required=False, max_length=500, label=_("Note"))


class DenyForm(forms.Form):
    note = forms.CharField(
        max_length=500,
        label=_("Note"),
        error_messages={"required": _("Say why: the person who asked sees this sentence.")},
    )


class EndForm(forms.Form):
    """Withdrawing or releasing; the reason is kept in the history."""

    reason = forms.CharField(required=False, max_length=500, label=_("Reason"))
