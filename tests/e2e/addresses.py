"""
Every address of the portal: who visits it in the browser and how they get there, or why nobody does.

A page is named as in the URL conf. `Way(start, link, then)` follows the link of that name on the page `start`
and goes on to `then`: below where it leads, or, with a slash first, to an address in which {id} is the id of
what the link leads to. A text is the address itself.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

ASKED = "profile=train-80g&cluster=fra-1&devices=2"


@dataclass(frozen=True, slots=True)
class Way:
    start: str
    link: str | re.Pattern[str]
    then: str = ""


MINE = Way("/claims/?q=sam2-finetune", "sam2-finetune")
INBOX = "/approvals/?q="


# person: [(name of the address, address or way)]
PAGES: dict[str, list[tuple[str, str | Way]]] = {
    "engineer": [
        ("home", "/"),
        ("search", "/search/?q=mira"),
        ("help", "/help/"),
        ("help_terms", "/help/terms/"),
        ("help_page", "/help/claims/"),
        ("help_reference", "/help/reference/"),
        ("help_resource", "/help/reference/claims/"),
        ("claims:catalogue", "/catalogue/"),
        ("claims:profile", "/catalogue/train-80g/"),
        ("claims:list", "/claims/"),
        ("claims:request", f"/claims/request/?{ASKED}"),
        (
            "claims:request",
            "/claims/request/?profile=train-48g&together=train-80g&together_devices=2&colour=red",
        ),
        ("claims:request_import", "/claims/request/import/"),
        ("claims:catalogue_compare", "/catalogue/compare/?profile=train-80g&profile=notebook-24g"),
        ("claims:drafts", "/claims/drafts/"),
        ("claims:detail", MINE),
        ("claims:shorten", Way(MINE.start, MINE.link, "shorten/")),
        ("claims:transfer", Way(MINE.start, MINE.link, "transfer/")),
        ("claims:release", Way(MINE.start, MINE.link, "release/")),
        ("claims:evict", Way(MINE.start, MINE.link, "evict/")),
        ("claims:unmanaged_claims", "/claims/unmanaged/"),
        ("claims:unmanaged_claim", Way("/claims/unmanaged/", "jonas-scratch")),
        ("claims:unmanaged_templates", "/claims/unmanaged/templates/"),
        ("notify:list", "/me/notices/"),
        ("teams:profile", "/me/"),
        ("claims:quotas", "/quotas/"),
        ("inventory:fleet", "/fleet/"),
        ("inventory:devices", "/devices/"),
        ("usage:rates", "/rates/"),
        ("usage:team", "/teams/vision/cost/"),
        ("team", "/teams/vision/"),
        ("teams:people", "/teams/vision/people/"),
        ("activity:team", "/teams/vision/activity/"),
        ("teams:tokens", "/me/tokens/"),
        ("saved_filters", "/me/filters/"),
    ],
    "lead": [
        ("home", "/"),
        ("claims:approvals", "/approvals/"),
        ("claims:approval", Way(f"{INBOX}occ-pretrain", re.compile("occ-pretrain"))),
        ("claims:change", Way(f"{INBOX}occ-pretrain", re.compile("occ-pretrain"), "change/")),
        ("claims:extension", Way(f"{INBOX}sam2-finetune", re.compile("sam2-finetune"))),
        (
            "claims:bulk_decisions",
            Way(f"{INBOX}occ-pretrain", re.compile("occ-pretrain"), "/approvals/bulk/?claim={id}"),
        ),
        ("claims:delegations", "/approvals/delegations/"),
        ("claims:reasons", "/approvals/reasons/"),
        ("claims:reason_new", "/approvals/reasons/new/"),
        ("claims:quotas", "/quotas/"),
        ("claims:quota_request_new", "/quotas/requests/new/"),
        ("claims:quota_requests", "/quotas/requests/"),
    ],
    "admin": [
        ("home", "/"),
        ("inventory:fleet", "/fleet/"),
        ("inventory:clusters", "/clusters/"),
        ("inventory:cluster", "/clusters/lab-2/"),
        ("claims:cluster_quotas", "/clusters/lab-2/quotas/"),
        ("claims:cluster_quotas_stop", "/clusters/lab-2/quotas/stop/"),
        ("claims:policies", "/clusters/lab-2/policies/"),
        ("setup:cluster_add", "/setup/cluster/"),
        ("setup:setup", "/setup/"),
        ("setup:settings", "/settings/"),
        ("setup:cluster", "/clusters/lab-2/settings/"),
        ("setup:cluster_checks", "/clusters/lab-2/settings/checks/"),
        ("setup:cluster_credentials", "/clusters/lab-2/credentials/"),
        ("setup:cluster_pause", "/clusters/lab-2/pause/"),
        ("setup:cluster_remove", "/clusters/lab-2/remove/"),
        ("inventory:nodes", "/nodes/"),
        ("inventory:node", Way("/nodes/", re.compile("^fra1-"))),
        ("inventory:devices", "/devices/"),
        ("inventory:device", Way("/devices/?q=gpu-1", re.compile("^gpu-1"))),
        ("setup:teams", "/teams/"),
        ("setup:team_new", "/setup/team/"),
        ("setup:team", "/teams/vision/settings/"),
        ("setup:team_archive", "/teams/vision/archive/"),
        ("setup:people", "/people/"),
        ("activity:platform", "/activity/"),
        ("setup:person_invite", "/people/invite/?team=vision"),
        ("setup:person", Way("/people/?q=engineer", "engineer")),
        ("setup:person_admin", Way("/people/?q=engineer", "engineer", "admin/")),
        ("setup:person_deactivate", Way("/people/?q=engineer", "engineer", "deactivate/")),
        ("claims:adopt", Way("/claims/unmanaged/", "jonas-scratch", "adopt/")),
        ("claims:profiles", "/profiles/"),
        ("claims:profile_new", "/profiles/new/"),
        ("claims:profile_edit", "/profiles/train-80g/"),
        ("claims:profile_diff", "/profiles/train-80g/versions/1/diff/2/"),
        ("claims:profile_retire", "/profiles/train-80g/retire/"),
        ("claims:approval_rules", "/approvals/rules/"),
        ("claims:approval_rule_new", "/approvals/rules/new/"),
        ("claims:lint", "/profiles/lint/"),
        ("claims:lint_fix", Way("/profiles/lint/", re.compile("^Show the fix"))),
        ("claims:catalogue_import", "/profiles/import/"),
        ("claims:presets", "/profiles/presets/"),
        ("usage:report", "/report/"),
        ("usage:close", "/report/close/"),
        ("claims:budgets", "/budgets/"),
        ("claims:budget", Way("/budgets/", "vision")),
        ("claims:budget_new", "/budgets/new/"),
        ("claims:budget_change", Way("/budgets/", "vision", "change/")),
        ("claims:budget_extra", Way("/budgets/", "vision", "extra/")),
        ("claims:budget_end", Way("/budgets/", "vision", "end/")),
        ("usage:rates", "/rates/"),
        ("usage:rate_examples", "/rates/examples/"),
        ("usage:rate_new", "/rates/new/"),
    ],
}

POST_ONLY = {
    "claims:approve",
    "claims:deny",
    "claims:extension_approve",
    "claims:extension_deny",
    "claims:extension_withdraw",
    "claims:quota_request_approve",
    "claims:quota_request_deny",
    "claims:quota_request_withdraw",
    "claims:quota_request_comment",
    "claims:quota_set",
    "claims:delegation_end",
    "claims:label",
    "claims:cluster_quotas_write",
    "claims:cluster_quotas_repair",
    "claims:draft_save",
    "claims:draft_delete",
    "claims:draft_restore",
    "claims:extend_undo",
    "claims:transfer_undo",
    "claims:profile_match",
    "claims:profile_restore",
    "claims:comment",
    "notify:preferences",
    "notify:read",
    "setup:cluster_telemetry",
    "setup:cluster_resume",
    "setup:setup_hide",
    "setup:test_mail",
    "setup:team_namespace",
    "setup:team_restore",
    "setup:person_reactivate",
    "setup:invitation_resend",
    "setup:invitation_revoke",
    "teams:role",
    "teams:remove",
    "teams:theme",
    "teams:switch",
    "teams:token-revoke",
    "usage:rate_remove",
    "usage:rate_retire",
}
PART_OF_ANOTHER_PAGE = {
    "home_live": "home fetches it again",
    "claims:approval_impact": "what a decision changes, on its card in the inbox",
    "claims:detail_live": "the page of a claim fetches it again",
    "claims:request_further": "the rows of further profiles of the request form",
    "claims:request_preview": "the panel of the request form",
    "claims:snippet": "a tab on the page of a claim",
    "claims:snippet_options": "the options of that tab",
    "claims:quota_parts": "opens below a row of the quotas",
    "usage:claim_fragment": "the utilization on the page of a claim",
    "teams:choose": "the teams in the menu of a platform admin, who may have hundreds",
    "notify:bell": "the number in the frame of every page",
    "inventory:freshness": "the ages of the clusters in the frame of every page",
}
NO_PAGE = {
    "claims:catalogue_export": "a file",
    "claims:snippet_file": "a file",
    "claims:request_like_last": "leads on to the request form",
    "usage:team_csv": "a file",
    "saved_filter": "renames, deletes and chooses saved filters",
    "saved_filter_new": "saves the filters of a list",
    "setup:logo": "a picture, which only some installations have",
    "notify:notice": "leads on to what the notice is about",
    "api-schema": "for programs",
}
OF_A_CLAIM = "its page without a browser: tests/claims/lifecycle; as a dialog: tests/e2e/test_lifecycle.py"
WITHOUT_AXE = {  # what shows such a page instead
    "account_reset_password": "tests/teams/test_sign_in.py",
    "claims:accept": "tests/claims/observation",
    "claims:approval_rule": "tests/claims/approvals",
    "claims:approval_rule_remove": "tests/claims/approvals",
    "claims:extend": OF_A_CLAIM,
    "claims:bulk_actions": "tests/claims/lifecycle, tests/e2e/test_unmanaged.py",
    "claims:unmanaged_template": "tests/claims/observation",
    "claims:quota": "tests/claims/quotas",
    "claims:quota_request_decision": "tests/claims/approvals, tests/e2e/test_quota.py",
    "claims:reason": "tests/claims/approvals",
    "claims:reason_remove": "tests/claims/approvals",
    "claims:request_dropped": "tests/claims/requests, tests/e2e/test_funnel.py",
    "claims:request_blockers": "tests/claims/requests",
    "claims:withdraw": OF_A_CLAIM,
    "setup:join": "tests/portal/test_people_setup.py",
    "usage:rate_edit": "tests/usage",
}
