from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("inventory", "0002_ownership")]

    operations = [migrations.RenameField("objectevent", "what", "change")]
