"""What became of the row of a claim: every column that is another now, so that none goes unnoticed."""

from typing import Any

from claims.models import Claim
from teams.models import User


def row_of(claim: Claim) -> Claim:
    return Claim.objects.get(pk=claim.pk)


def changes(before: Claim) -> dict[str, Any]:
    """
    Return the columns that differ from `before`, with their values now.

    Of `version` it is by how much it grew; of `state_since` that it is the time of the transaction, which no
    test can foresee. `reconcile_at` is the sweep's own (tests/claims/delivery/test_changes.py).
    """
    now = row_of(before)
    names = [field.attname for field in Claim._meta.concrete_fields]
    found = {name: getattr(now, name) for name in names if getattr(now, name) != getattr(before, name)}
    found.pop("reconcile_at", None)
    if "version" in found:
        found["version"] = now.version - before.version
    if "state_since" in found:
        found["state_since"] = "now"
    return found


def last_step(claim: Claim) -> tuple[str, str, str, User | None]:
    """Return the newest line of the history: from, to, why, by whom."""
    step = claim.history.order_by("-pk").select_related("by").first()
    assert step is not None
    return step.old, step.new, step.reason, step.by
