from django.db import migrations, models


class Migration(migrations.Migration):
    """Columns get the standard names: request, status, observation, reason."""

    dependencies = [("claims", "0004_reconciliation")]

    operations = [
        migrations.AlterModelOptions("extension", {"ordering": ("requested_at", "pk")}),
        migrations.AlterModelOptions("quotarequest", {"ordering": ("requested_at", "pk")}),
        migrations.RemoveConstraint("extension", "extension_once_per_key"),
        migrations.RemoveConstraint("extension", "extension_one_waits"),
        migrations.RemoveConstraint("quotarequest", "quotarequest_once_per_key"),
        migrations.RenameField("claim", "asked", "original_request"),
        migrations.RenameField("claim", "sighting", "observation_hash"),
        migrations.RenameField("transition", "why", "reason"),
        migrations.RenameField("extension", "asked_by", "requested_by"),
        migrations.RenameField("extension", "asked_at", "requested_at"),
        migrations.RenameField("extension", "answer", "status"),
        migrations.RenameField("extension", "was", "previous_end"),
        migrations.RenameField("quotarequest", "asked_by", "requested_by"),
        migrations.RenameField("quotarequest", "asked_at", "requested_at"),
        migrations.RenameField("quotarequest", "answer", "status"),
        migrations.RenameField("writtenquota", "place", "team_namespace"),
        migrations.RenameField("writtenquota", "seen_hard", "observed_hard"),
        migrations.RenameField("writtenquota", "seen_used", "observed_used"),
        migrations.AddConstraint(
            "extension",
            models.UniqueConstraint(fields=["requested_by", "key"], name="extension_once_per_key"),
        ),
        migrations.AddConstraint(
            "extension",
            models.UniqueConstraint(
                fields=["claim"], condition=models.Q(status="waiting"), name="extension_one_waits"
            ),
        ),
        migrations.AddConstraint(
            "quotarequest",
            models.UniqueConstraint(fields=["requested_by", "key"], name="quotarequest_once_per_key"),
        ),
    ]
