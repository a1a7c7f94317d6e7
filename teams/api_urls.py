"""The API of `teams`, below /api/v1/."""

from django.urls import URLPattern, URLResolver, include, path
from rest_framework.routers import SimpleRouter

from teams.api import Me, TeamViewSet, TokenViewSet

router = SimpleRouter(use_regex_path=False)
router.register("teams", TeamViewSet, basename="api-team")
router.register("tokens", TokenViewSet, basename="api-token")

urlpatterns: list[URLPattern | URLResolver] = [
    path("me/", Me.as_view(), name="api-me"),
    path("", include(router.urls)),
]
