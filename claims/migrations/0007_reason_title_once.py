from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("claims", "0006_live_claims_by_version")]

    operations = [
        migrations.AddConstraint(
            "reasontemplate",
            models.UniqueConstraint(
                fields=["team", "title"], name="reason_title_once", nulls_distinct=False
            ),
        ),
    ]
