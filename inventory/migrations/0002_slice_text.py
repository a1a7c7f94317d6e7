import django.db.models.deletion
from django.db import migrations, models

# The texts of the devices that are mirrored already (`inventory.device_search` stores those of later ones).
FILL = """
INSERT INTO inventory_slicetext (slice_id, text)
SELECT slice_id, string_agg(DISTINCT word, ' ')
FROM inventory_device, unnest(string_to_array(search, ' ')) AS word
WHERE gone_at IS NULL GROUP BY slice_id
"""


class Migration(migrations.Migration):
    dependencies = [("inventory", "0001_initial")]

    operations = [
        migrations.CreateModel(
            name="SliceText",
            fields=[
                (
                    "slice",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="device_text",
                        serialize=False,
                        to="inventory.resourceslice",
                    ),
                ),
                ("text", models.TextField()),
            ],
        ),
        migrations.RunSQL(FILL, migrations.RunSQL.noop),
    ]
