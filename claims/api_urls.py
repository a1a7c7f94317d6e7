"""The API of `claims`, below /api/v1/."""

from django.urls import URLPattern, URLResolver, path
from rest_framework.routers import SimpleRouter

from claims.api.approvals import ApprovalViewSet
from claims.api.claims import ClaimViewSet
from claims.api.profiles import MatchView, ProfileViewSet
from claims.api.quotas import QuotaViewSet

router = SimpleRouter()
router.register("claims", ClaimViewSet, "api-claim")
router.register("approvals", ApprovalViewSet, "api-approval")
router.register("profiles", ProfileViewSet, "api-profile")
router.register("quotas", QuotaViewSet, "api-quota")

urlpatterns: list[URLPattern | URLResolver] = [
    *router.urls,
    path("match/", MatchView.as_view(), name="api-match"),
]
