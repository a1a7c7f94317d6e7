"""Taking the lock of one row, see docs/locking.md."""

from typing import Any

from django.db.models import Model, QuerySet


def lock_row[M: Model](rows: QuerySet[M], pk: Any) -> M:
    """
    Lock a row and return it as `rows` reads it, with what that joins. Raises DoesNotExist.

    Two statements, because one that waits goes on with the row as it is then, but with the related rows that
    it had joined before: if a reference has moved meanwhile it finds None, or no row at all.
    """
    rows.model._default_manager.select_for_update(no_key=True).only("pk").get(pk=pk)
    return rows.get(pk=pk)
