"""How allauth behaves here: an admin or single sign-on creates people; there is no sign-up form."""

from typing import Any

from allauth.account.adapter import DefaultAccountAdapter
from allauth.account.forms import ChangePasswordForm, LoginForm, ResetPasswordKeyForm
from django import forms
from django.contrib import messages
from django.contrib.auth.models import AnonymousUser
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect

from core.models import Installation
from teams.models import User, record

ADMINS_ONLY = "Only platform admins sign in with a password here. Choose your identity provider."


class AccountAdapter(DefaultAccountAdapter):
    def is_open_for_signup(self, request: HttpRequest) -> bool:
        return False

    def pre_login(
        self, request: HttpRequest, user: User, *, signal_kwargs: dict[str, Any] | None = None, **more: Any
    ) -> HttpResponse | None:
        """Refuse a local sign-in where only platform admins have one; that of a provider is none."""
        response: HttpResponse | None = super().pre_login(request, user, signal_kwargs=signal_kwargs, **more)
        is_local = "sociallogin" not in (signal_kwargs or {})
        if response or not is_local or user.is_superuser or Installation.load().password_sign_in:
            return response
        record(
            by=AnonymousUser(),
            action="session.failed",
            kind="user",
            object_id=str(user.pk),
            name=user.username,
            text="only platform admins sign in with a password",
        )
        messages.error(request, ADMINS_ONLY)
        return redirect("account_login")


def without_placeholders(form: forms.BaseForm) -> None:
    """Labels are above the fields and not in them."""
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


class SignInForm(LoginForm):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        without_placeholders(self)
