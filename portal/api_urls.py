"""The API, below /api/v1/: what each package serves. Fixed addresses come before those with a parameter."""

from django.urls import URLPattern, URLResolver, path
from rest_framework.routers import SimpleRouter

from claims.approvals.api import ApprovalRuleViewSet, DelegationViewSet, ReasonViewSet
from claims.budgets.api import BudgetRequestViewSet, BudgetViewSet
from claims.catalogue.api import LintView, ProfileViewSet
from claims.catalogue.import_api import ExportView, ImportView, PresetsView
from claims.claim_list.api import BulkActionView
from claims.claim_page.api import ClaimViewSet, ConsumersView
from claims.inbox.api import (
    ApprovalViewSet,
    CommentsView,
    DecideView,
    QuotaCommentsView,
    RemindDecidersView,
)
from claims.lifecycle.api import ExtensionViewSet
from claims.quotas.api import EnforcementView, QuotaRequestViewSet, QuotaViewSet
from claims.quotas.team_api import ArchiveView, NamespacesView, NamespaceView, RestoreView
from claims.requests.api import ManifestImportView, MatchView
from claims.unmanaged.api import AdoptView, UnmanagedClaimsView
from claims.workloads.api import KubernetesLoginView, WorkloadIdentityViewSet
from core.saved_filters_api import SavedFilterViewSet
from inventory.api import DeviceClassViewSet, DeviceViewSet, NodeViewSet
from inventory.cluster_api import ClusterAdminViewSet
from notify.api import NoticeViewSet
from notify.webhooks.api import DeliveryViewSet, WebhookViewSet
from portal.activity.api import ActivityView
from portal.api_root import ApiRootView
from portal.audit.api import AuditView
from portal.setup.installation_api import SettingsView
from portal.setup.people_api import InvitationViewSet, MemberRequestView, PersonViewSet
from teams.account_api import AccountTokenViewSet, ServiceAccountViewSet
from teams.api import Me, TeamViewSet, TokenViewSet
from teams.identity.api import GroupRuleViewSet, IdentityProviderViewSet
from teams.login_api import DeviceLoginView, DeviceTokenView
from teams.members_api import MemberViewSet
from teams.scim.api import ScimView
from teams.session_api import SessionViewSet
from usage.alerts.api import AlertViewSet
from usage.api import (
    ClaimCostView,
    ClaimUsageView,
    ClosedMonthViewSet,
    CostsView,
    FocusView,
    OpenCostView,
    RateExamplesView,
    RateViewSet,
    ReconciliationView,
)
from usage.idle.api import IdlePolicyView, RemindOwnerView, SnoozeView
from usage.report_api import ReportView, SavedReportViewSet
from usage.telemetry_api import TelemetryTestView, TelemetryView
from usage.tracking.api import ClaimRunsView
from usage.tracking.server_api import RunsLinksView, TrackingServerViewSet
from usage.waste_api import IdleViewSet, OversizedViewSet, OverstayViewSet

ACCOUNTS = "teams/<slug:slug>/service-accounts"
teams_router = SimpleRouter(use_regex_path=False)
teams_router.register("teams", TeamViewSet, "api-team")
teams_router.register("teams/<slug:slug>/members", MemberViewSet, "api-member")
teams_router.register(ACCOUNTS, ServiceAccountViewSet, "api-service-account")
teams_router.register(f"{ACCOUNTS}/<slug:name>/tokens", AccountTokenViewSet, "api-account-token")
teams_router.register(f"{ACCOUNTS}/<slug:name>/workloads", WorkloadIdentityViewSet, "api-workload")
teams_router.register("tokens", TokenViewSet, "api-token")
teams_router.register("people", PersonViewSet, "api-person")
teams_router.register("invitations", InvitationViewSet, "api-invitation")
teams_router.register("identity-providers", IdentityProviderViewSet, "api-identity-provider")
teams_router.register("group-rules", GroupRuleViewSet, "api-group-rule")
teams_router.register("me/filters", SavedFilterViewSet, "api-saved-filter")
teams_router.register("me/sessions", SessionViewSet, "api-session")

notify_router = SimpleRouter(use_regex_path=False)
notify_router.register("notices", NoticeViewSet, "api-notice")
notify_router.register("webhooks", WebhookViewSet, "api-webhook")
notify_router.register("webhooks/<uuid:pk>/deliveries", DeliveryViewSet, "api-delivery")

inventory_router = SimpleRouter()
inventory_router.register("clusters", ClusterAdminViewSet, "api-cluster")
inventory_router.register("nodes", NodeViewSet, "api-node")
inventory_router.register("devices", DeviceViewSet, "api-device")
inventory_router.register("device-classes", DeviceClassViewSet, "api-device-class")

claims_router = SimpleRouter()
claims_router.register("claims", ClaimViewSet, "api-claim")
claims_router.register("extensions", ExtensionViewSet, "api-extension")
claims_router.register("approvals", ApprovalViewSet, "api-approval")
claims_router.register("approval-rules", ApprovalRuleViewSet, "api-approval-rule")
claims_router.register("approval-reasons", ReasonViewSet, "api-approval-reason")
claims_router.register("delegations", DelegationViewSet, "api-delegation")
claims_router.register("profiles", ProfileViewSet, "api-profile")
claims_router.register("quotas/requests", QuotaRequestViewSet, "api-quota-request")
claims_router.register("quotas", QuotaViewSet, "api-quota")

budgets_router = SimpleRouter(use_regex_path=False)
budgets_router.register("budgets/requests", BudgetRequestViewSet, "api-budget-request")
budgets_router.register("budgets", BudgetViewSet, "api-budget")

usage_router = SimpleRouter(use_regex_path=False)
usage_router.register("alerts", AlertViewSet, "api-alert")
usage_router.register("rates", RateViewSet, "api-rate")
usage_router.register("tracking-servers", TrackingServerViewSet, "api-tracking-server")
usage_router.register("waste/idle", IdleViewSet, "api-idle")
usage_router.register("waste/oversized", OversizedViewSet, "api-oversized")
usage_router.register("waste/overstay", OverstayViewSet, "api-overstay")
usage_router.register("costs/saved-reports", SavedReportViewSet, "api-saved-report")
usage_router.register("costs/closed-months", ClosedMonthViewSet, "api-closed-month")

urlpatterns: list[URLPattern | URLResolver] = [
    path("", ApiRootView.as_view(), name="api-root"),
    path("me/", Me.as_view(), name="api-me"),
    path("login/kubernetes/", KubernetesLoginView.as_view(), name="api-kubernetes-login"),
    path("login/device/", DeviceLoginView.as_view(), name="api-device-login"),
    path("login/device/token/", DeviceTokenView.as_view(), name="api-device-login-token"),
    *teams_router.urls,
    path("teams/<slug:slug>/member-requests/", MemberRequestView.as_view(), name="api-member-request"),
    path("teams/<slug:slug>/archive/", ArchiveView.as_view(), name="api-team-archive"),
    path("teams/<slug:slug>/restore/", RestoreView.as_view(), name="api-team-restore"),
    path("teams/<slug:slug>/namespaces/", NamespacesView.as_view(), name="api-team-namespaces"),
    path("teams/<slug:slug>/namespaces/<slug:cluster>/", NamespaceView.as_view(), name="api-team-namespace"),
    path("identity-providers/<slug:slug>/scim/", ScimView.as_view(), name="api-scim"),
    path("settings/", SettingsView.as_view(), name="api-settings"),
    *notify_router.urls,
    *inventory_router.urls,
    path("profiles/lint/", LintView.as_view(), name="api-lint"),  # before the profile of that name
    path("profiles/import/", ImportView.as_view(), name="api-catalogue-import"),
    path("profiles/export/", ExportView.as_view(), name="api-catalogue-export"),
    path("profiles/presets/", PresetsView.as_view(), name="api-presets"),
    path("claims/<uuid:pk>/snooze/", SnoozeView.as_view(), name="api-claim-snooze"),
    path("claims/<uuid:pk>/remind/", RemindOwnerView.as_view(), name="api-claim-remind"),
    path("claims/<uuid:pk>/comments/", CommentsView.as_view(), name="api-claim-comments"),
    path("claims/<uuid:pk>/consumers/", ConsumersView.as_view(), name="api-claim-consumers"),
    path("approvals/<uuid:pk>/remind/", RemindDecidersView.as_view(), name="api-approval-remind"),
    path(
        "quotas/requests/<uuid:pk>/comments/",
        QuotaCommentsView.as_view(),
        name="api-quota-request-comments",
    ),
    path("approvals/decide/", DecideView.as_view(), name="api-decide"),
    path("claims/bulk/", BulkActionView.as_view(), name="api-bulk"),
    path("claims/import/", ManifestImportView.as_view(), name="api-import"),
    path("claims/unmanaged/", UnmanagedClaimsView.as_view(), name="api-unmanaged"),
    path("claims/unmanaged/<str:uid>/adopt/", AdoptView.as_view(), name="api-adopt"),
    *claims_router.urls,
    *budgets_router.urls,
    path("activity/", ActivityView.as_view(), name="api-activity"),
    path("audit/", AuditView.as_view(), name="api-audit"),
    path("match/", MatchView.as_view(), name="api-match"),
    path("claims/<uuid:pk>/usage/", ClaimUsageView.as_view(), name="api-claim-usage"),
    path("claims/<uuid:pk>/cost/", ClaimCostView.as_view(), name="api-claim-cost"),
    path("claims/<uuid:pk>/runs/", ClaimRunsView.as_view(), name="api-claim-runs"),
    path("clusters/<slug:name>/quotas/", EnforcementView.as_view(), name="api-cluster-quotas"),
    path("clusters/<slug:name>/telemetry/", TelemetryView.as_view(), name="api-telemetry"),
    path("clusters/<slug:name>/telemetry/test/", TelemetryTestView.as_view(), name="api-telemetry-test"),
    path("costs/", CostsView.as_view(), name="api-costs"),
    path("costs/reconciliation/", ReconciliationView.as_view(), name="api-reconciliation"),
    path("costs/report/", ReportView.as_view(), name="api-report"),
    path("costs/focus/", FocusView.as_view(), name="api-focus"),
    path("costs/allocation/", OpenCostView.as_view(), name="api-opencost"),
    path("rates/examples/", RateExamplesView.as_view(), name="api-rate-examples"),
    path("waste/policy/", IdlePolicyView.as_view(), name="api-idle-policy"),
    path("tracking-servers/runs-links/", RunsLinksView.as_view(), name="api-runs-links"),
    *usage_router.urls,
]
