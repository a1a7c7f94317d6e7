"""The API of `claims`, below /api/v1/."""

from django.urls import URLPattern, URLResolver, path
from rest_framework.routers import SimpleRouter

from claims.api.approval_rules import ApprovalRuleViewSet
from claims.api.approvals import ApprovalViewSet
from claims.api.claims import ClaimViewSet
from claims.api.comments import CommentsView
from claims.api.consumers import ConsumersView
from claims.api.deciding import DecideView
from claims.api.delegations import DelegationViewSet
from claims.api.life import ExtensionViewSet
from claims.api.lint import LintView
from claims.api.many import ManyView
from claims.api.match import MatchView
from claims.api.outside import AdoptView, OutsideView
from claims.api.profiles import ProfileViewSet
from claims.api.quota_requests import QuotaRequestViewSet
from claims.api.quotas import QuotaViewSet
from claims.api.reasons import ReasonViewSet

router = SimpleRouter()
router.register("claims", ClaimViewSet, "api-claim")
router.register("extensions", ExtensionViewSet, "api-extension")
router.register("approvals", ApprovalViewSet, "api-approval")
router.register("approval-rules", ApprovalRuleViewSet, "api-approval-rule")
router.register("approval-reasons", ReasonViewSet, "api-approval-reason")
router.register("delegations", DelegationViewSet, "api-delegation")
router.register("profiles", ProfileViewSet, "api-profile")
router.register("quotas/requests", QuotaRequestViewSet, "api-quota-request")  # before the quota of that name
router.register("quotas", QuotaViewSet, "api-quota")

urlpatterns: list[URLPattern | URLResolver] = [
    path("profiles/lint/", LintView.as_view(), name="api-lint"),  # before the profile of that name
    path("claims/<uuid:claim_id>/comments/", CommentsView.as_view(), name="api-claim-comments"),
    path("claims/<uuid:claim_id>/consumers/", ConsumersView.as_view(), name="api-claim-consumers"),
    path("approvals/decide/", DecideView.as_view(), name="api-decide"),
    path("claims/bulk/", ManyView.as_view(), name="api-many"),
    path("claims/outside/", OutsideView.as_view(), name="api-outside"),
    path("claims/outside/<str:uid>/adopt/", AdoptView.as_view(), name="api-adopt"),
    *router.urls,
    path("match/", MatchView.as_view(), name="api-match"),
]
