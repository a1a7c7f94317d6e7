"""
Everything that people may do with claims, profiles and quotas. Pages and API call these and nothing below
them.

Each takes the person as `by`, refuses with a `PortalError` whose message is a sentence, and is one
transaction.
"""

from claims.services.adopt import adopt
from claims.services.approval_rules import remove_rule, save_rule
from claims.services.catalogue import add_profiles, import_profiles, plan_import
from claims.services.change import approve_with_changes
from claims.services.comments import comment_on_claim, comment_on_quota_request
from claims.services.decide import approve, deny
from claims.services.delegations import delegate, end_delegation
from claims.services.drafts import delete_draft, save_draft
from claims.services.end import release, withdraw
from claims.services.extend import approve_extension, deny_extension, extend, withdraw_extension
from claims.services.mend import accept_object, label_again
from claims.services.profiles import replace_spec, restore_profile, retire_profile, save_profile
from claims.services.quota_requests import (
    approve_quota_request,
    ask_for_quota,
    deny_quota_request,
    withdraw_quota_request,
)
from claims.services.quotas import set_quota
from claims.services.reasons import remove_reason, save_reason
from claims.services.request import request_claim
from claims.services.resize import resize
from claims.services.shorten import shorten
from claims.services.transfer import transfer

__all__ = [
    "accept_object",
    "add_profiles",
    "adopt",
    "approve",
    "approve_extension",
    "approve_quota_request",
    "approve_with_changes",
    "ask_for_quota",
    "comment_on_claim",
    "comment_on_quota_request",
    "delegate",
    "delete_draft",
    "deny",
    "deny_extension",
    "deny_quota_request",
    "end_delegation",
    "extend",
    "import_profiles",
    "label_again",
    "plan_import",
    "release",
    "remove_reason",
    "remove_rule",
    "replace_spec",
    "request_claim",
    "resize",
    "restore_profile",
    "retire_profile",
    "save_draft",
    "save_profile",
    "save_reason",
    "save_rule",
    "set_quota",
    "shorten",
    "transfer",
    "withdraw",
    "withdraw_extension",
    "withdraw_quota_request",
]
