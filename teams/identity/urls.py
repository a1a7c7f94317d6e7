"""Addresses of the sign-in, below /accounts/: allauth includes them, because its provider is ours."""

from collections.abc import Callable

from allauth.socialaccount.models import SocialApp
from allauth.socialaccount.providers.oauth2.views import OAuth2CallbackView, OAuth2LoginView
from django.contrib.auth.decorators import login_not_required
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import URLPattern, path

from teams.identity.logout import back_channel_logout
from teams.identity.provider import ProviderAdapter


def _view_of(view: type[OAuth2LoginView | OAuth2CallbackView]) -> Callable[..., HttpResponse]:
    @login_not_required
    def answer(request: HttpRequest, provider_id: str) -> HttpResponse:
        try:
            response: HttpResponse = view.adapter_view(ProviderAdapter(request, provider_id))(request)
        except SocialApp.DoesNotExist as unknown:
            raise Http404 from unknown
        return response

    return answer


urlpatterns: list[URLPattern] = [
    path("oidc/<slug:provider_id>/login/", _view_of(OAuth2LoginView), name="openid_connect_login"),
    path(
        "oidc/<slug:provider_id>/login/callback/",
        _view_of(OAuth2CallbackView),
        name="openid_connect_callback",
    ),
    path("oidc/<slug:provider_id>/logout/", back_channel_logout, name="identity_logout"),
]
