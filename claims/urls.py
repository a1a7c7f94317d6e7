"""Pages of `claims`."""

from django.urls import URLPattern, URLResolver, path

from claims.approvals import views as approvals_views
from claims.budgets import views as budget_views
from claims.catalogue import admin_views, profile_views
from claims.catalogue import views as catalogue_views
from claims.claim_list import views as claim_list_views
from claims.claim_page import views as claim_page_views
from claims.inbox import change_views
from claims.inbox import views as inbox_views
from claims.lifecycle import views as lifecycle_views
from claims.quotas import cluster_views
from claims.quotas import views as quotas_views
from claims.requests import draft_views
from claims.requests import views as requests_views
from claims.unmanaged import views as unmanaged_views
from claims.workloads import views as workloads_views

app_name = "claims"
urlpatterns: list[URLPattern | URLResolver] = [
    path("catalogue/", catalogue_views.catalogue_page, name="catalogue"),
    path("catalogue/compare/", catalogue_views.catalogue_compare, name="catalogue_compare"),
    path("catalogue/<slug:slug>/", profile_views.profile, name="profile"),
    path("claims/", claim_list_views.claim_list, name="list"),
    path("claims/request/", requests_views.request_form, name="request"),
    path("claims/drafts/", draft_views.drafts, name="drafts"),
    path("claims/drafts/save/", draft_views.draft_save, name="draft_save"),
    path("claims/drafts/restore/", draft_views.draft_restore, name="draft_restore"),
    path("claims/drafts/<uuid:draft_id>/delete/", draft_views.draft_delete, name="draft_delete"),
    path("claims/request/last/", requests_views.request_like_last, name="request_like_last"),
    path("claims/request/import/", requests_views.request_import, name="request_import"),
    path("claims/request/further/", requests_views.request_further, name="request_further"),
    path("claims/request/preview/", requests_views.request_preview, name="request_preview"),
    path("claims/request/dropped/<int:step>/", requests_views.request_dropped, name="request_dropped"),
    path("claims/request/blockers/", requests_views.request_blockers, name="request_blockers"),
    path("claims/bulk/", claim_list_views.bulk_actions, name="bulk_actions"),
    path("claims/unmanaged/", unmanaged_views.claims, name="unmanaged_claims"),
    path("claims/unmanaged/templates/", unmanaged_views.templates, name="unmanaged_templates"),
    path("claims/unmanaged/templates/<str:uid>/", unmanaged_views.template, name="unmanaged_template"),
    path("claims/unmanaged/<str:uid>/", unmanaged_views.claim, name="unmanaged_claim"),
    path("claims/unmanaged/<str:uid>/adopt/", unmanaged_views.adopt, name="adopt"),
    path(
        "teams/<slug:slug>/service-accounts/<uuid:account_id>/pods/",
        workloads_views.workloads,
        name="workloads",
    ),
    path(
        "teams/<slug:slug>/service-accounts/<uuid:account_id>/pods/<uuid:identity_id>/remove",
        workloads_views.disallow,
        name="workload_disallow",
    ),
    path("claims/<uuid:claim_id>/", claim_page_views.detail, name="detail"),
    path("claims/<uuid:claim_id>/live/", claim_page_views.detail_live, name="detail_live"),
    path("claims/<uuid:claim_id>/snippets/", claim_page_views.options, name="snippet_options"),
    path("claims/<uuid:claim_id>/snippets/<slug:key>/", claim_page_views.snippet, name="snippet"),
    path(
        "claims/<uuid:claim_id>/snippets/<slug:key>/file/", claim_page_views.snippet_file, name="snippet_file"
    ),
    path("claims/<uuid:claim_id>/start/", claim_page_views.start_pod, name="start_pod"),
    path("claims/<uuid:claim_id>/withdraw/", lifecycle_views.withdraw, name="withdraw"),
    path("claims/<uuid:claim_id>/release/", lifecycle_views.release, name="release"),
    path("claims/<uuid:claim_id>/extend/", lifecycle_views.extend, name="extend"),
    path("claims/<uuid:claim_id>/extend/undo/", lifecycle_views.extend_undo, name="extend_undo"),
    path("claims/<uuid:claim_id>/evict/", lifecycle_views.evict, name="evict"),
    path("claims/<uuid:claim_id>/shorten/", lifecycle_views.shorten, name="shorten"),
    path("claims/<uuid:claim_id>/transfer/", lifecycle_views.transfer, name="transfer"),
    path("claims/<uuid:claim_id>/transfer/undo/", lifecycle_views.transfer_undo, name="transfer_undo"),
    path(
        "extensions/<uuid:extension_id>/withdraw/",
        lifecycle_views.extension_withdraw,
        name="extension_withdraw",
    ),
    path("claims/<uuid:claim_id>/keep/", lifecycle_views.keep, name="keep"),
    path("claims/<uuid:claim_id>/accept/", claim_page_views.accept, name="accept"),
    path("claims/<uuid:claim_id>/label/", claim_page_views.label, name="label"),
    path("approvals/", inbox_views.approvals, name="approvals"),
    path("approvals/bulk/", change_views.bulk_decisions, name="bulk_decisions"),
    path("approvals/delegations/", approvals_views.delegations, name="delegations"),
    path(
        "approvals/delegations/<uuid:delegation_id>/end/",
        approvals_views.delegation_end,
        name="delegation_end",
    ),
    path("approvals/reasons/", approvals_views.reasons, name="reasons"),
    path("approvals/reasons/new/", approvals_views.reason, name="reason_new"),
    path("approvals/reasons/<int:reason_id>/", approvals_views.reason, name="reason"),
    path("approvals/reasons/<int:reason_id>/remove/", approvals_views.reason_remove, name="reason_remove"),
    path("approvals/rules/", approvals_views.approval_rules, name="approval_rules"),
    path("approvals/rules/new/", approvals_views.approval_rule, name="approval_rule_new"),
    path("approvals/rules/<uuid:rule_id>/", approvals_views.approval_rule, name="approval_rule"),
    path(
        "approvals/rules/<uuid:rule_id>/remove/",
        approvals_views.approval_rule_remove,
        name="approval_rule_remove",
    ),
    path("approvals/extensions/<uuid:extension_id>/", inbox_views.extension, name="extension"),
    path(
        "approvals/extensions/<uuid:extension_id>/approve/",
        inbox_views.extension_approve,
        name="extension_approve",
    ),
    path("approvals/extensions/<uuid:extension_id>/deny/", inbox_views.extension_deny, name="extension_deny"),
    path("approvals/quota/<uuid:request_id>/", inbox_views.quota_request, name="quota_request_decision"),
    path(
        "approvals/quota/<uuid:request_id>/approve/",
        inbox_views.quota_request_approve,
        name="quota_request_approve",
    ),
    path(
        "approvals/quota/<uuid:request_id>/deny/", inbox_views.quota_request_deny, name="quota_request_deny"
    ),
    path(
        "approvals/quota/<uuid:request_id>/comment/",
        inbox_views.quota_request_comment,
        name="quota_request_comment",
    ),
    path("claims/<uuid:claim_id>/comments/", inbox_views.comment, name="comment"),
    path("approvals/<uuid:request_id>/remind/", inbox_views.remind, name="remind"),
    path("approvals/<uuid:claim_id>/change/", change_views.change, name="change"),
    path("approvals/<uuid:claim_id>/", inbox_views.approval, name="approval"),
    path("approvals/<uuid:claim_id>/impact/", inbox_views.approval_impact, name="approval_impact"),
    path("approvals/<uuid:claim_id>/approve/", inbox_views.approve, name="approve"),
    path("approvals/<uuid:claim_id>/deny/", inbox_views.deny, name="deny"),
    path("quotas/", quotas_views.quotas, name="quotas"),
    path("quotas/set/", quotas_views.quota_set, name="quota_set"),
    path("quotas/requests/new/", quotas_views.quota_request_new, name="quota_request_new"),
    path("quotas/requests/", quotas_views.quota_requests, name="quota_requests"),
    path(
        "quotas/requests/<uuid:request_id>/withdraw/",
        quotas_views.quota_request_withdraw,
        name="quota_request_withdraw",
    ),
    path("clusters/<slug:name>/policies/", cluster_views.policies, name="policies"),
    path("clusters/<slug:name>/quotas/", cluster_views.cluster_quotas, name="cluster_quotas"),
    path(
        "clusters/<slug:name>/quotas/write/", cluster_views.cluster_quotas_write, name="cluster_quotas_write"
    ),
    path("clusters/<slug:name>/quotas/stop/", cluster_views.cluster_quotas_stop, name="cluster_quotas_stop"),
    path(
        "clusters/<slug:name>/quotas/repair/",
        cluster_views.cluster_quotas_repair,
        name="cluster_quotas_repair",
    ),
    path("quotas/<uuid:quota_id>/", quotas_views.quota, name="quota"),
    path("quotas/<uuid:quota_id>/claims/", quotas_views.quota_parts, name="quota_parts"),
    path("budgets/", budget_views.budgets, name="budgets"),
    path("budgets/new/", budget_views.budget_new, name="budget_new"),
    path("budgets/<uuid:budget_id>/", budget_views.budget, name="budget"),
    path("budgets/<uuid:budget_id>/change/", budget_views.budget_change, name="budget_change"),
    path("budgets/<uuid:budget_id>/extra/", budget_views.budget_extra, name="budget_extra"),
    path("budgets/<uuid:budget_id>/end/", budget_views.budget_end, name="budget_end"),
    path("profiles/", profile_views.profiles, name="profiles"),
    path("profiles/new/", profile_views.profile_new, name="profile_new"),
    path("profiles/export/", admin_views.catalogue_export, name="catalogue_export"),
    path("profiles/import/", admin_views.catalogue_import, name="catalogue_import"),
    path("profiles/presets/", admin_views.presets_page, name="presets"),
    path("profiles/match/", profile_views.profile_match, name="profile_match"),
    path("profiles/lint/", admin_views.lint_page, name="lint"),
    path("profiles/<slug:slug>/lint/<slug:key>/", admin_views.lint_fix, name="lint_fix"),
    path("profiles/<slug:slug>/", profile_views.profile_edit, name="profile_edit"),
    path("profiles/<slug:slug>/retire/", profile_views.profile_retire, name="profile_retire"),
    path("profiles/<slug:slug>/restore/", profile_views.profile_restore, name="profile_restore"),
    path(
        "profiles/<slug:slug>/versions/<int:before>/diff/<int:after>/",
        profile_views.profile_diff,
        name="profile_diff",
    ),
]
