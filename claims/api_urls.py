"""The API of `claims`, below /api/v1/."""

from django.urls import URLPattern, URLResolver, path
from rest_framework.routers import SimpleRouter

from claims.approvals.api import ApprovalRuleViewSet, DelegationViewSet, ReasonViewSet
from claims.catalogue.api import LintView, ProfileViewSet
from claims.claim_list.api import BulkActionView
from claims.claim_page.api import ClaimViewSet, ConsumersView
from claims.inbox.api import ApprovalViewSet, CommentsView, DecideView
from claims.lifecycle.api import ExtensionViewSet
from claims.quotas.api import QuotaRequestViewSet, QuotaViewSet
from claims.requests.api import MatchView
from claims.unmanaged.api import AdoptView, OutsideView

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
    path("claims/bulk/", BulkActionView.as_view(), name="api-many"),
    path("claims/outside/", OutsideView.as_view(), name="api-outside"),
    path("claims/outside/<str:uid>/adopt/", AdoptView.as_view(), name="api-adopt"),
    *router.urls,
    path("match/", MatchView.as_view(), name="api-match"),
]
