"""Celery tasks of the audit log. Each may run any number of times; the next run repairs a lost message."""

from celery import shared_task

from teams.audit import retention
from teams.audit.chain import seal
from teams.audit.grants import may_change_log
from teams.audit.lines import write_lines


@shared_task
def seal_audit_log() -> None:
    """Seal what was committed, then write it as JSON lines."""
    seal()
    write_lines()


@shared_task
def remove_old_audit_entries() -> None:
    """Remove what is older than the retention, if this role may; else the owner does (docs/audit.md)."""
    if may_change_log():
        retention.remove()
