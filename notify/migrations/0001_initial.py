import core.models
import django.contrib.postgres.fields
import django.utils.timezone
from django.db import migrations, models
import django.db.models.deletion
from django.conf import settings


class Migration(migrations.Migration):

    initial = True

    dependencies = [
        ('teams', '0001_initial'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='Notice',
            fields=[
                ('id', models.UUIDField(default=core.models.uuid7, editable=False, primary_key=True, serialize=False)),
                ('kind', models.CharField(choices=[('decide', 'Requests to decide'), ('decision', 'Decisions on my requests'), ('comment', 'Questions and comments'), ('end', 'End of my claims'), ('unused', 'Unused and idle claims'), ('pods', 'Pods that lose their devices'), ('change', 'Changes by others'), ('quota', 'Quota and budget of my teams'), ('alert', 'Alerts'), ('token', 'API tokens'), ('platform', 'Clusters')], max_length=8)),
                ('key', models.CharField(max_length=200)),
                ('title', models.CharField(max_length=200)),
                ('body', models.TextField(blank=True, default='')),
                ('url', models.CharField(blank=True, default='', max_length=400)),
                ('important', models.BooleanField(default=False)),
                ('in_portal', models.BooleanField(default=True)),
                ('by_mail', models.BooleanField(default=False)),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('read_at', models.DateTimeField(null=True)),
                ('mailed_at', models.DateTimeField(null=True)),
            ],
            options={
                'ordering': ('-created_at', '-id'),
            },
        ),
        migrations.AddField(
            model_name='notice',
            name='user',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='notices', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddField(
            model_name='notice',
            name='team',
            field=models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='teams.team'),
        ),
        migrations.AddIndex(
            model_name='notice',
            index=models.Index(condition=models.Q(('in_portal', True), ('read_at', None)), fields=['user'], name='notice_unread'),
        ),
        migrations.AddIndex(
            model_name='notice',
            index=models.Index(condition=models.Q(('by_mail', True), ('mailed_at', None)), fields=['created_at'], name='notice_unmailed'),
        ),
        migrations.AddConstraint(
            model_name='notice',
            constraint=models.UniqueConstraint(fields=('user', 'key'), name='notice_once'),
        ),
        migrations.CreateModel(
            name='NoticePreference',
            fields=[
                ('id', models.UUIDField(default=core.models.uuid7, editable=False, primary_key=True, serialize=False)),
                ('kind', models.CharField(choices=[('decide', 'Requests to decide'), ('decision', 'Decisions on my requests'), ('comment', 'Questions and comments'), ('end', 'End of my claims'), ('unused', 'Unused and idle claims'), ('pods', 'Pods that lose their devices'), ('change', 'Changes by others'), ('quota', 'Quota and budget of my teams'), ('alert', 'Alerts'), ('token', 'API tokens'), ('platform', 'Clusters')], max_length=8)),
                ('in_portal', models.BooleanField()),
                ('mail', models.CharField(choices=[('all', 'All'), ('important', 'Needs my action'), ('none', 'Off')], max_length=9)),
                ('user', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('user', 'kind'), name='notice_preference_once'), models.CheckConstraint(condition=models.Q(('kind__in', ['decide', 'decision', 'comment', 'end', 'unused', 'pods', 'change', 'quota', 'alert', 'token', 'platform'])), name='notice_kind_known'), models.CheckConstraint(condition=models.Q(('mail__in', ['all', 'important', 'none'])), name='notice_mail_known')],
            },
        ),
        migrations.CreateModel(
            name='Webhook',
            fields=[
                ('id', models.UUIDField(default=core.models.uuid7, editable=False, primary_key=True, serialize=False)),
                ('url', models.CharField(max_length=500)),
                ('title', models.CharField(blank=True, default='', max_length=80)),
                ('kinds', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=24))),
                ('is_internal', models.BooleanField(default=False)),
                ('sealed', models.BinaryField()),
                ('earlier', models.BinaryField(default=b'')),
                ('earlier_until', models.DateTimeField(null=True)),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('failing_since', models.DateTimeField(null=True)),
                ('disabled_at', models.DateTimeField(null=True)),
                ('disabled_because', models.CharField(blank=True, default='', max_length=300)),
                ('created_by', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('team', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='webhooks', to='teams.team')),
            ],
            options={
                'ordering': ('id',),
            },
        ),
        migrations.CreateModel(
            name='WebhookEvent',
            fields=[
                ('id', models.UUIDField(default=core.models.uuid7, editable=False, primary_key=True, serialize=False)),
                ('kind', models.CharField(max_length=24)),
                ('at', models.DateTimeField(db_index=True, default=django.utils.timezone.now)),
                ('data', models.JSONField()),
                ('team', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='teams.team')),
            ],
        ),
        migrations.CreateModel(
            name='WebhookDelivery',
            fields=[
                ('id', models.UUIDField(default=core.models.uuid7, editable=False, primary_key=True, serialize=False)),
                ('state', models.CharField(choices=[('waiting', 'Waiting'), ('delivered', 'Delivered'), ('failed', 'Failed')], default='waiting', max_length=9)),
                ('tries', models.PositiveSmallIntegerField(default=0)),
                ('due_at', models.DateTimeField(default=django.utils.timezone.now, null=True)),
                ('taken_until', models.DateTimeField(null=True)),
                ('slot', models.PositiveSmallIntegerField(null=True)),
                ('attempts', models.JSONField(default=list)),
                ('webhook', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='deliveries', to='notify.webhook')),
                ('event', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='deliveries', to='notify.webhookevent')),
            ],
            options={
                'ordering': ('-id',),
                'indexes': [models.Index(condition=models.Q(('due_at__isnull', False)), fields=['due_at'], name='webhook_due'), models.Index(fields=['webhook', '-id'], name='webhook_log')],
                'constraints': [models.UniqueConstraint(fields=('webhook', 'event'), name='webhook_event_once'), models.UniqueConstraint(fields=('webhook', 'slot'), name='webhook_slot_once'), models.CheckConstraint(condition=models.Q(models.Q(('due_at__isnull', False), ('state', 'waiting')), models.Q(('due_at', None), ('state__in', ('delivered', 'failed'))), _connector='OR'), name='webhook_waiting_is_due')],
            },
        ),
    ]
