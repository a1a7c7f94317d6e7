"""Pages of `claims`."""

from django.urls import URLPattern, URLResolver, path

from claims.views import (
    approvals,
    behind,
    catalogue,
    compare,
    detail,
    ending,
    endings,
    lint,
    listing,
    profile_match,
    profiles,
    quotas,
    request,
)

app_name = "claims"
urlpatterns: list[URLPattern | URLResolver] = [
    path("catalogue/", catalogue.catalogue_page, name="catalogue"),
    path("catalogue/compare/", compare.catalogue_compare, name="catalogue_compare"),
    path("catalogue/<slug:slug>/", profiles.profile, name="profile"),
    path("claims/", listing.claims, name="list"),
    path("claims/request/", request.request_form, name="request"),
    path("claims/request/preview/", request.request_preview, name="request_preview"),
    path("claims/request/dropped/<int:step>/", request.request_dropped, name="request_dropped"),
    path("claims/request/endings/", endings.request_endings, name="request_endings"),
    path("claims/<uuid:claim_id>/", detail.detail, name="detail"),
    path("claims/<uuid:claim_id>/live/", detail.detail_live, name="detail_live"),
    path("claims/<uuid:claim_id>/snippets/<slug:key>/", detail.snippet, name="snippet"),
    path("claims/<uuid:claim_id>/withdraw/", ending.withdraw, name="withdraw"),
    path("claims/<uuid:claim_id>/release/", ending.release, name="release"),
    path("claims/<uuid:claim_id>/accept/", behind.accept, name="accept"),
    path("claims/<uuid:claim_id>/label/", behind.label, name="label"),
    path("approvals/", approvals.approvals, name="approvals"),
    path("approvals/<uuid:claim_id>/", approvals.approval, name="approval"),
    path("approvals/<uuid:claim_id>/approve/", approvals.approve, name="approve"),
    path("approvals/<uuid:claim_id>/deny/", approvals.deny, name="deny"),
    path("quotas/", quotas.quotas, name="quotas"),
    path("quotas/set/", quotas.quota_set, name="quota_set"),
    path("quotas/<uuid:quota_id>/", quotas.quota, name="quota"),
    path("quotas/<uuid:quota_id>/claims/", quotas.quota_parts, name="quota_parts"),
    path("profiles/", profiles.profiles, name="profiles"),
    path("profiles/new/", profiles.profile_new, name="profile_new"),
    path("profiles/match/", profile_match.profile_match, name="profile_match"),
    path("profiles/lint/", lint.lint_page, name="lint"),
    path("profiles/<slug:slug>/lint/<slug:key>/", lint.lint_mend, name="lint_mend"),
    path("profiles/<slug:slug>/", profiles.profile_edit, name="profile_edit"),
    path("profiles/<slug:slug>/retire/", profiles.profile_retire, name="profile_retire"),
]
