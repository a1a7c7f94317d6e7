"""
The periodic tasks of claims, started by beat. Each reads rows, so the next run repairs a lost one.

What services queue after a commit is in `claims.delivery.tasks`, with the sweep that repairs it, and in
`claims.quotas.tasks`.
"""

from celery import shared_task
from django.utils import timezone

from claims.approvals import escalation, pending
from claims.budgets import notices as budget_notices
from claims.budgets import use as budget_use
from claims.catalogue import availability, waits
from claims.delivery import credential_expiry
from claims.delivery.tasks import remove
from claims.lifecycle import expiry, unused
from claims.observation import ownership
from claims.quotas import class_use, quota_requests, resource_quota_rounds
from claims.requests import services as requests


@shared_task
def expire() -> None:
    """Expire undecided requests, release expired claims; notify of ends, overstays and unused claims."""
    now = timezone.now()
    try:
        for claim_id in expiry.end_overdue(now):
            remove.delay(str(claim_id))
    finally:
        expiry.remind(now)
        expiry.report_overstays(now)
        unused.remind_of_pods(now)


@shared_task
def escalate() -> None:
    """Ask platform admins about requests that leads left undecided for too long."""
    escalation.escalate_overdue(timezone.now())


@shared_task
def repair_pending_decisions() -> None:
    """Repair rows of undecided requests, for example after two changes at the same instant."""
    pending.refresh()


@shared_task
def repair_ownership() -> None:
    """Repair which mirrored objects are of a claim, for example after two changes at the same instant."""
    ownership.refresh()


@shared_task
def refresh_waits() -> None:
    """Compute how long requests for profiles waited in the past 30 days."""
    waits.refresh()


@shared_task
def repair_availability() -> None:
    """Compute what clusters have for profiles from nothing, and repair the rows that differ."""
    availability.recompute()


@shared_task
def warn_of_expiring_credentials() -> None:
    """Notify platform admins of credentials of clusters that expire soon."""
    credential_expiry.warn_of_expiry(timezone.now())


@shared_task
def forget_drafts() -> None:
    """Delete drafts without a change for 30 days."""
    requests.forget_drafts(timezone.now())


@shared_task
def watch_budgets() -> None:
    """Compute how much of each budget is used, and when it runs out; notify at 50, 80 and 100 %."""
    now = timezone.now()
    budget_notices.notify_of_use(budget_use.refresh_current(now), now=now)


@shared_task
def maintain_quotas() -> None:
    """
    End increases and quota requests whose time is over, add up the use of each class, and write every
    ResourceQuota that differs.
    """
    class_use.compact()
    quota_requests.end_overdue(timezone.now())
    quota_requests.notify_ends(timezone.now())
    resource_quota_rounds.write_all()
