"""
How django-allauth signs people in through the identity providers of the portal.

allauth runs the authorization code flow with `state` and PKCE. The portal adds a nonce, verifies the
signature of each ID token although it came over TLS, and decides whose account it is (`people`).
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn, cast

import httpx
import structlog
from allauth.account.internal.flows.reauthentication import raise_if_reauthentication_required
from allauth.account.signals import user_logged_in
from allauth.core.exceptions import ImmediateHttpResponse
from allauth.socialaccount.adapter import DefaultSocialAccountAdapter
from allauth.socialaccount.models import SocialAccount, SocialApp, SocialLogin
from allauth.socialaccount.providers.base import AuthError, ProviderException
from allauth.socialaccount.providers.oauth2.client import OAuth2Client, OAuth2Error
from allauth.socialaccount.providers.openid_connect.provider import OpenIDConnectProvider
from allauth.socialaccount.providers.openid_connect.views import OpenIDConnectOAuth2Adapter
from django.contrib import messages
from django.contrib.auth.models import AnonymousUser
from django.dispatch import receiver
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import redirect, render
from django.views.decorators.debug import sensitive_variables

from core.errors import PortalError
from core.text import counted
from teams.identity import discovery
from teams.identity.discovery import ProviderUnavailable, json_object, metadata, post_as_client, read_userinfo
from teams.identity.logout import sealed_id_token
from teams.identity.models import IdentityProvider
from teams.identity.people import (
    Identity,
    SignIn,
    SignInRefused,
    identity_of,
    keep_grant,
    link,
    linked_person,
    person_of_scim,
    person_signing_in,
)
from teams.identity.services import secret_of
from teams.identity.suspension import outlives_session
from teams.identity.tokens import ProviderTokenRefused, id_token_claims, session_of
from teams.models import Team, User, record
from teams.sessions import PROVIDER_SESSION

log = structlog.get_logger(__name__)

CANCELLED = "You cancelled the sign-in at {provider}."
TOO_WEAK = (
    "{provider} did not say that you signed in strongly enough: {wanted} is demanded. Set up a second factor "
    "there, then sign in again."
)
BROKEN = "The sign-in at {provider} took too long, or was sent twice. Begin again."


def app_of(provider: IdentityProvider) -> SocialApp:
    """Return a provider as allauth wants it; the secret is only in memory."""
    app = SocialApp(
        provider="openid_connect",
        provider_id=provider.slug,
        name=provider.title,
        client_id=provider.client_id,
        secret=secret_of(provider),
        settings={
            "server_url": provider.issuer,
            "oauth_pkce_enabled": True,
            "scope": provider.scopes.split(),
        },
    )
    app.identity_provider = provider
    return app


@contextmanager
def answering(provider: IdentityProvider) -> Iterator[None]:
    """Raise what goes wrong while the provider is asked as allauth expects it."""
    try:
        yield
    except ProviderTokenRefused as refusal:
        raise OAuth2Error(refusal.message) from refusal
    except (ValueError, AttributeError) as error:
        raise OAuth2Error("Its answer is not a JSON object.") from error
    except (httpx.HTTPError, httpx.InvalidURL, ProviderUnavailable) as error:
        log.warning("provider_unavailable", provider=provider.slug, problem=str(error))
        raise ProviderException from error


class ProviderAdapter(OpenIDConnectOAuth2Adapter):
    """The part of the flow that speaks to the provider."""

    @property
    def identity_provider(self) -> IdentityProvider:
        return cast(IdentityProvider, self.get_provider().app.identity_provider)

    @property
    def openid_config(self) -> dict[str, Any]:
        return metadata(self.identity_provider)

    @sensitive_variables()
    def get_access_token_data(
        self,
        request: HttpRequest,
        app: SocialApp,
        client: OAuth2Client,
        pkce_code_verifier: str | None = None,
    ) -> dict[str, Any]:
        """Exchange the code for tokens (RFC 6749 §4.1.3), by the client that checks addresses."""
        provider = self.identity_provider
        body = {
            "grant_type": "authorization_code",
            "code": request.GET["code"],
            "redirect_uri": str(client.callback_url),
            "code_verifier": pkce_code_verifier or "",
        }
        with answering(provider), discovery.client() as http:
            found, secret = metadata(provider), secret_of(provider)
            answer = post_as_client(http, provider, found, secret, found["token_endpoint"], body)
            tokens = json_object(answer.content)
            if answer.status_code != httpx.codes.OK or not isinstance(tokens.get("access_token"), str):
                error = tokens.get("error") or answer.status_code
                raise OAuth2Error(f"It answers {error} to the code.")
        return tokens

    @sensitive_variables()
    def _fetch_user_info(self, access_token: str) -> dict[str, Any]:
        with answering(self.identity_provider), discovery.client() as http:
            answer = read_userinfo(http, self.identity_provider, access_token)
            if answer.status_code != httpx.codes.OK:
                raise OAuth2Error(f"It answers {answer.status_code} for userinfo.")
            return json_object(answer.content)

    @sensitive_variables()
    def complete_login(self, request: HttpRequest, app: SocialApp, token: Any, **kwargs: Any) -> SocialLogin:
        """Return the login with the claims of the ID token and of userinfo, both about the same person."""
        id_token = kwargs["response"].get("id_token")
        if not isinstance(id_token, str):
            raise OAuth2Error("The provider sent no ID token. Add the scope openid.")
        with answering(self.identity_provider):
            claims = id_token_claims(self.identity_provider, id_token)
        userinfo: dict[str, Any] = {}
        if self.openid_config.get("userinfo_endpoint"):
            userinfo = self._fetch_user_info(token.token)
            if userinfo.get("sub") != claims["sub"]:  # OpenID Connect Core 1.0 §5.3.2
                raise OAuth2Error("ID token and userinfo are about different people.")
        account = SocialAccount(provider=self.identity_provider.slug, uid=claims["sub"])
        login = SocialLogin(user=User(), account=account, provider=self.get_provider())
        login.claims = {**claims, **userinfo, "nonce": claims.get("nonce"), "sid": claims.get("sid")}
        login.claims["acr"] = claims.get("acr")  # of what is signed, and not of userinfo
        login.id_token, login.scope = id_token, kwargs["response"].get("scope")
        return login


class Provider(OpenIDConnectProvider):
    """One identity provider of the portal."""

    oauth2_adapter_class = ProviderAdapter

    def get_auth_params_from_request(self, request: HttpRequest, action: str) -> dict[str, str]:
        return {}  # nothing of the address is sent on

    def get_scope_from_request(self, request: HttpRequest) -> list[str]:
        return cast(list[str], self.get_scope())

    def redirect(self, request: HttpRequest, process: str, **kwargs: Any) -> HttpResponse:
        """
        Lead the browser to the provider, by a page and not by a redirect: the form of the sign-in page may
        only be sent to the portal (CSP `form-action`), and that is checked for redirects too.
        """
        if process == "connect":  # another way into this account
            raise_if_reauthentication_required(request, app="teams")
        nonce = secrets.token_urlsafe(24)
        wanted = self.app.identity_provider.acr_values
        strength = {"acr_values": wanted} if wanted else {}  # OpenID Connect Core 1.0 §3.1.2.1
        kwargs["auth_params"] = {**kwargs.get("auth_params", {}), "nonce": nonce, **strength}
        response = super().redirect(request, process, nonce=nonce, **kwargs)
        if isinstance(response, HttpResponseRedirect):
            page = {"url": response.url, "provider": self.app.name}
            page_response = render(request, "teams/identity/continue.html", page)
            page_response["Refresh"] = f"0; url={response.url}"
            return page_response
        return cast(HttpResponse, response)


provider_classes = [Provider]


class SocialAdapter(DefaultSocialAccountAdapter):
    """allauth asks this which providers there are and whose account it is; it makes none itself."""

    def list_apps(
        self, request: HttpRequest, provider: str | None = None, client_id: str | None = None
    ) -> list[SocialApp]:
        rows = IdentityProvider.objects.filter(enabled=True)
        if client_id:
            rows = rows.filter(client_id=client_id)
        if provider and provider != "openid_connect":
            rows = rows.filter(slug=provider)
        return [app_of(row) for row in rows]

    def get_requests_session(self) -> NoReturn:
        """Only `discovery.client` asks providers: it follows no redirects and checks addresses."""
        raise RuntimeError("Ask providers with teams.identity.discovery.client.")

    def is_open_for_signup(self, request: HttpRequest, sociallogin: SocialLogin) -> bool:
        return False  # `people` makes accounts, before allauth would

    def pre_social_login(self, request: HttpRequest, sociallogin: SocialLogin) -> None:
        """Decide whose account it is. Raises ImmediateHttpResponse with a page that says why nobody's."""
        provider: IdentityProvider = sociallogin.provider.app.identity_provider
        claims: dict[str, Any] = sociallogin.claims
        refusal: PortalError | None = None
        if not claims["nonce"] or claims["nonce"] != sociallogin.state.get("nonce"):
            refusal = SignInRefused(BROKEN.format(provider=provider.title))
        elif provider.acr_values and claims["acr"] not in provider.acr_values.split():
            refusal = SignInRefused(TOO_WEAK.format(provider=provider.title, wanted=provider.acr_values))
        else:
            identity = identity_of(provider, claims)
            try:
                if sociallogin.state.get("process") == "connect":
                    raise ImmediateHttpResponse(self.connect(request, provider, identity))
                found = person_signing_in(provider, identity)
            except PortalError as error:
                refusal = error
        if refusal is not None:
            raise ImmediateHttpResponse(refused(request, provider, refusal.message, refusal.status))
        sociallogin.account = SocialAccount.objects.get(provider=provider.slug, uid=identity.subject)
        sociallogin.user = found.person
        refresh_token = sociallogin.token.token_secret if sociallogin.token else ""
        is_offline, sid = outlives_session(provider, sociallogin.scope), session_of(claims["sid"])
        if keep_grant(
            provider, found.person, identity.subject, refresh_token, is_offline=is_offline, sid=sid
        ):
            messages.success(request, "Your API tokens work again.")
        sociallogin.state["sid"] = sid
        sociallogin.state["id_token"] = sealed_id_token(provider, sociallogin.id_token)
        say_what_changed(request, provider, found)

    def connect(self, request: HttpRequest, provider: IdentityProvider, identity: Identity) -> HttpResponse:
        """Link the provider to the account that is signed in."""
        if not isinstance(request.user, User):
            raise SignInRefused("Sign in first, then link the provider in your account.")
        person = linked_person(provider, identity)
        kept = person or person_of_scim(provider, identity)
        if person is None and kept in (None, request.user):
            link(provider, identity.subject, request.user)
        elif person != request.user:
            raise SignInRefused(f"This account of {provider.title} belongs to somebody else here.")
        messages.success(request, f"From now on you can sign in through {provider.title}.")
        return redirect("teams:profile")

    def on_authentication_error(
        self,
        request: HttpRequest,
        provider: Provider,
        error: str = AuthError.UNKNOWN,
        exception: Exception | None = None,
        extra_context: dict[str, Any] | None = None,
    ) -> None:
        """Say what went wrong, and record it. Raises ImmediateHttpResponse."""
        row: IdentityProvider = provider.app.identity_provider
        if error == AuthError.CANCELLED:
            messages.info(request, CANCELLED.format(provider=row.title))
            raise ImmediateHttpResponse(redirect("account_login"))
        if isinstance(exception, OAuth2Error):
            text = f"{row.title} refused the sign-in, or its answer is not valid. {exception}"
        elif exception is not None:
            text = f"{row.title} does not answer. Try again, or sign in with a password."
        else:
            text = BROKEN.format(provider=row.title)
        raise ImmediateHttpResponse(refused(request, row, text))


def refused(request: HttpRequest, provider: IdentityProvider, text: str, status: int = 403) -> HttpResponse:
    """Record that a sign-in failed, and return the page that says why."""
    log.info("sign_in_refused", provider=provider.slug, reason=text)
    record(
        by=AnonymousUser(), action="session.failed", kind="user", name=f"through {provider.slug}", text=text
    )
    page = {"text": text, "provider": provider}
    return render(request, "teams/identity/refused.html", page, status=status)


def say_what_changed(request: HttpRequest, provider: IdentityProvider, found: SignIn) -> None:
    """Tell the person what their groups changed since the last sign-in."""
    done = [change for change in found.changes if change.is_visible and not change.refused]
    teams = Team.objects.in_bulk([change.team_id for change in done if change.team_id])
    lost = [teams[change.team_id].slug for change in done if change.team_id and change.after is None]
    if lost:
        messages.warning(
            request,
            f"You are no longer in {', '.join(lost)}: your groups of {provider.title} give no role there. "
            "Your claims stay with the team; its leads extend, transfer or release them.",
        )
    joined = [
        f"{change.new_role} in {teams[change.team_id].slug}"
        for change in done
        if change.team_id and change.after
    ]
    if joined:
        messages.info(request, f"Through your groups of {provider.title} you are {', '.join(joined)}.")
    elif found.is_new:
        teams_now = found.person.memberships.count()
        where = f"You are in {counted(teams_now, 'team')}." if teams_now else "You are in no team yet."
        messages.info(request, f"Your account {found.person.username} was created. {where}")


@receiver(user_logged_in, dispatch_uid="teams.identity")
def keep_provider_session(*, request: HttpRequest, sociallogin: SocialLogin | None = None, **_: Any) -> None:
    """
    Keep the provider's id of this session, which a back-channel logout may name, and the ID token, for the
    logout there: in a column of its own, which requests do not read.
    """
    if sociallogin is None:
        return
    session: Any = request.session
    if sociallogin.state.get("sid"):
        session[PROVIDER_SESSION] = sociallogin.state["sid"]
    if sociallogin.state.get("id_token"):
        session.seen = {**(session.seen or {}), "sealed_id_token": sociallogin.state["id_token"].encode()}
        session.modified = True
