import django.contrib.postgres.fields
from django.db import migrations, models


# A trigger keeps the rows of closed months.
DELETE = """
DELETE FROM usage_monthlysum WHERE dimension = 'claim'
AND month >= coalesce((SELECT closed_until FROM usage_storeddays), '-infinity'::date)
"""


class Migration(migrations.Migration):
    """The hourly `store_days` stores the rankings. The sums of closed months by claim stay, unread."""

    dependencies = [("usage", "0001_initial")]

    operations = [
        migrations.CreateModel(
            name="ClaimRanking",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("first", models.DateField()),
                ("end", models.DateField()),
                ("by_cost", django.contrib.postgres.fields.ArrayField(base_field=models.UUIDField(), size=None)),
                ("by_hours", django.contrib.postgres.fields.ArrayField(base_field=models.UUIDField(), size=None)),
                ("by_idle", django.contrib.postgres.fields.ArrayField(base_field=models.UUIDField(), size=None)),
                ("count", models.PositiveIntegerField()),
                ("totals", models.JSONField()),
            ],
            options={
                "constraints": [models.UniqueConstraint(fields=("first", "end"), name="claimranking_once")],
            },
        ),
        migrations.RunSQL(DELETE, migrations.RunSQL.noop),
        migrations.AlterField(
            model_name="monthlysum",
            name="dimension",
            field=models.CharField(
                choices=[("team", "Team"), ("person", "Person"), ("profile", "Profile")], max_length=8
            ),
        ),
    ]
