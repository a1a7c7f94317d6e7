"""The events that a webhook can receive. Their names are stable; new ones may be added."""

from django.db import models


class EventKind(models.TextChoices):
    CLAIM_REQUESTED = "claim.requested", "A claim is requested"
    CLAIM_APPROVED = "claim.approved", "A claim is approved"
    CLAIM_DENIED = "claim.denied", "A claim is denied"
    CLAIM_WITHDRAWN = "claim.withdrawn", "A request is withdrawn"
    CLAIM_PROVISIONED = (
        "claim.provisioned",
        "A claim waits for a pod, the first time or again",
    )
    CLAIM_ALLOCATED = "claim.allocated", "A claim holds devices"
    CLAIM_EXPIRING = "claim.expiring", "A claim ends soon"
    CLAIM_RELEASING = "claim.releasing", "A claim is being released"
    CLAIM_RELEASED = "claim.released", "A claim is released"
    CLAIM_EXPIRED = "claim.expired", "A request expires undecided"
    CLAIM_FAILED = "claim.failed", "A claim fails"
    EXTENSION_REQUESTED = "extension.requested", "An extension is requested"
    EXTENSION_DECIDED = "extension.decided", "An extension is decided"
    QUOTA_REQUESTED = "quota.requested", "Quota or budget is requested"
    QUOTA_DECIDED = "quota.decided", "A request for quota or budget is decided"
    BUDGET_USED = "budget.used", "A budget reaches 50, 80 or 100 %"
    ALERT_OPENED = "alert.opened", "An alert opens"
    TEST = "webhook.test", "A test message"


CHOOSABLE = [(kind.value, kind.label) for kind in EventKind if kind != EventKind.TEST]
