"""
The actions of the audit log: stable codes for rules of a SIEM, each with what was done in words.

A code that is here never changes its meaning. docs/audit.md lists them.
"""

from __future__ import annotations

ACTIONS = {
    "admin.opened": "opened a page of Django's admin",
    "approval_rule.added": "added an approval rule",
    "approval_rule.changed": "changed an approval rule",
    "approval_rule.removed": "removed an approval rule",
    "audit.removed": "removed old entries of this log",
    "budget.added": "added a budget",
    "budget.changed": "changed a budget",
    "budget.ended": "ended a budget",
    "budget.extra_added": "added money or hours to a budget",
    "budget.requested": "requested extra budget",
    "claim.adopted": "adopted an object of a cluster as a claim",
    "claim.allocated": "a cluster allocated devices",
    "claim.approved": "approved a claim",
    "claim.changed": "wrote to the history of a claim",
    "claim.consented": "gave the first of two approvals",
    "claim.denied": "denied a claim",
    "claim.evicted": "evicted pods of a claim that is over",
    "claim.expired": "a request expired undecided",
    "claim.extended": "extended a claim",
    "claim.extension_denied": "denied an extension",
    "claim.extension_requested": "requested an extension",
    "claim.extension_withdrawn": "withdrew the request for an extension",
    "claim.failed": "a claim failed",
    "claim.provisioned": "created the object of a claim",
    "claim.released": "the object of a claim is gone",
    "claim.releasing": "began to release a claim",
    "claim.reminded": "sent a reminder",
    "claim.requested": "requested a claim",
    "claim.returned": "a request is pending again",
    "claim.shortened": "shortened a claim",
    "claim.snoozed": "snoozed an idle claim",
    "claim.transferred": "gave a claim to another owner",
    "claim.withdrawn": "withdrew a request",
    "cluster.added": "added a cluster",
    "cluster.changed": "changed a cluster",
    "cluster.credentials_replaced": "replaced the credentials of a cluster",
    "cluster.paused": "paused a cluster",
    "cluster.removed": "removed a cluster",
    "cluster.resumed": "resumed a cluster",
    "configuration.exported": "exported the configuration",
    "delegation.delegated": "delegated approvals",
    "delegation.ended": "ended a delegation",
    "device_login.allowed": "allowed a program a token",
    "device_login.denied": "denied a program a token",
    "device_login.failed": "sent a wrong code of a device login",
    "export.downloaded": "downloaded a list, a report or a file",
    "idle_policy.changed": "changed the policy for idle claims",
    "installation.changed": "changed the settings of the portal",
    "invitation.accepted": "accepted an invitation",
    "invitation.sent": "invited somebody",
    "invitation.withdrawn": "withdrew an invitation",
    "member.added": "added somebody to a team",
    "member.removed": "removed somebody from a team",
    "member.role_changed": "changed the role of a member",
    "month.closed": "closed a month",
    "password.changed": "set a new password",
    "person.admin_ended": "ended that somebody is platform admin",
    "person.admin_granted": "made somebody platform admin",
    "person.changed": "changed an account",
    "person.created": "created an account",
    "person.deactivated": "deactivated an account",
    "person.reactivated": "reactivated an account",
    "profile.added": "added a profile",
    "profile.changed": "saved a new version of a profile",
    "profile.restored": "restored a profile",
    "profile.retired": "retired a profile",
    "quota.changed": "set or changed a quota",
    "quota.removed": "removed a quota",
    "quota_request.approved": "approved a quota request",
    "quota_request.denied": "denied a quota request",
    "quota_request.requested": "requested quota",
    "quota_request.withdrawn": "withdrew a quota request",
    "rate.added": "added a rate",
    "rate.changed": "changed a rate",
    "rate.removed": "removed a rate",
    "rate.retired": "ended a rate",
    "reason.added": "saved a reason to deny requests",
    "reason.changed": "changed a saved reason",
    "reason.removed": "removed a saved reason",
    "request.refused": "tried to change what they may not",
    "second_factor.added": "added a second factor",
    "second_factor.failed": "entered a wrong code of the second factor",
    "second_factor.removed": "removed a second factor",
    "second_factor.reset": "renewed the recovery codes",
    "service_account.changed": "changed a service account, or a token of it",
    "service_account.created": "created a service account",
    "service_account.deleted": "deleted a service account",
    "session.failed": "tried to sign in, in vain",
    "session.signed_in": "signed in",
    "session.signed_out": "signed out",
    "team.archived": "archived a team",
    "team.changed": "changed a team",
    "team.created": "created a team",
    "team.restored": "restored a team",
    "token.changed": "changed an API token",
    "token.created": "created an API token",
    "token.refused": "sent a token that is not valid",
    "token.revoked": "revoked an API token",
    "tracking_server.added": "added a tracking server",
    "tracking_server.changed": "changed a tracking server",
    "tracking_server.removed": "removed a tracking server",
    "webhook.added": "added a webhook",
    "webhook.changed": "changed a webhook, its secret too",
    "webhook.removed": "removed a webhook",
}

# How the text of a change may begin with what was done; any other is "changed".
VERBS = frozenset(
    {
        *("added", "archived", "closed", "created", "deactivated", "delegated", "denied", "ended", "paused"),
        *("reactivated", "removed", "requested", "restored", "resumed", "retired", "revoked", "withdrew"),
    }
)
# name of a model → the subject of its actions, where it is another word
SUBJECTS = {
    "apitoken": "token",
    "approvalrule": "approval_rule",
    "authenticator": "second_factor",
    "closedmonth": "month",
    "idlepolicy": "idle_policy",
    "quotarequest": "quota_request",
    "reasontemplate": "reason",
    "trackingserver": "tracking_server",
    "user": "person",
}


def verb_of(change: str) -> str:
    """Return what the text of a change begins with: "added" of "added, from 1 May", else "changed"."""
    begin = change.partition(" ")[0].rstrip(":,")
    return begin if begin in VERBS else "changed"


def action_of(kind: str, change: str) -> str:
    """Return the code of a change of an object of this model, as its text begins."""
    return f"{SUBJECTS.get(kind, kind)}.{verb_of(change)}"
