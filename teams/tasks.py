"""
Celery tasks of the audit log and of sessions. Each may run any number of times; the next run repairs a lost
message.
"""

import structlog
from celery import shared_task

from teams.audit import retention
from teams.audit.chain import seal
from teams.audit.grants import may_change_log
from teams.audit.lines import write_lines
from teams.identity import sync
from teams.sessions import remove_ended_sessions

log = structlog.get_logger(__name__)


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


@shared_task
def clear_sessions() -> None:
    """Remove the sessions that are over."""
    remove_ended_sessions()


@shared_task
def read_groups_again() -> None:
    """
    Read the groups of people who signed in through a provider, so that who left one loses access; and end
    what sessions people have whom one refuses.
    """
    if done := sync.read_groups_again():
        log.info("groups_read", **done)
    sync.end_refused_sessions()
