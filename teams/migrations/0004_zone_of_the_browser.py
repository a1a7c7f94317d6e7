from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("teams", "0003_kept_answers"),
    ]

    operations = [
        migrations.AddField(
            model_name="user",
            name="seen_timezone",
            field=models.CharField(blank=True, default="", editable=False, max_length=64),
        ),
    ]
