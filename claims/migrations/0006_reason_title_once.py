from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("claims", "0005_standard_names")]

    operations = [
        migrations.AddConstraint(
            "reasontemplate",
            models.UniqueConstraint(
                fields=["team", "title"], name="reason_title_once", nulls_distinct=False
            ),
        ),
    ]
