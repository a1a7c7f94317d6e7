"""GET /api/v1/: the resources of the API that its reader may use."""

from dataclasses import dataclass
from typing import Any

from django.urls import reverse
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.generics import GenericAPIView
from rest_framework.request import Request
from rest_framework.response import Response

from core.inputs import MAX_ROWS, Rows, page_of
from teams.access import has_role, is_platform_admin, user_of
from teams.models import Role


@dataclass(frozen=True, slots=True)
class ApiResource:
    """Something to read without a parameter in its path; `view` is the name of its address."""

    name: str
    view: str
    description: str
    for_admins: bool = False
    for_leads: bool = False  # and platform admins


RESOURCES = (
    ApiResource("me", "api-me", "Who you are, with your role in each team."),
    ApiResource("teams", "api-team-list", "Your teams."),
    ApiResource("people", "api-person-list", "Everybody with an account.", for_admins=True),
    ApiResource("invitations", "api-invitation-list", "Invitations that are open.", for_admins=True),
    ApiResource(
        "identity-providers",
        "api-identity-provider-list",
        "OpenID Connect providers through which people sign in.",
        for_admins=True,
    ),
    ApiResource(
        "group-rules",
        "api-group-rule-list",
        "What members of groups of a provider are given.",
        for_admins=True,
    ),
    ApiResource("settings", "api-settings", "Settings of the installation.", for_admins=True),
    ApiResource("me/filters", "api-saved-filter-list", "Filters of lists that you have saved."),
    ApiResource("me/sessions", "api-session-list", "Where you are signed in with a browser."),
    ApiResource("tokens", "api-token-list", "Your API tokens, without their text."),
    ApiResource("notices", "api-notice-list", "Your notices, newest first."),
    ApiResource("notices/preferences", "api-notice-preferences", "Which notices you want, and where."),
    ApiResource("webhooks", "api-webhook-list", "Where events of the teams that you lead are sent."),
    ApiResource(
        "profiles", "api-profile-list", "The catalogue: what may be requested, free devices and price."
    ),
    ApiResource("match", "api-match", "Preview of a request: match, quota, price and who approves."),
    ApiResource("claims", "api-claim-list", "Claims of your teams; request devices here."),
    ApiResource(
        "claims/unmanaged", "api-unmanaged", "ResourceClaims of your teams that no claim of the portal owns."
    ),
    ApiResource("extensions", "api-extension-list", "Extension requests that wait for a decision."),
    ApiResource(
        "approvals", "api-approval-list", "The inbox: requests that wait for you, and past decisions."
    ),
    ApiResource("approval-reasons", "api-approval-reason-list", "Saved reasons to deny a request."),
    ApiResource(
        "approval-rules", "api-approval-rule-list", "Who decides on which requests.", for_admins=True
    ),
    ApiResource("delegations", "api-delegation-list", "Delegations that you gave or received."),
    ApiResource("quotas", "api-quota-list", "Quotas of your teams with what is held and reserved."),
    ApiResource("quotas/requests", "api-quota-request-list", "Quota requests of your teams."),
    ApiResource(
        "budgets", "api-budget-list", "Budgets of your teams with what is used and when they run out."
    ),
    ApiResource("budgets/past", "api-budget-past", "Monthly budgets of a past month, with what was used."),
    ApiResource("budgets/requests", "api-budget-request-list", "Requests for extra budget of your teams."),
    ApiResource("alerts", "api-alert-list", "Conditions of your claims and teams that need attention."),
    ApiResource("activity", "api-activity", "Who did what in your teams, newest first."),
    ApiResource(
        "audit", "api-audit", "The audit log: who did what, from which address and token.", for_admins=True
    ),
    ApiResource("costs", "api-costs", "GPU-hours and cost of a team in a month."),
    ApiResource(
        "costs/report",
        "api-report",
        "GPU-hours and money of the fleet, or of the teams that you lead.",
        for_leads=True,
    ),
    ApiResource(
        "costs/reconciliation",
        "api-reconciliation",
        "Where all GPU-hours of the fleet went in a month.",
        for_admins=True,
    ),
    ApiResource(
        "costs/focus",
        "api-focus",
        "The cost of a month as CSV or Parquet in the format of FOCUS 1.2.",
        for_admins=True,
    ),
    ApiResource(
        "costs/allocation",
        "api-opencost",
        "Costs in the shape of OpenCost's /allocation/compute.",
        for_admins=True,
    ),
    ApiResource("costs/saved-reports", "api-saved-report-list", "Reports that you saved."),
    ApiResource(
        "costs/closed-months",
        "api-closed-month-list",
        "Months whose figures do not change any more.",
        for_admins=True,
    ),
    ApiResource("waste/idle", "api-idle-list", "Idle claims of your teams, with what they cost."),
    ApiResource(
        "waste/oversized", "api-oversized-list", "Claims for which a cheaper profile would have been enough."
    ),
    ApiResource(
        "waste/overstay", "api-overstay-list", "Claims that have ended and whose pods still hold devices."
    ),
    ApiResource("waste/policy", "api-idle-policy", "What is done about idle claims."),
    ApiResource(
        "tracking-servers",
        "api-tracking-server-list",
        "Servers of MLflow whose runs are shown.",
        for_admins=True,
    ),
    ApiResource(
        "tracking-servers/runs-links",
        "api-runs-links",
        "Links from claims to their runs of Weights & Biases.",
        for_admins=True,
    ),
    ApiResource("rates", "api-rate-list", "Prices of devices per hour."),
    ApiResource("clusters", "api-cluster-list", "Clusters with the age of their data."),
    ApiResource("nodes", "api-node-list", "Nodes with their numbers of devices."),
    ApiResource("devices", "api-device-list", "Devices of all clusters with their state and holder."),
    ApiResource("device-classes", "api-device-class-list", "DeviceClasses of all clusters."),
    ApiResource("profiles/export", "api-catalogue-export", "The catalogue as a file.", for_admins=True),
    ApiResource(
        "profiles/presets", "api-presets", "Profiles that are included with Dragoman.", for_admins=True
    ),
    ApiResource("profiles/lint", "api-lint", "Findings of the catalogue check.", for_admins=True),
    ApiResource("schema", "api-schema", "The description of the API (OpenAPI)."),
)


class ApiResourceOut(serializers.Serializer[ApiResource]):
    name = serializers.CharField()
    url = serializers.URLField()
    description = serializers.CharField(help_text="One sentence.")


class ApiRootView(GenericAPIView[Any]):
    """The resources that you may use, with their addresses."""

    pagination_class = type("AllResources", (Rows,), {"page_size": MAX_ROWS})

    @extend_schema(tags=["resources"], responses=ApiResourceOut(many=True))
    def get(self, request: Request) -> Response:
        is_admin = is_platform_admin(user_of(request))
        leads = is_admin or has_role(user_of(request), at_least=Role.LEAD)
        found = [
            {
                "name": resource.name,
                "url": request.build_absolute_uri(reverse(resource.view)),
                "description": resource.description,
            }
            for resource in RESOURCES
            if (is_admin or not resource.for_admins) and (leads or not resource.for_leads)
        ]
        return page_of(self, found, ApiResourceOut)
