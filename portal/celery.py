"""
The Celery application. Queues: `sync` (watches; a worker with the threads pool), `delivery` (what people wait
for), `default` (periodic work). Beat only starts what a lost message or a dead worker would leave undone.
"""

from __future__ import annotations

import os
from typing import Any

import structlog
from celery import Celery, Task
from celery.signals import before_task_publish, task_prerun, worker_ready

from core.garbage import exempt_permanent_objects
from core.origin import current_request_id

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")

app = Celery("dragoman")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
app.autodiscover_tasks(["notify.webhooks"])
SCHEDULE = {  # task → seconds between two runs
    "inventory.tasks.sync_all": 20.0,
    "inventory.tasks.count_fleet": 20.0,
    "inventory.tasks.prune": 3600.0,
    "teams.tasks.seal_audit_log": 5.0,
    "portal.tasks.verify_audit_log": 86400.0,
    "teams.tasks.remove_old_audit_entries": 86400.0,
    "teams.tasks.clear_sessions": 86400.0,
    "teams.tasks.read_groups_again": 30.0,
    "notify.tasks.mail_notices": 60.0,
    "portal.tasks.remind_of_token_expiry": 3600.0,
    "notify.webhooks.tasks.deliver_webhooks": 10.0,
    "notify.webhooks.tasks.forget_webhook_events": 86400.0,
    "notify.tasks.forget_notices": 86400.0,
    "claims.delivery.tasks.sweep": 15.0,
    "claims.tasks.escalate": 300.0,
    "claims.tasks.repair_pending_decisions": 300.0,
    "claims.tasks.repair_ownership": 300.0,
    "claims.tasks.refresh_waits": 600.0,
    "claims.tasks.repair_availability": 300.0,
    "claims.tasks.watch_budgets": 300.0,
    "claims.tasks.maintain_quotas": 60.0,
    "claims.tasks.warn_of_expiring_credentials": 3600.0,
    "claims.tasks.forget_drafts": 86400.0,
    "claims.tasks.expire": 60.0,
    "usage.tasks.collect": 30.0,
    "usage.tasks.catch_up": 60.0,
    "usage.tasks.follow_idle_claims": 300.0,
    "usage.tasks.store_hours": 300.0,
    "usage.tasks.read_dra_health": 60.0,
    "usage.tasks.follow_alerts": 60.0,
    "usage.tasks.mail_reports": 3600.0,
    "usage.tasks.check_sizes": 6 * 3600.0,
    "usage.tasks.follow_runs": 300.0,
    "usage.tasks.store_days": 3600.0,
}
app.conf.beat_schedule = {
    # Void when the next is due: what was queued while no worker ran is not to be done a thousand times over.
    name: {"task": name, "schedule": seconds, "options": {"expires": seconds}}
    for name, seconds in SCHEDULE.items()
}


@worker_ready.connect
def exempt_what_is_imported(**_: Any) -> None:
    exempt_permanent_objects()


@before_task_publish.connect
def send_request_id(headers: dict[str, Any], **_: Any) -> None:
    """Give the message the id of the request that queues it."""
    if request_id := current_request_id():
        headers["portal_request_id"] = request_id


@task_prerun.connect
def log_request_id(task_id: str, task: Task[Any, Any], **_: Any) -> None:
    """Let every line of the task have its id, and that of the request that queued it."""
    if task.request.is_eager:  # it runs inside the request
        return
    structlog.contextvars.clear_contextvars()
    structlog.contextvars.bind_contextvars(task_id=task_id)
    if request_id := task.request.get("portal_request_id"):
        structlog.contextvars.bind_contextvars(request_id=request_id)
