"""The API of `claims`, below /api/v1/."""

from django.urls import URLPattern, URLResolver, path
from rest_framework.routers import SimpleRouter

from claims.api.approvals import ApprovalViewSet
from claims.api.claims import ClaimViewSet
from claims.api.lint import LintView
from claims.api.match import MatchView
from claims.api.profiles import ProfileViewSet
from claims.api.quotas import QuotaViewSet

router = SimpleRouter()
router.register("claims", ClaimViewSet, "api-claim")
router.register("approvals", ApprovalViewSet, "api-approval")
router.register("profiles", ProfileViewSet, "api-profile")
router.register("quotas", QuotaViewSet, "api-quota")

urlpatterns: list[URLPattern | URLResolver] = [
    path("profiles/lint/", LintView.as_view(), name="api-lint"),  # before the profile of that name
    *router.urls,
    path("match/", MatchView.as_view(), name="api-match"),
]
