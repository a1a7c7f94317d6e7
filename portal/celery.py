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
app.conf.beat_schedule = {
    "inventory.tasks.sync_all": {"task": "inventory.tasks.sync_all", "schedule": 20.0},
    "inventory.tasks.count_fleet": {"task": "inventory.tasks.count_fleet", "schedule": 20.0},
    "inventory.tasks.prune": {"task": "inventory.tasks.prune", "schedule": 3600.0},
    "teams.tasks.seal_audit_log": {"task": "teams.tasks.seal_audit_log", "schedule": 5.0},
    "portal.tasks.verify_audit_log": {"task": "portal.tasks.verify_audit_log", "schedule": 86400.0},
    "teams.tasks.remove_old_audit_entries": {
        "task": "teams.tasks.remove_old_audit_entries",
        "schedule": 86400.0,
    },
    "teams.tasks.clear_sessions": {"task": "teams.tasks.clear_sessions", "schedule": 86400.0},
    "teams.tasks.read_groups_again": {"task": "teams.tasks.read_groups_again", "schedule": 30.0},
    "notify.tasks.mail_notices": {"task": "notify.tasks.mail_notices", "schedule": 60.0},
    "portal.tasks.remind_of_token_expiry": {
        "task": "portal.tasks.remind_of_token_expiry",
        "schedule": 3600.0,
    },
    "notify.webhooks.tasks.deliver_webhooks": {
        "task": "notify.webhooks.tasks.deliver_webhooks",
        "schedule": 10.0,
    },
    "notify.webhooks.tasks.forget_webhook_events": {
        "task": "notify.webhooks.tasks.forget_webhook_events",
        "schedule": 86400.0,
    },
    "notify.tasks.forget_notices": {"task": "notify.tasks.forget_notices", "schedule": 86400.0},
    "claims.delivery.tasks.sweep": {"task": "claims.delivery.tasks.sweep", "schedule": 15.0},
    "claims.tasks.escalate": {"task": "claims.tasks.escalate", "schedule": 300.0},
    "claims.tasks.repair_pending_decisions": {
        "task": "claims.tasks.repair_pending_decisions",
        "schedule": 300.0,
    },
    "claims.tasks.repair_ownership": {"task": "claims.tasks.repair_ownership", "schedule": 300.0},
    "claims.tasks.refresh_waits": {"task": "claims.tasks.refresh_waits", "schedule": 600.0},
    "claims.tasks.repair_availability": {"task": "claims.tasks.repair_availability", "schedule": 300.0},
    "claims.tasks.watch_budgets": {"task": "claims.tasks.watch_budgets", "schedule": 300.0},
    "claims.tasks.maintain_quotas": {"task": "claims.tasks.maintain_quotas", "schedule": 60.0},
    "claims.tasks.warn_of_expiring_credentials": {
        "task": "claims.tasks.warn_of_expiring_credentials",
        "schedule": 3600.0,
    },
    "claims.tasks.forget_drafts": {"task": "claims.tasks.forget_drafts", "schedule": 86400.0},
    "claims.tasks.expire": {"task": "claims.tasks.expire", "schedule": 60.0},
    "usage.tasks.collect": {"task": "usage.tasks.collect", "schedule": 30.0},
    "usage.tasks.catch_up": {"task": "usage.tasks.catch_up", "schedule": 60.0},
    "usage.tasks.follow_idle_claims": {"task": "usage.tasks.follow_idle_claims", "schedule": 300.0},
    "usage.tasks.store_hours": {"task": "usage.tasks.store_hours", "schedule": 300.0},
    "usage.tasks.read_dra_health": {"task": "usage.tasks.read_dra_health", "schedule": 60.0},
    "usage.tasks.follow_alerts": {"task": "usage.tasks.follow_alerts", "schedule": 60.0},
    "usage.tasks.mail_reports": {"task": "usage.tasks.mail_reports", "schedule": 3600.0},
    "usage.tasks.check_sizes": {"task": "usage.tasks.check_sizes", "schedule": 6 * 3600.0},
    "usage.tasks.follow_runs": {"task": "usage.tasks.follow_runs", "schedule": 300.0},
    "usage.tasks.store_days": {"task": "usage.tasks.store_days", "schedule": 3600.0},
}
for entry in app.conf.beat_schedule.values():
    # Void when the next is due: what was queued while no worker ran is not to be done a thousand times over.
    entry["options"] = {"expires": entry["schedule"]}


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
