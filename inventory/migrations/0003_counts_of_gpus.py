"""Stored counts are counted again: they tell GPUs from other devices, and cordoned nodes from nodes that are down."""

from typing import Any

from django.db import migrations


def forget(apps: Any, schema_editor: Any) -> None:
    apps.get_model("inventory", "FleetCount").objects.update(revision=-1)


class Migration(migrations.Migration):
    dependencies = [("inventory", "0002_slice_text")]
    operations = [migrations.RunPython(forget, migrations.RunPython.noop)]
