"""Which part of the help belongs to which page of the portal, by the name of its address."""

from dataclasses import dataclass

from django.http import HttpRequest

from portal.help.pages import CONTENTS, all_pages

# name of an address: page of docs/user, with the anchor of a heading if one section is about it
HELP = {
    "home": "home",
    "search": "keyboard#search",
    "help": CONTENTS,
    "help_page": CONTENTS,
    "help_terms": CONTENTS,
    "help_reference": "api",
    "help_resource": "api",
    "account_logout": "account#sign-in",
    "account_reset_password": "account#sign-in",
    # requests and claims
    "claims:request": "request",
    "claims:request_import": "request#from-a-manifest",
    "claims:request_dropped": "request#the-summary",
    "claims:request_blockers": "request#the-summary",
    "claims:drafts": "request#drafts",
    "claims:catalogue": "catalogue",
    "claims:catalogue_compare": "catalogue#compare",
    "claims:profile": "catalogue#the-page-of-a-profile",
    "claims:list": "claims",
    "claims:bulk_actions": "claims#several-claims-at-once",
    "claims:detail": "claims#the-page-of-a-claim",
    "claims:extend": "claims#extend-and-shorten",
    "claims:shorten": "claims#extend-and-shorten",
    "claims:transfer": "claims#transfer",
    "claims:release": "claims#the-end-of-a-claim",
    "claims:withdraw": "claims#the-end-of-a-claim",
    "claims:evict": "claims#the-end-of-a-claim",
    "claims:accept": "claims#drift",
    "claims:unmanaged_claims": "unmanaged",
    "claims:unmanaged_claim": "unmanaged",
    "claims:unmanaged_templates": "unmanaged",
    "claims:unmanaged_template": "unmanaged",
    "claims:adopt": "unmanaged#adopt",
    # approvals
    "claims:approvals": "approvals",
    "claims:approval": "approvals#the-card",
    "claims:extension": "approvals#the-card",
    "claims:quota_request_decision": "approvals#the-card",
    "claims:change": "approvals#decide",
    "claims:bulk_decisions": "approvals#several-at-once",
    "claims:delegations": "approvals#delegate",
    "claims:reasons": "approvals#decide",
    "claims:reason": "approvals#decide",
    "claims:reason_new": "approvals#decide",
    "claims:reason_remove": "approvals#decide",
    "claims:approval_rules": "profiles#approval-rules",
    "claims:approval_rule": "profiles#approval-rules",
    "claims:approval_rule_new": "profiles#approval-rules",
    "claims:approval_rule_remove": "profiles#approval-rules",
    # quota, cost
    "claims:quotas": "quota",
    "claims:quota": "quota#read-a-bar",
    "claims:quota_requests": "quota#request-more",
    "claims:quota_request_new": "quota#request-more",
    "usage:team": "cost#the-page-of-a-team",
    "claims:budgets": "cost#budgets",
    "claims:budget": "cost#budgets",
    "claims:budget_new": "cost#set-a-budget",
    "claims:budget_change": "cost#set-a-budget",
    "claims:budget_extra": "cost#extra-budget",
    "claims:budget_end": "cost#set-a-budget",
    "usage:report": "cost#the-report-of-the-fleet",
    "usage:close": "cost#closed-months",
    "usage:alerts": "alerts",
    "usage:reports_saved": "cost#the-report-of-the-fleet",
    "usage:report_unsubscribe": "cost#the-report-of-the-fleet",
    "teams:identity": "sign-in#identity-providers",
    "teams:provider_new": "sign-in#identity-providers",
    "teams:provider": "sign-in#identity-providers",
    "teams:provider_checks": "sign-in#test-a-provider",
    "teams:provider_remove": "sign-in#identity-providers",
    "teams:group_rules": "sign-in#group-rules",
    "teams:group_rule_new": "sign-in#group-rules",
    "teams:group_rule": "sign-in#group-rules",
    "teams:group_rule_remove": "sign-in#group-rules",
    "usage:tracking": "settings#experiment-tracking",
    "usage:tracking_new": "settings#experiment-tracking",
    "usage:tracking_edit": "settings#experiment-tracking",
    "notify:webhooks": "webhooks",
    "notify:team_webhooks": "webhooks",
    "notify:webhook_new": "webhooks#addresses",
    "notify:webhook": "webhooks#failures",
    "usage:waste": "cost#idle-claims",
    "usage:oversized": "cost#oversized-claims",
    "usage:overstay": "cost#ended-claims",
    "usage:idle_policy": "cost#idle-claims",
    "usage:waste_bulk": "cost#idle-claims",
    "usage:rates": "cost#rates",
    "usage:rate_examples": "profiles#rates",
    "usage:rate_new": "profiles#rates",
    "usage:rate_edit": "profiles#rates",
    # fleet and clusters
    "inventory:fleet": "fleet",
    "inventory:devices": "fleet",
    "inventory:device": "fleet#a-device",
    "inventory:nodes": "fleet#nodes",
    "inventory:node": "fleet#nodes",
    "inventory:clusters": "clusters",
    "inventory:cluster": "clusters#the-page-of-a-cluster",
    "claims:cluster_quotas": "clusters#quotas-in-a-cluster",
    "claims:cluster_quotas_stop": "clusters#quotas-in-a-cluster",
    "claims:policies": "clusters#admission-policies",
    "setup:cluster_add": "clusters#connect",
    "setup:cluster": "clusters#settings-of-a-cluster",
    "setup:cluster_checks": "clusters#settings-of-a-cluster",
    "setup:cluster_credentials": "clusters#settings-of-a-cluster",
    "setup:cluster_pause": "clusters#pause-and-remove",
    "setup:cluster_remove": "clusters#pause-and-remove",
    # profiles, people, settings
    "claims:profiles": "profiles",
    "claims:profile_new": "profiles#profiles",
    "claims:profile_edit": "profiles#profiles",
    "claims:profile_diff": "profiles#profiles",
    "claims:profile_retire": "profiles#profiles",
    "claims:lint": "profiles#catalogue-check",
    "claims:lint_fix": "profiles#catalogue-check",
    "claims:catalogue_import": "profiles#included-profiles-and-files",
    "claims:presets": "profiles#included-profiles-and-files",
    "team": "people#the-page-of-a-team",
    "teams:people": "people#members",
    "setup:teams": "people#teams",
    "setup:team": "people#teams",
    "setup:team_new": "people#teams",
    "setup:team_archive": "people#teams",
    "setup:people": "people#accounts",
    "setup:person": "people#accounts",
    "setup:person_admin": "people#accounts",
    "setup:person_break_glass": "people#break-glass-accounts",
    "setup:person_deactivate": "people#accounts",
    "setup:person_sign_out": "people#accounts",
    "setup:person_invite": "people#invitations",
    "setup:member_ask": "people#members",
    "setup:join": "people#invitations",
    "setup:setup": "settings#setup",
    "setup:settings": "settings",
    "teams:profile": "account",
    "teams:tokens": "api#tokens",
    "teams:sessions": "account#sessions",
    "teams:sessions-end": "account#sessions",
    "teams:provider_scim": "sign-in#scim",
    "teams:device": "api#device-login",
    "teams:account": "people#service-accounts",
    "teams:account-delete": "people#service-accounts",
    "claims:workloads": "api#pods-without-a-stored-token",
    "notify:list": "account#notices",
    "activity:team": "activity",
    "activity:platform": "activity",
    "audit:log": "activity#the-audit-log",
    "saved_filters": "claims#saved-filters",
}
SIGN_IN = ("account_", "mfa_")  # pages of allauth


@dataclass(frozen=True, slots=True)
class HelpLink:
    title: str
    url: str

    @property
    def label(self) -> str:
        return f"Help: {self.title}" if self.title != "Help" else self.title


def help_for(name: str) -> HelpLink:
    """Return the help of the page with this name; the contents for one not listed, such as an error."""
    place = HELP.get(name) or (HELP["account_reset_password"] if name.startswith(SIGN_IN) else CONTENTS)
    slug, _, anchor = place.partition("#")
    page = all_pages()[slug]
    return HelpLink(page.title, f"{page.url}#{anchor}" if anchor else page.url)


def help_of(request: HttpRequest) -> HelpLink:
    """Return the help of the page that answers a request."""
    return help_for(request.resolver_match.view_name if request.resolver_match else "")
