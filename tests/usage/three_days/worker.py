"""
The worker of the portal on the days that `tests.usage.test_three_days` plays: only its clock is the test's.

`celery -A tests.usage.three_days.worker worker` does what `-A portal` does. At the begin of each task its
clock is set to what the file CLOCK says, and goes on from there; each task that ends is a line of DONE.
"""

import os
from datetime import datetime
from pathlib import Path
from typing import Any

import time_machine
from celery.signals import task_postrun, task_prerun, worker_ready

from portal.celery import app

__all__ = ["app"]

CLOCK, DONE = Path(os.environ["CLOCK"]), Path(os.environ["DONE"])


def told() -> datetime:
    return datetime.fromisoformat(CLOCK.read_text())


clock = time_machine.travel(told(), tick=True).start()


def note(line: str) -> None:
    with DONE.open("a") as lines:
        lines.write(f"{line}\n")


@task_prerun.connect
def set_clock(**_: Any) -> None:
    clock.move_to(told())


@task_postrun.connect
def note_end(task: Any, state: str, **_: Any) -> None:
    note(f"{task.name} {state}")


@worker_ready.connect
def note_start(**_: Any) -> None:
    note("ready")
