"""
What a path makes Python and PostgreSQL do, counted: the same on any machine, whatever else runs there.

Milliseconds of one path differ by up to twice between two minutes on a machine that others share, so that
they cannot show whether a path grows with the size of the portal. These numbers can. They leave out loops in
C, such as those over bytes or in a JSON document, and PostgreSQL's sorting; CPU time has them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.db import connection

TOOL = 4  # an id that is not reserved for debuggers, profilers or coverage (sys.monitoring)
COUNTED = 2  # calls: the least is taken: a background process of PostgreSQL may read meanwhile

# What this session has read is added to the statistics once it is idle; a second statement sees it.
FLUSH = "SELECT pg_stat_force_next_flush()"
VISITS = """
SELECT sum(pg_stat_get_blocks_fetched(oid) + pg_stat_get_tuples_returned(oid))
FROM pg_class
WHERE relkind IN ('r', 'i', 't') AND relnamespace IN ('public'::regnamespace, 'pg_toast'::regnamespace)
"""


@dataclass(frozen=True, slots=True)
class Work:
    """
    `steps` are calls and jumps of Python; `visits` are the pages that PostgreSQL fetches of tables and
    indexes, cached or not, and the rows and index entries that it returns from them.
    """

    steps: int
    visits: int


def counted(run: Callable[[], object]) -> Work:
    """Return what a call does; call it when the process and its connection are warm."""
    works = [_once(run) for _ in range(COUNTED)]
    return Work(min(work.steps for work in works), min(work.visits for work in works))


def _once(run: Callable[[], object]) -> Work:
    before, steps = _visits(), 0

    def count(*_event: Any) -> None:
        nonlocal steps
        steps += 1

    monitoring = sys.monitoring
    events = monitoring.events
    monitoring.use_tool_id(TOOL, "dragoman-bench")
    try:
        for event in (events.CALL, events.JUMP):
            monitoring.register_callback(TOOL, event, count)
        monitoring.set_events(TOOL, events.CALL | events.JUMP)
        run()
    finally:
        monitoring.set_events(TOOL, 0)
        monitoring.free_tool_id(TOOL)
    return Work(steps, _visits() - before)


def _visits() -> int:
    with connection.cursor() as cursor:
        cursor.execute(FLUSH)
        cursor.execute(VISITS)
        return int(cursor.fetchone()[0])
