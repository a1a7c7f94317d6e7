"""
Who is offered which form and which link to one, on every page and in every state: one table.

An offer is known by the name of the address to which a form is sent or a link leads, without "claims:".
Nobody may do by hand what no page offers them: whoever does not see a form is refused when they send it.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from inventory import clusters
from teams.audit.actions import ACTIONS
from teams.models import AuditEntry
from tests.portal import offers
from tests.portal.every_state import PEOPLE, World, made, undone
from tests.portal.offers import Offers, Sent

EVERYBODY = frozenset(PEOPLE)
OUTSIDER, VIEWER, ASKER, MEMBER, LEAD, ADMIN = (
    frozenset({role}) for role in ("outsider", "viewer", "asker", "member", "lead", "admin")
)
TEAM = EVERYBODY - OUTSIDER
MEMBERS = TEAM - VIEWER  # of any rank
DECIDERS = MEMBERS - ASKER - MEMBER
THEIRS = DECIDERS | ASKER  # who asked, or who leads the team
OWNERS = DECIDERS - LEAD
OTHERS = EVERYBODY - ADMIN

Row = dict[str | int, frozenset[str]]
HIDDEN: Row = {404: OUTSIDER}
ADMINS_ONLY: Row = {403: OTHERS}
THEIRS_ONLY: Row = {403: TEAM - THEIRS, **HIDDEN}
FINAL: Row = {"request": MEMBERS, **HIDDEN}
LIVE: Row = {"comment": MEMBERS, **FINAL}
WAITING: Row = {"withdraw": THEIRS, "approval": DECIDERS, **LIVE}
REPLACED: Row = {"release": THEIRS, "shorten": THEIRS, "transfer": THEIRS, **LIVE}
RUNNING: Row = {"extend": THEIRS, "request replaces": THEIRS, **REPLACED}
# Of the inbox, beside every card.
INBOX: Row = {"delegations": TEAM, "reasons": DECIDERS, "approval_rules": ADMIN, "approval": DECIDERS - ADMIN}
CARD: Row = {"comment": MEMBERS, **INBOX, **HIDDEN}

CLAIMS: Row = {"request": EVERYBODY - VIEWER, "drafts": ASKER, "saved_filters": ASKER}

# Page (name of its address and what stands in it, from tests.portal.every_state) → what it offers to whom; a
# number is the status for those to whom there is no such page. "after …": what the answer offers when the
# form of that page is sent.
TABLE: dict[str, Row] = {
    "help": {"teams:tokens": EVERYBODY},
    "home": {
        "request": EVERYBODY - VIEWER,
        "request_like_last": ASKER | LEAD,  # who has requested before
        **{"extend": ASKER, "shorten": ASKER, "transfer": ASKER, "release": ASKER},
        "withdraw": LEAD,  # of their own request
        **{"lint": ADMIN, "approval": ADMIN, "remind": ADMIN},  # what waits in all teams
        # The steps of setup.
        **{"setup:cluster": ADMIN, "profiles": ADMIN, "setup:setup_hide": ADMIN, "setup:setup_skip": ADMIN},
        "setup:cluster_add": ADMIN,
    },
    # Claims
    "claims:list": CLAIMS,
    "claims:list?q=asked": {"saved_filter_new": EVERYBODY, **CLAIMS},
    "claims:detail asked": WAITING,
    "claims:detail asked_by_lead": {**WAITING, "withdraw": DECIDERS, "approval": OWNERS},
    "claims:detail questioned": WAITING,
    "claims:detail replacement": WAITING,
    "claims:detail approved": RUNNING,
    "claims:detail written": RUNNING,
    "claims:detail held": RUNNING,
    "claims:detail in_grace": {offer: who for offer, who in RUNNING.items() if offer != "shorten"},
    "claims:detail kept_alive": {"keep": THEIRS, **RUNNING},
    "claims:detail wishing": {"extension_withdraw": THEIRS, **RUNNING},
    "claims:detail replaced": REPLACED,
    "claims:detail crowded": {"extend": THEIRS, **REPLACED},
    "claims:detail remade": {"accept": ADMIN, **RUNNING},
    "claims:detail unlabeled": {"label": THEIRS, **RUNNING},
    "claims:detail releasing": LIVE,
    "claims:detail overstaying": {"evict": THEIRS, **LIVE},
    "claims:detail released": FINAL,
    "claims:detail denied": FINAL,
    "claims:detail withdrawn": FINAL,
    "claims:withdraw asked": {"withdraw": THEIRS, **THEIRS_ONLY},
    "claims:release held": {"release": THEIRS, **THEIRS_ONLY},
    "claims:evict overstaying": {"evict": THEIRS, **THEIRS_ONLY},
    "claims:extend held": {"extend": THEIRS, **THEIRS_ONLY},
    "claims:shorten held": {"shorten": THEIRS, "release": THEIRS, **THEIRS_ONLY},
    "after claims:shorten held": {"extend_undo": THEIRS, **dict.fromkeys(RUNNING, THEIRS), **THEIRS_ONLY},
    "claims:transfer held": {"transfer": THEIRS, **THEIRS_ONLY},
    # Who has handed it over may take it back, and nothing else.
    "after claims:transfer held": {
        **dict.fromkeys(RUNNING, DECIDERS),
        **{"transfer_undo": THEIRS, "comment": THEIRS, "request": THEIRS},
        **THEIRS_ONLY,
    },
    "claims:accept remade": {"accept": ADMIN, 403: TEAM - ADMIN, **HIDDEN},
    "claims:bulk_actions?claim={held}&action=release": {"bulk_actions": THEIRS},
    "claims:request?profile=train-80&team=vision&cluster=fra-1&devices=4&delivery=template&parallel=60": {
        **{"request": MEMBERS | OUTSIDER, "quota_request_new": MEMBERS},
        **{"request_import": MEMBERS | OUTSIDER, "request_like_last": MEMBERS | OUTSIDER},
        **{"drafts": ASKER, 403: VIEWER},
    },
    "claims:request_import": {"request_import": MEMBERS | OUTSIDER, 403: VIEWER},
    "after claims:request_import": {
        **{"request_import": MEMBERS | OUTSIDER, "request": MEMBERS | OUTSIDER},
        **{"profile_new": ADMIN, 403: VIEWER},
    },
    "claims:drafts": {"request": EVERYBODY - VIEWER, "draft_delete": ASKER},
    "after claims:drafts": {"request": ASKER, "draft_restore": ASKER},
    "claims:unmanaged_claims": {},
    "claims:unmanaged_claim uid-by-hand": {"adopt": ADMIN, **HIDDEN},
    "claims:adopt uid-by-hand": {"adopt": ADMIN, 403: TEAM - ADMIN, **HIDDEN},
    "claims:unmanaged_templates": {},
    "claims:unmanaged_template uid-template": HIDDEN,
    # Approvals
    # The browser requests the card of its first row; what a card offers is that of the cards below.
    "claims:approvals": {**INBOX, "delegations": EVERYBODY},
    "claims:approval asked": {
        **{"approve": DECIDERS, "deny": DECIDERS, "change": DECIDERS, "approval_impact": TEAM},
        **CARD,
    },
    "claims:approval asked_by_lead": {
        **{"approve": OWNERS, "deny": OWNERS, "change": OWNERS, "approval_impact": TEAM},
        **CARD,
    },
    "claims:approval held": {"request": ASKER, **CARD},
    "claims:change asked": {"change": DECIDERS, "approval": DECIDERS, 403: TEAM - DECIDERS, **HIDDEN},
    "claims:extension extension": {
        **{"extension_approve": DECIDERS, "extension_deny": DECIDERS},
        **INBOX,
        **HIDDEN,
    },
    "claims:quota_request_decision quota_request": {
        **{"quota_request_approve": ADMIN, "quota_request_deny": ADMIN, "quota_request_withdraw": THEIRS},
        **{"quota_request_comment": MEMBERS},
        **INBOX,
        **HIDDEN,
    },
    "claims:quota_request_decision budget_request": {
        **{"quota_request_approve": ADMIN, "quota_request_deny": ADMIN, "quota_request_withdraw": THEIRS},
        **{"quota_request_comment": MEMBERS},
        **INBOX,
        **HIDDEN,
    },
    "claims:quota_request_decision answered_quota_request": {
        "quota_request_comment": MEMBERS,
        **INBOX,
        **HIDDEN,
    },
    "claims:bulk_decisions?claim={asked}": {"bulk_decisions": DECIDERS, "approval": TEAM},
    "claims:delegations": {"delegations": DECIDERS - ADMIN, "delegation_end": LEAD | MEMBER},
    "claims:reasons": {"reason_new": DECIDERS, "reason": DECIDERS, 403: EVERYBODY - DECIDERS},
    "claims:reason_new": {"reason_new": DECIDERS, "reasons": DECIDERS, 403: EVERYBODY - DECIDERS},
    "claims:reason reason_of_team": {
        **{"reason": DECIDERS, "reason_remove": DECIDERS, "reasons": DECIDERS},
        **{403: EVERYBODY - DECIDERS},
    },
    "claims:reason reason_of_all": {
        **{"reason": ADMIN, "reason_remove": ADMIN, "reasons": ADMIN},
        **{403: EVERYBODY - DECIDERS, 404: DECIDERS - ADMIN},
    },
    "claims:reason_remove reason_of_team": {
        **{"reason_remove": DECIDERS, "reason": DECIDERS},
        **{403: EVERYBODY - DECIDERS},
    },
    "claims:approval_rules": {
        **{"approval_rule_new": ADMIN, "approval_rule": ADMIN, "profiles": ADMIN, "reasons": ADMIN},
        **ADMINS_ONLY,
    },
    "claims:approval_rule_new": {"approval_rule_new": ADMIN, "approval_rules": ADMIN, **ADMINS_ONLY},
    "claims:approval_rule rule": {
        **{"approval_rule": ADMIN, "approval_rule_remove": ADMIN, "approval_rules": ADMIN},
        **ADMINS_ONLY,
    },
    "claims:approval_rule_remove rule": {
        **{"approval_rule_remove": ADMIN, "approval_rule": ADMIN},
        **ADMINS_ONLY,
    },
    # Quotas
    "claims:quotas": {"quota_set": ADMIN, "quota_request_new": EVERYBODY - VIEWER},
    "claims:quota quota": {"quota_set": ADMIN, "quota_request_new": MEMBERS, **HIDDEN},
    "claims:quota quota_of_claims": {"quota_set": ADMIN, "quota_request_new": MEMBERS, **HIDDEN},
    "claims:quota_request_new": {"quota_request_new": EVERYBODY - VIEWER, 403: VIEWER},
    "claims:quota_requests": {"quota_request_new": EVERYBODY - VIEWER},
    # Catalogue
    "claims:catalogue": {"request": EVERYBODY - VIEWER, "profiles": ADMIN},
    "claims:profile train-80": {"request": EVERYBODY - VIEWER, "profile_edit": ADMIN},
    "claims:catalogue_compare?profile=train-80": {},
    "claims:profiles": {
        **{"profile_new": ADMIN, "profile_edit": ADMIN, "profile_retire": ADMIN, "profile_restore": ADMIN},
        **{"lint": ADMIN, "presets": ADMIN, "catalogue_import": ADMIN, "catalogue_export": ADMIN},
        **{"approval_rules": ADMIN, **ADMINS_ONLY},
    },
    "claims:profile_new": {"profile_new": ADMIN, "profile_match": ADMIN, **ADMINS_ONLY},
    "claims:profile_edit rounded": {
        **{"profile_edit": ADMIN, "profile_retire": ADMIN, "profile_match": ADMIN, "lint_fix": ADMIN},
        **ADMINS_ONLY,
    },
    "after claims:profile_edit rounded": {"profile_edit": ADMIN, **ADMINS_ONLY},
    "claims:profile_retire train-80": {"profile_retire": ADMIN, "profile_edit": ADMIN, **ADMINS_ONLY},
    "claims:catalogue_import": {
        **{"catalogue_import": ADMIN, "catalogue_export": ADMIN, "profiles": ADMIN},
        **ADMINS_ONLY,
    },
    "after claims:catalogue_import": {"catalogue_import": ADMIN, **ADMINS_ONLY},
    "claims:presets": {"presets": ADMIN, **ADMINS_ONLY},
    "claims:lint": {"lint_fix": ADMIN, "profile_edit": ADMIN, **ADMINS_ONLY},
    "claims:lint_fix rounded finding": {"lint_fix": ADMIN, "lint": ADMIN, **ADMINS_ONLY},
    # Fleet
    "inventory:fleet": {},
    "inventory:devices": {},
    "inventory:device device": {"usage:remind": DECIDERS},
    "inventory:nodes": {},
    "inventory:node fra-1 node-a": {},
    "inventory:clusters": {"setup:cluster_add": ADMIN},
    "inventory:cluster fra-1": {"cluster_quotas": ADMIN, "policies": ADMIN, "setup:cluster": ADMIN},
    "setup:cluster_add": {"setup:cluster_add": ADMIN, **ADMINS_ONLY},
    "setup:cluster fra-1": {
        **{"setup:cluster": ADMIN, "setup:cluster_telemetry": ADMIN, "setup:cluster_credentials": ADMIN},
        **{"setup:cluster_pause": ADMIN, "setup:cluster_remove": ADMIN, "cluster_quotas": ADMIN},
        **{"setup:cluster_add": ADMIN, **ADMINS_ONLY},  # from there comes the file of the permissions
    },
    "setup:cluster old-1": {
        **{"setup:cluster": ADMIN, "setup:cluster_telemetry": ADMIN, "setup:cluster_credentials": ADMIN},
        **{"setup:cluster_resume": ADMIN, "setup:cluster_remove": ADMIN, "cluster_quotas": ADMIN},
        **{"setup:cluster_add": ADMIN, **ADMINS_ONLY},
    },
    "setup:cluster_checks fra-1": ADMINS_ONLY,
    "setup:cluster_credentials fra-1": {
        **{"setup:cluster_credentials": ADMIN, "setup:cluster": ADMIN, **ADMINS_ONLY},
    },
    "setup:cluster_pause fra-1": {"setup:cluster_pause": ADMIN, "setup:cluster": ADMIN, **ADMINS_ONLY},
    "setup:cluster_remove fra-1": {"setup:cluster_pause": ADMIN, "setup:cluster": ADMIN, **ADMINS_ONLY},
    "setup:cluster_remove old-1": {"setup:cluster_remove": ADMIN, "setup:cluster": ADMIN, **ADMINS_ONLY},
    "claims:policies fra-1": ADMINS_ONLY,
    "claims:cluster_quotas fra-1": {"cluster_quotas_write": ADMIN, "policies": ADMIN, **ADMINS_ONLY},
    "claims:cluster_quotas ham-1": {
        **{"cluster_quotas_repair": ADMIN, "cluster_quotas_stop": ADMIN, "policies": ADMIN},
        **ADMINS_ONLY,
    },
    "claims:cluster_quotas_stop ham-1": {
        "cluster_quotas_stop": ADMIN,
        "cluster_quotas": ADMIN,
        **ADMINS_ONLY,
    },
    # Cost
    "usage:team vision": {"budget_new": ADMIN, "budget_extra": DECIDERS, "release": THEIRS, **HIDDEN},
    "usage:report": {"usage:report_save": DECIDERS, 403: EVERYBODY - DECIDERS},
    "usage:reports_saved": {"usage:report_change": ASKER},
    "usage:oversized": {"request replaces": MEMBERS},
    "usage:close": {"usage:close": ADMIN, **ADMINS_ONLY},
    "claims:budgets": {"budget_new": ADMIN, "budget_change": ADMIN, **ADMINS_ONLY},
    "claims:budget budget": {
        **{"budget_change": ADMIN, "budget_end": ADMIN, "budget_extra": MEMBERS, **HIDDEN},
    },
    "claims:budget_new": {"budget_new": ADMIN, **ADMINS_ONLY},
    "claims:budget_change budget": {"budget_change": ADMIN, **ADMINS_ONLY},
    "claims:budget_extra budget": {"budget_extra": MEMBERS, 403: VIEWER, **HIDDEN},
    "claims:budget_end budget": {"budget_end": ADMIN, **ADMINS_ONLY},
    "usage:waste": {
        **{"usage:snooze": THEIRS, "release": THEIRS, "usage:remind": DECIDERS},
        "usage:idle_policy": ADMIN,
    },
    "usage:waste_bulk?claim={held}&action=snooze": {"usage:waste_bulk": THEIRS},
    "usage:idle_policy": {"usage:idle_policy": ADMIN, **ADMINS_ONLY},
    "usage:tracking": {"usage:tracking_new": ADMIN, "usage:runs_link": ADMIN, **ADMINS_ONLY},
    "teams:identity": {
        **{"teams:identity_passwords": ADMIN, "teams:provider_new": ADMIN, "teams:group_rules": ADMIN},
        **{"teams:provider": ADMIN, **ADMINS_ONLY},
    },
    "teams:provider_new": {"teams:identity": ADMIN, **ADMINS_ONLY},
    "teams:group_rules": {"teams:group_rule_new": ADMIN, **ADMINS_ONLY},
    "teams:group_rule_new": {"teams:group_rule_new": ADMIN, "teams:group_rules": ADMIN, **ADMINS_ONLY},
    "usage:tracking_new": {"usage:tracking_new": ADMIN, "usage:tracking": ADMIN, **ADMINS_ONLY},
    "notify:webhooks": {"notify:webhook_new": ADMIN, **ADMINS_ONLY},
    "notify:webhook_new": {"notify:webhook_new": ADMIN, "notify:webhooks": ADMIN, **ADMINS_ONLY},
    "notify:team_webhooks vision": {"notify:webhook_new": DECIDERS, 403: TEAM - DECIDERS, **HIDDEN},
    "usage:rates": {"usage:rate_new": ADMIN, "usage:rate_edit": ADMIN},
    "usage:rate_examples": {"usage:rate_examples": ADMIN, **ADMINS_ONLY},
    "usage:rate_new": {"usage:rate_new": ADMIN, **ADMINS_ONLY},
    "usage:rate_edit old_rate": {"usage:rate_new": ADMIN, "usage:rate_retire": ADMIN, **ADMINS_ONLY},
    "usage:rate_edit coming_rate": {"usage:rate_edit": ADMIN, "usage:rate_remove": ADMIN, **ADMINS_ONLY},
    # Installation: telemetry is not set here, so Home shows the steps.
    "setup:setup": {
        **{"profiles": ADMIN, "setup:cluster": ADMIN, "setup:setup_skip": ADMIN, "setup:settings": ADMIN},
        **{"catalogue_import": ADMIN, **ADMINS_ONLY},
    },
    "setup:settings": {
        **{
            "setup:settings": ADMIN,
            "usage:tracking": ADMIN,
            "teams:identity": ADMIN,
            "notify:webhooks": ADMIN,
            "setup:test_mail": ADMIN,
            "setup:setup": ADMIN,
            "profiles": ADMIN,
            "approval_rules": ADMIN,
        },
        **{"admin:index": ADMIN, **ADMINS_ONLY},
    },
    # People
    "setup:teams": {
        **{"setup:team_new": ADMIN, "setup:team": ADMIN, "setup:invitation_resend": ADMIN},
        **{"setup:invitation_revoke": ADMIN, **ADMINS_ONLY},
    },
    "setup:team_new": {"setup:team_new": ADMIN, **ADMINS_ONLY},
    "setup:team vision": {
        **{"setup:team": ADMIN, "setup:team_namespace": ADMIN, "setup:team_archive": ADMIN},
        **{"setup:team_invite": ADMIN, "setup:invitation_revoke": ADMIN},
        **{"teams:role": ADMIN, "teams:remove": ADMIN, **ADMINS_ONLY},
    },
    "setup:team gone": {"setup:team_restore": ADMIN, **ADMINS_ONLY},
    "setup:team_archive vision": {"setup:team": ADMIN, **ADMINS_ONLY},
    "setup:team_archive quiet": {"setup:team_archive": ADMIN, "setup:team": ADMIN, **ADMINS_ONLY},
    "activity:platform": {"activity:team": ADMIN, **ADMINS_ONLY},
    "audit:log": ADMINS_ONLY,
    "activity:team vision": HIDDEN,
    "setup:people": {
        **{"setup:person_invite": ADMIN, "setup:invitation_resend": ADMIN},
        **{"setup:invitation_revoke": ADMIN, **ADMINS_ONLY},
    },
    "setup:person_invite": {"setup:person_invite": ADMIN, **ADMINS_ONLY},
    "setup:person zoe": {
        **{"setup:person_admin": ADMIN, "setup:person_deactivate": ADMIN, "setup:person_sign_out": ADMIN},
        "setup:person_break_glass": ADMIN,
        **ADMINS_ONLY,
    },
    "setup:person left": {"setup:person_reactivate": ADMIN, **ADMINS_ONLY},
    "setup:person_admin zoe": {"setup:person_admin": ADMIN, **ADMINS_ONLY},
    "setup:person_break_glass zoe": {"setup:person_break_glass": ADMIN, **ADMINS_ONLY},
    "setup:person_deactivate zoe": {"setup:person_deactivate": ADMIN, **ADMINS_ONLY},
    "setup:person_sign_out zoe": ADMINS_ONLY,  # signed in nowhere
    "team vision": {
        "budget_new": ADMIN,
        "quota_request_new": MEMBERS,
        "delegations": DECIDERS,
        "approval_rules": ADMIN,
        "notify:team_webhooks": DECIDERS,
        "setup:member_ask": LEAD,
        **HIDDEN,
    },
    "teams:people vision": {
        **{"teams:people": OWNERS, "teams:role": OWNERS, "teams:remove": OWNERS},
        **{"teams:account-new": DECIDERS, "teams:account": DECIDERS},
        **{"setup:person_invite": ADMIN, "setup:team": ADMIN, "setup:member_ask": LEAD, **HIDDEN},
    },
    "setup:member_ask vision": {"setup:member_ask": DECIDERS, **HIDDEN, 403: TEAM - DECIDERS},
    "teams:account vision account": {
        **{"teams:account": DECIDERS, "teams:account-switch": DECIDERS, "teams:account-delete": DECIDERS},
        **{"teams:account-token-rotate": DECIDERS, "teams:account-token-revoke": DECIDERS},
        **{"workloads": DECIDERS, 403: TEAM - DECIDERS, **HIDDEN},
    },
    "teams:account-delete vision account": {
        **{"teams:account-delete": DECIDERS, "teams:account": DECIDERS, 403: TEAM - DECIDERS, **HIDDEN}
    },
    "claims:workloads vision account": {
        **{"workloads": OWNERS, "workload_disallow": OWNERS},
        **{403: TEAM - DECIDERS, **HIDDEN},
    },
    "teams:device?code={code}": {"teams:device": EVERYBODY},
    "teams:profile": {
        **{"teams:profile": EVERYBODY, "teams:tokens": EVERYBODY, "notify:preferences": EVERYBODY},
        **{"account_change_password": EVERYBODY, "mfa_index": EVERYBODY, "teams:sessions": EVERYBODY},
    },
    "teams:choose": {"teams:switch": EVERYBODY},
    "saved_filters": {"saved_filter": ASKER},
    "teams:sessions": {"account_change_password": EVERYBODY},
    "teams:sessions-end": {"teams:sessions": EVERYBODY},
    "teams:tokens": {**{"teams:tokens": EVERYBODY, "teams:token-rotate": ASKER, "teams:token-revoke": ASKER}},
    "notify:list": {"notify:read": EVERYBODY},
}
BESIDE: Row = {"teams:switch": EVERYBODY, "teams:theme": EVERYBODY, "account_logout": EVERYBODY}
ROW = {"teams:remove": 0}  # whose form is sent: the last member is a viewer, who may leave
# Who may send a form that this page offers to fewer: to them another page offers it.
ELSEWHERE = {("setup:team vision", "teams:role"): OWNERS, ("setup:team vision", "teams:remove"): OWNERS}
OF_AN_EMPTY_PORTAL = {"setup/_steps.html:25"}  # presets that match: tests/portal/test_installation.py
OF_A_SERVER = {"usage/tracking_server.html:26", "usage/tracking.html:47"}  # removal: tests/usage/tracking
OF_SIGN_IN = (  # tests/teams/identity, tests/teams/test_sign_in.py, tests/keycloak
    *("account/", "socialaccount/", "teams/identity/provider_new.html"),  # tests/teams/test_account_pages.py
    *("teams/identity/provider.html", "teams/identity/provider_remove.html"),
    *("teams/identity/rule_remove.html", "teams/identity/scim.html"),
    "mfa/",  # tests/teams/test_passkeys_in_a_browser.py
    # Of who is signed in elsewhere: tests/teams/test_session_pages.py.
    *("setup/person_sign_out.html", "teams/sessions.html", "teams/sessions_end.html"),
)
OF_A_PROVIDER = {"teams/profile.html:43", "teams/profile.html:45"}  # link and unlink: tests/teams/identity
OF_AN_IDLE_CLAIM = {"home/_needs.html:9"}  # snooze: tests/portal/test_home.py
OF_A_WEBHOOK = {f"notify/webhook.html:{line}" for line in (13, 31, 42, 50)}  # tests/notify/webhooks
OF_A_SIMULATION = {"claims/claim_page/_snippets.html:32"}  # starts the pod: tests/claims/claim_page
BY_MAIL = {"usage/unsubscribe.html:10"}  # a signed link leads there: tests/usage/test_saved_reports.py
SENT_BY_SCRIPT = {"claims/_dropped_page.html:3"}  # pages through what another hx-post has brought
# Links that only lead somewhere to read.
READ_ONLY = {
    *("list", "detail", "snippet_file", "profile", "profile_diff", "catalogue", "catalogue_compare"),
    *("quotas", "quota", "quota_requests", "quota_request_decision", "extension", "approvals"),
    *("unmanaged_claims", "unmanaged_claim", "unmanaged_templates", "unmanaged_template"),
    *(
        "request_dropped",
        "request_blockers",
        "usage:team",
        "usage:team_csv",
        "usage:rates",
        "usage:report",
        "usage:reports_saved",
        "usage:oversized",
        "usage:overstay",
        "budgets",
        "budget",
        "usage:waste",
        "usage:alerts",
        "usage:right_size",
        "api-focus",
    ),
    *(
        "usage:claim_fragment",
        "usage:device",
        "activity:platform",
        "audit:log",
        "teams:people",
        "teams:profile",
        "notify:notice",
    ),
    *("inventory:fleet", "inventory:devices", "inventory:device", "inventory:nodes", "inventory:node"),
    *("inventory:cluster", "inventory:clusters", "setup:cluster_checks", "api-schema"),
    *("help", "help_page", "help_terms", "help_reference", "help_resource"),
    *("setup:person", "setup:people", "setup:teams", "team"),
}

SPEC = """
devices:
  requests:
  - name: gpu
    exactly: {{deviceClassName: gpu.nvidia.com, allocationMode: ExactCount, count: 3, adminAccess: false}}
"""
MANIFEST = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {{name: new}}
spec:
  devices:
    requests:
    - name: gpu
      exactly: {{deviceClassName: mig.nvidia.com, allocationMode: ExactCount, count: 3}}
"""
# What somebody types before they send a form; the rest goes as the page has filled it in.
SOONER = f"{timezone.now() + timedelta(hours=12):%Y-%m-%dT%H:%M}"
TYPED: dict[str, dict[str, str]] = {
    "shorten": {"until": SOONER},
    "notify:webhook_new": {"url": "https://hooks.example.org/", "kinds": "claim.denied"},
    "usage:tracking_new": {"url": "http://mlflow.example:5000"},
    "usage:runs_link": {"url": "https://wandb.ai/acme"},
    "teams:group_rule_new": {"pattern": "gpu", "team": "vision"},
    "transfer": {"to": "mia"},
    "comment": {"text": "What for?"},
    "quota_request_comment": {"text": "What for?"},
    "deny": {"note": "Too much."},
    "extension_deny": {"note": "Too long."},
    "quota_request_deny": {"note": "Too much."},
    "change": {"duration": "12h"},
    "delegations": {"to": "zoe"},
    "reason_new": {"title": "Too long", "text": "Too long."},
    "approval_rule_new": {"profile": "train-80"},
    "claims:quotas quota_set": {"team": "vision", "profile": "train-80", "devices": "50"},
    "quota_request_new": {
        "team": "vision",
        "profile": "train-80",
        "counts": "",
        "more": "2",
        "reason": "A paper.",
    },
    "request": {"devices": "1", "reason": "A paper."},
    "request_import": {"text": MANIFEST},
    "profile_new": {
        **{"slug": "new", "title": "New", "source": "yaml", "spec_yaml": SPEC, "scalable": ""},
        **{"deliveries": "claim", "max_devices": "1"},
    },
    "profile_edit": {"max_devices": "2"},
    "catalogue_import": {"text": "{catalogue_file}"},
    "presets": {"preset": "mps"},
    "adopt": {"owner": "alice", "profile": "train-80", "duration": "24h"},
    "usage:rate_new": {"title": "New", "per_hour": "2"},
    "budget_new": {"team": "vision", "hours": "20"},
    "budget_extra": {"amount": "20", "reason": "A paper."},
    "setup:cluster_add": {"name": "new-1", "server": "https://new-1", "token": "secret"},
    "setup:cluster_credentials": {"server": "https://fra-1", "token": "secret"},
    "setup:cluster_remove": {"name": "old-1"},
    "setup:team_new": {"slug": "new", "title": "New"},
    "setup:person_invite": {"email": "new@helix.example"},
    "setup:member_ask": {"person": "noah"},
    "setup:team_invite": {"emails": "new@helix.example"},
    "teams:people": {"username": "noah"},
    "teams:tokens": {"title": "Notebook"},
    "teams:account": {"title": "Nightly"},
    "teams:account-new": {"name": "new"},
    "workloads": {"service_account": "other"},
    "bulk_decisions": {"decision": "approve"},
    "saved_filter_new": {"name": "Mine"},
    "usage:report_save": {"name": "Mine too"},
}


@pytest.fixture(scope="module")
def world(django_db_setup, django_db_blocker):
    def discovered(credentials):
        return {"uid": f"uid-of-{credentials.address}", "version": "v1.37.1", "simulated": False}

    with (
        django_db_blocker.unblock(),
        offers.sources_shown(),
        pytest.MonkeyPatch.context() as patch,
        made() as found,
    ):
        patch.setattr(clusters, "_identity_and_version", discovered)
        yield found


@pytest.fixture(scope="module")
def seen(world):
    """What a page offers to a role; each is looked at once for all tests."""
    known: dict[tuple[str, str], Offers] = {}

    def look(page: str, role: str) -> Offers:
        if (page, role) not in known:
            with undone():
                known[page, role] = look_at(world, page, role)
        return known[page, role]

    return look


def look_at(world: World, page: str, role: str) -> Offers:
    client, address = world.client(role), world.address(page.removeprefix("after "))
    answer = client.get(address)
    before = offers.read(address, answer.status_code, answer.text)
    if not page.startswith("after ") or answer.status_code != 200:
        return before
    form = next(iter(before.forms.values()), [None])[0]
    if form is None:
        return Offers(200)
    answer = send(client, form, page, world, follow=True)
    found = offers.read(answer.request["PATH_INFO"], answer.status_code, answer.text)
    for name, forms in found.beside.items():  # the button of a toast
        if name not in BESIDE:
            found.forms[name] = forms
    return found


def send(client: Client, form: Sent, page: str, world: World, **how: Any) -> Any:
    name = offers.name_of(form.url)
    typed = TYPED.get(f"{page} {name}") or TYPED.get(name, {})
    fields = {field: text.format(**world.names) for field, text in typed.items()}
    return client.post(form.url, form.fields | fields, **how)


def offered(found: Offers) -> set[str | int]:
    if found.status != 200:
        return {found.status}
    return {*found.forms, *(set(found.links) - READ_ONLY)}


@pytest.mark.parametrize("page", TABLE)
def test_a_page_offers_each_role_what_the_table_says(page, seen):
    stated = {role: {offer for offer, who in TABLE[page].items() if role in who} for role in PEOPLE}
    assert {role: offered(seen(page, role)) for role in PEOPLE} == stated


@pytest.mark.security("sign-in", "looks for a page without a way to sign out")
def test_every_page_lets_its_reader_choose_team_and_theme_and_sign_out(seen):
    stated = {role: {offer for offer, who in BESIDE.items() if role in who} for role in PEOPLE}
    assert {role: set(seen("home", role).beside) for role in PEOPLE} == stated


# Forms that leave no entry in the audit log, by the reason.
UNRECORDED_BY_REASON = {
    "only its reader sees what it changes": {
        *("saved_filter", "saved_filter_new", "usage:report_save", "usage:report_change", "notify:read"),
        *("notify:preferences", "teams:switch", "setup:setup_hide", "draft_delete"),
    },
    "it stands where it was written, with its author": {"comment", "quota_request_comment"},
    "it shows first what it would do": {
        *("budget_new", "budget_change", "catalogue_import", "request_import", "setup:cluster_add"),
        *("profile_match", "teams:group_rule_new"),
    },
    "it sends a notice, or a mail to whoever asks": {"remind", "setup:test_mail"},
    "no provider is enabled, so it is refused; tests/teams/identity": {"teams:identity_passwords"},
    "it writes again what the portal has written": {"label", "cluster_quotas_repair"},
    "sent as it stands, it changes nothing": {
        *("approval_rule", "setup:cluster", "setup:cluster_telemetry", "setup:settings", "setup:team"),
        *(
            "teams:profile",
            "teams:role",
            "usage:idle_policy",
            "usage:rate_edit",
            "reason",
            "setup:team_namespace",
        ),
    },
    "of the last owner, who may not leave": {"teams:remove"},  # of others: tests/portal/test_audited.py
}
UNRECORDED = set().union(*UNRECORDED_BY_REASON.values())


PAGES = [page for page in TABLE if not page.startswith("after ")]


FORMS = [page for page in PAGES if page != "claims:approvals"]  # whose cards have rows of their own


@pytest.fixture(scope="module")
def sent() -> set[tuple[str | int, frozenset[str]]]:
    """Forms that were sent already: one that the same roles see on many pages is sent from the first."""
    return set()


@pytest.mark.parametrize("page", FORMS)
def test_a_form_does_its_work_for_who_is_offered_it_and_for_nobody_else(page, world, seen, sent):
    wrong, unrecorded, unlisted = [], [], set()
    for offer, who in TABLE[page].items():
        first = next((role for role in PEOPLE if role in who), None)
        forms = seen(page, first).forms.get(offer, [None]) if first and isinstance(offer, str) else [None]
        form = forms[ROW.get(str(offer), -1)]
        if form is None or form.by_script or (offer, who) in sent:
            continue
        sent.add((offer, who))
        may_send = who | ELSEWHERE.get((page, str(offer)), frozenset())
        for role in (first, *(role for role in PEOPLE if role not in may_send)):
            with undone():
                entries = AuditEntry.objects.count()
                status = send(world.client(role), form, page, world).status_code
                if role == first and offer not in UNRECORDED and AuditEntry.objects.count() == entries:
                    unrecorded.append(offer)
                unlisted |= {*AuditEntry.objects.exclude(action__in=ACTIONS).values_list("action", flat=True)}
            if status not in ((200, 302) if role == first else (403, 404, 409, 422)):
                wrong.append(f"{offer} as {role}: {status}")
    assert wrong == []
    assert unrecorded == []  # in the audit log
    assert unlisted == set()  # in teams/audit/actions.py


def test_every_form_of_the_templates_is_offered_to_somebody(seen):
    # For who has not signed in: tests/teams/test_sign_in.py and tests/portal/test_people_setup.py.
    # What was refused is sent again: tests/portal/test_refused_forms.py.
    found = {"setup/join.html:11", "setup/join.html:20", "error.html:9"}
    for page, row in TABLE.items():
        for role in {role for who in row.values() for role in who}:
            found |= seen(page, role).sources
    wanted = {place for place in offers.sources() if not place.startswith(OF_SIGN_IN)}
    elsewhere = OF_AN_EMPTY_PORTAL | OF_A_SERVER | OF_A_WEBHOOK | OF_A_PROVIDER | OF_AN_IDLE_CLAIM
    assert wanted - found == SENT_BY_SCRIPT | BY_MAIL | OF_A_SIMULATION | elsewhere


def test_each_page_leads_a_visitor_to_the_sign_in(world):
    visitor = Client()
    answers = {page: visitor.get(world.address(page)) for page in PAGES}
    led = {page for page, answer in answers.items() if answer.status_code == 302}
    assert led == set(PAGES)
    assert {answers[page].url.partition("?")[0] for page in led} == {"/accounts/login/"}
