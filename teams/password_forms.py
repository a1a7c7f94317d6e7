"""allauth's forms for a new password, whose labels are above the fields and not in them."""

from typing import Any

from allauth.account.forms import ChangePasswordForm, ResetPasswordKeyForm
from django import forms


def without_placeholders(form: forms.BaseForm) -> None:
    for field in form.fields.values():
        field.widget.attrs.pop("placeholder", None)


class OwnPasswordForm(ChangePasswordForm):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        without_placeholders(self)


class ForgottenPasswordForm(ResetPasswordKeyForm):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        without_placeholders(self)
