"""The API of `usage`, below /api/v1/."""

from django.urls import URLPattern, URLResolver, include, path
from rest_framework.routers import SimpleRouter

from usage.api import ClaimCost, ClaimUsage, Costs, RateViewSet

router = SimpleRouter(use_regex_path=False)
router.register("rates", RateViewSet, basename="api-rate")

urlpatterns: list[URLPattern | URLResolver] = [
    path("claims/<uuid:claim_id>/usage/", ClaimUsage.as_view(), name="api-claim-usage"),
    path("claims/<uuid:claim_id>/cost/", ClaimCost.as_view(), name="api-claim-cost"),
    path("costs/", Costs.as_view(), name="api-costs"),
    path("", include(router.urls)),
]
