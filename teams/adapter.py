"""How allauth behaves here: an admin or single sign-on creates people; there is no sign-up form."""

from typing import Any

from allauth.account.adapter import DefaultAccountAdapter
from allauth.account.forms import ChangePasswordForm, LoginForm, ResetPasswordKeyForm
from allauth.core.internal import ratelimit
from django import forms
from django.contrib import messages
from django.contrib.auth.models import AnonymousUser
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect

from core.models import Installation
from teams.identity.suspension import refusing_provider
from teams.models import User, record

ADMINS_ONLY = "Only platform admins sign in with a password here. Choose your identity provider."
CLOSED = (
    "{provider} no longer renews your sign-in, and so your password and your passkeys are closed too. "
    "Sign in through {provider}, or ask a platform admin."
)
ANYWHERE = "login_failed_anywhere"


class AccountAdapter(DefaultAccountAdapter):
    error_messages = DefaultAccountAdapter.error_messages | {
        f"{way}_password_mismatch": "Wrong user name or password." for way in ("email", "username")
    }

    def is_open_for_signup(self, request: HttpRequest) -> bool:
        return False

    def pre_login(
        self, request: HttpRequest, user: User, *, signal_kwargs: dict[str, Any] | None = None, **more: Any
    ) -> HttpResponse | None:
        """
        Refuse a local sign-in where only platform admins have one, and of whom an identity provider refuses;
        that of a provider is none.
        """
        response: HttpResponse | None = super().pre_login(request, user, signal_kwargs=signal_kwargs, **more)
        if response or "sociallogin" in (signal_kwargs or {}):
            return response
        if not user.is_superuser and not Installation.load().password_sign_in:
            return _refused(request, user, ADMINS_ONLY, "only platform admins sign in with a password")
        provider = refusing_provider(user)
        if provider is None:
            return None
        text = f"{provider.title} refuses to renew the sign-in, and the account is not marked as break-glass"
        return _refused(request, user, CLOSED.format(provider=provider.title), text)

    _anywhere: ratelimit.RateLimitUsage | None = None

    # Wrong passwords are counted for a name from an address, and more slowly for a name from everywhere
    # (`ACCOUNT_RATE_LIMITS`): guesses from one address lock nobody out who signs in from another.

    def pre_authenticate(self, request: HttpRequest, **credentials: Any) -> None:
        super().pre_authenticate(request, **credentials)
        self._anywhere = ratelimit.consume(
            request, app="allauth.account", action=ANYWHERE, key=_name_in(credentials)
        )
        if not self._anywhere:
            raise self.validation_error("too_many_login_attempts")

    def _get_login_attempts_cache_key(self, request: HttpRequest, **credentials: Any) -> str:
        """Without the host that allauth has in it: clients choose the port, and with it a fresh limit."""
        return f"{_name_in(credentials)} {ratelimit.get_ip(request)}"

    def _rollback_login_failed_rl_usage(self) -> None:
        super()._rollback_login_failed_rl_usage()
        if self._anywhere:
            self._anywhere.rollback()

    def _delete_login_attempts_cached_email(self, request: HttpRequest, **credentials: Any) -> None:
        super()._delete_login_attempts_cached_email(request, **credentials)
        ratelimit.clear(request, app="allauth.account", action=ANYWHERE, key=_name_in(credentials))


def _name_in(credentials: dict[str, Any]) -> str:
    return str(credentials.get("email") or credentials.get("username") or "").lower()


def _refused(request: HttpRequest, user: User, message: str, text: str) -> HttpResponse:
    """Record a sign-in that was refused although the password was right, and say why on the sign-in page."""
    record(
        by=AnonymousUser(),
        action="session.failed",
        kind="user",
        object_id=str(user.pk),
        name=user.username,
        text=text,
    )
    messages.error(request, message)
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
