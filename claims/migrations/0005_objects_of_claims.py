"""Claims are found by the object that delivers them."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('claims', '0004_self_approval_by_rule'),
    ]

    operations = [
        migrations.AddIndex(
            model_name='claim',
            index=models.Index(fields=['object_uid'], name='claim_object'),
        ),
    ]
