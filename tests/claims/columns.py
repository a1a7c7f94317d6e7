"""All columns of a row, so that a test says what each of them holds."""

from typing import Any

from django.db.models import Model


def columns(row: Model, *without: str) -> dict[str, Any]:
    """
    Return what the database holds of a row, column by column, except those named in `without`, and when the
    sweep looks at a claim (tests/claims/delivery/test_changes.py).
    """
    without = (*without, "reconcile_at")
    fresh = type(row)._base_manager.get(pk=row.pk)
    names = [field.attname for field in fresh._meta.concrete_fields]
    return {name: getattr(fresh, name) for name in names if name not in without}
