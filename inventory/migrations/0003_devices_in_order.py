"""The list of devices is read in its order and not sorted."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('inventory', '0002_requests_in_full'),
    ]

    operations = [
        migrations.AddIndex(
            model_name='device',
            index=models.Index(condition=models.Q(('gone_at', None)), fields=['node_name', 'name'], name='device_in_order'),
        ),
    ]
