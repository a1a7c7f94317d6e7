"""
Everything that people may do with claims, profiles and quotas. Pages and API call these and nothing below
them.

Each takes the person as `by`, refuses with a `PortalError` whose message is a sentence, and is one
transaction.
"""

from claims.services.catalogue import add_profiles, import_profiles, plan_import
from claims.services.decide import approve, deny
from claims.services.end import release, withdraw
from claims.services.mend import accept_object, label_again
from claims.services.profiles import replace_spec, retire_profile, save_profile
from claims.services.quotas import set_quota
from claims.services.request import request_claim

__all__ = [
    "accept_object",
    "add_profiles",
    "approve",
    "deny",
    "import_profiles",
    "label_again",
    "plan_import",
    "release",
    "replace_spec",
    "request_claim",
    "retire_profile",
    "save_profile",
    "set_quota",
    "withdraw",
]
