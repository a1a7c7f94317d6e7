import core.models
import datetime
import django.contrib.postgres.fields
import django.db.models.deletion
import django.db.models.functions.datetime
import django.utils.timezone
import django.db.models.expressions
from django.db import migrations, models
import core.filters
import django.contrib.postgres.indexes
from django.conf import settings

# Each statement that changes charges adds what it changed per class: the rows of a class add up to what its live
# charges count for (`claims.quotas.class_use`).
ADD_CLASS_USE = """
CREATE FUNCTION add_class_use() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'INSERT' THEN
    INSERT INTO claims_classuse (device_class, devices)
    SELECT device_class, SUM(GREATEST(COALESCE(settled, devices) - carried, 0)) FROM after_rows WHERE live
    GROUP BY device_class;
  ELSIF TG_OP = 'DELETE' THEN
    INSERT INTO claims_classuse (device_class, devices)
    SELECT device_class, -SUM(GREATEST(COALESCE(settled, devices) - carried, 0)) FROM before_rows WHERE live
    GROUP BY device_class;
  ELSE
    INSERT INTO claims_classuse (device_class, devices)
    SELECT device_class, SUM(devices) FROM (
      SELECT device_class, GREATEST(COALESCE(settled, devices) - carried, 0) AS devices FROM after_rows WHERE live
      UNION ALL
      SELECT device_class, -GREATEST(COALESCE(settled, devices) - carried, 0) FROM before_rows WHERE live
    ) AS change
    GROUP BY device_class HAVING SUM(devices) <> 0;
  END IF;
  RETURN NULL;
END
$$;
CREATE TRIGGER add_class_use_of_new AFTER INSERT ON claims_claimcharge REFERENCING NEW TABLE AS after_rows
FOR EACH STATEMENT EXECUTE FUNCTION add_class_use();
CREATE TRIGGER add_class_use_of_changed AFTER UPDATE ON claims_claimcharge
REFERENCING OLD TABLE AS before_rows NEW TABLE AS after_rows
FOR EACH STATEMENT EXECUTE FUNCTION add_class_use();
CREATE TRIGGER add_class_use_of_deleted AFTER DELETE ON claims_claimcharge REFERENCING OLD TABLE AS before_rows
FOR EACH STATEMENT EXECUTE FUNCTION add_class_use();
"""


class Migration(migrations.Migration):

    initial = True

    dependencies = [
        ('inventory', '0001_initial'),
        ('teams', '0001_initial'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
        ('core', '0001_initial'),
    ]

    operations = [
        migrations.CreateModel(
            name='Allocation',
            fields=[
                ('id', models.UUIDField(default=core.models.uuid7, editable=False, primary_key=True, serialize=False)),
                ('object_uid', models.CharField(max_length=64)),
                ('object_name', models.CharField(max_length=253)),
                ('request', models.CharField(max_length=127)),
                ('driver', models.CharField(max_length=63)),
                ('pool', models.CharField(max_length=253)),
                ('device', models.CharField(max_length=63)),
                ('share_id', models.CharField(blank=True, default='', max_length=64)),
                ('node_name', models.CharField(blank=True, default='', max_length=253)),
                ('product', models.CharField(blank=True, default='', max_length=120)),
                ('partition', models.CharField(blank=True, default='', max_length=64)),
                ('uuid', models.CharField(blank=True, default='', max_length=80)),
                ('memory_bytes', models.BigIntegerField(null=True)),
                ('fraction', models.DecimalField(decimal_places=6, default=1, max_digits=9)),
                ('capacity_type', models.CharField(blank=True, default='', max_length=9)),
                ('basis', models.ForeignKey(db_index=False, null=True, on_delete=django.db.models.deletion.RESTRICT, related_name='+', to='inventory.pricebasis')),
                ('started_at', models.DateTimeField()),
                ('ended_at', models.DateTimeField(null=True)),
            ],
            options={
                'ordering': ('started_at', 'device'),
            },
        ),
        migrations.CreateModel(
            name='Consumer',
            fields=[
                ('id', models.UUIDField(default=core.models.uuid7, editable=False, primary_key=True, serialize=False)),
                ('object_uid', models.CharField(max_length=64)),
                ('resource', models.CharField(max_length=63)),
                ('uid', models.CharField(max_length=64)),
                ('name', models.CharField(max_length=253)),
                ('started_at', models.DateTimeField()),
                ('ended_at', models.DateTimeField(null=True)),
            ],
            options={
                'ordering': ('started_at', 'name'),
            },
        ),
        migrations.CreateModel(
            name='Alternative',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('position', models.PositiveSmallIntegerField()),
                ('name', models.CharField(max_length=127)),
                ('devices', models.PositiveIntegerField()),
                ('settled', models.PositiveIntegerField(null=True)),
                ('together', models.BooleanField(default=False)),
            ],
            options={
                'ordering': ('position',),
            },
        ),
        migrations.CreateModel(
            name='ApprovalRule',
            fields=[
                ('id', models.UUIDField(default=core.models.uuid7, editable=False, primary_key=True, serialize=False)),
                ('approval', models.CharField(blank=True, choices=[('automatic', 'automatic'), ('lead', 'lead'), ('admin', 'platform admin'), ('both', 'lead, then platform admin')], default='lead', max_length=9)),
                ('automatic_devices', models.PositiveIntegerField(default=0)),
                ('automatic_duration', models.DurationField(blank=True, null=True)),
                ('self_approval', models.BooleanField(default=False)),
                ('escalate_after', models.DurationField(blank=True, null=True)),
            ],
            options={
                'ordering': ('team', 'profile'),
            },
        ),
        migrations.CreateModel(
            name='ApprovalStep',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('role', models.CharField(choices=[('lead', 'lead'), ('admin', 'admin')], max_length=5)),
                ('at', models.DateTimeField(default=django.utils.timezone.now)),
                ('note', models.TextField(blank=True, default='')),
                ('spec_hash', models.CharField(max_length=64)),
            ],
            options={
                'ordering': ('at', 'pk'),
            },
        ),
        migrations.CreateModel(
            name='Claim',
            fields=[
                ('id', models.UUIDField(default=core.models.uuid7, editable=False, primary_key=True, serialize=False)),
                ('name', models.CharField(max_length=63)),
                ('key', models.CharField(max_length=80)),
                ('namespace', models.CharField(max_length=63)),
                ('delivery', models.CharField(choices=[('claim', 'Named claim'), ('template', 'Template')], default='claim', max_length=8)),
                ('devices', models.PositiveIntegerField()),
                ('parallel', models.PositiveIntegerField(default=1)),
                ('duration', models.DurationField()),
                ('reason', models.TextField(blank=True, default='')),
                ('origin', models.CharField(choices=[('portal', 'made by the portal'), ('adopted', 'adopted')], default='portal', max_length=7)),
                ('spec', models.JSONField()),
                ('spec_hash', models.CharField(max_length=64)),
                ('state', models.CharField(choices=[('requested', 'Waiting for approval'), ('approved', 'Approved'), ('provisioned', 'Waiting for a pod'), ('allocated', 'Allocated'), ('releasing', 'Releasing'), ('released', 'Released'), ('denied', 'Denied'), ('withdrawn', 'Withdrawn'), ('expired', 'Expired'), ('failed', 'Failed')], default='requested', max_length=11)),
                ('state_since', models.DateTimeField(default=django.utils.timezone.now)),
                ('version', models.PositiveIntegerField(default=1)),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('decide_by', models.DateTimeField(null=True)),
                ('escalated_at', models.DateTimeField(null=True)),
                ('decided_at', models.DateTimeField(null=True)),
                ('decision_note', models.TextField(blank=True, default='')),
                ('approved_hash', models.CharField(blank=True, default='', max_length=64)),
                ('original_request', models.JSONField(null=True)),
                ('expires_at', models.DateTimeField(null=True)),
                ('evict_at', models.DateTimeField(null=True)),
                ('object_uid', models.CharField(blank=True, default='', max_length=64)),
                ('problem', models.TextField(blank=True, default='')),
                ('observation_hash', models.CharField(blank=True, default='', max_length=64)),
                ('reconcile_at', models.DateTimeField(default=django.utils.timezone.now, editable=False, null=True)),
                ('carried', models.PositiveIntegerField(default=0)),
            ],
            options={
                'ordering': ('-created_at', '-id'),
            },
        ),
        migrations.CreateModel(
            name='ClaimCharge',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('device_class', models.CharField(max_length=253)),
                ('devices', models.PositiveIntegerField()),
                ('settled', models.PositiveIntegerField(null=True)),
                ('carried', models.PositiveIntegerField(default=0)),
                ('live', models.BooleanField(db_default=True, default=True)),
            ],
        ),
        migrations.CreateModel(
            name='ClassUse',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('device_class', models.CharField(max_length=253)),
                ('devices', models.IntegerField()),
            ],
        ),
        migrations.CreateModel(
            name='ClusterAvailability',
            fields=[
                ('cluster', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='availability', serialize=False, to='inventory.cluster')),
                ('revision', models.BigIntegerField()),
                ('computed_at', models.DateTimeField()),
                ('report', models.JSONField(default=dict)),
                ('checked', models.JSONField(default=dict)),
                ('capacity', models.JSONField(default=dict)),
                ('unmanaged', models.JSONField(default=dict)),
            ],
        ),
        migrations.CreateModel(
            name='Comment',
            fields=[
                ('id', models.UUIDField(default=core.models.uuid7, editable=False, primary_key=True, serialize=False)),
                ('at', models.DateTimeField(default=django.utils.timezone.now)),
                ('text', models.TextField()),
                ('question', models.BooleanField(default=False)),
                ('key', models.CharField(max_length=80)),
            ],
            options={
                'ordering': ('at', 'pk'),
            },
        ),
        migrations.CreateModel(
            name='DailyWaits',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('day', models.DateField()),
                ('decisions', django.contrib.postgres.fields.ArrayField(base_field=models.DurationField(), default=list)),
                ('devices', django.contrib.postgres.fields.ArrayField(base_field=models.DurationField(), default=list)),
            ],
        ),
        migrations.CreateModel(
            name='Delegation',
            fields=[
                ('id', models.UUIDField(default=core.models.uuid7, editable=False, primary_key=True, serialize=False)),
                ('starts_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('ends_at', models.DateTimeField()),
            ],
            options={
                'ordering': ('starts_at', 'pk'),
            },
        ),
        migrations.CreateModel(
            name='Draft',
            fields=[
                ('id', models.UUIDField(default=core.models.uuid7, editable=False, primary_key=True, serialize=False)),
                ('key', models.CharField(max_length=80)),
                ('fields', models.JSONField(default=dict)),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('updated_at', models.DateTimeField(default=django.utils.timezone.now)),
            ],
            options={
                'ordering': ('-updated_at', 'pk'),
            },
        ),
        migrations.CreateModel(
            name='Extension',
            fields=[
                ('id', models.UUIDField(default=core.models.uuid7, editable=False, primary_key=True, serialize=False)),
                ('key', models.CharField(max_length=80)),
                ('requested_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('reason', models.TextField(blank=True, default='')),
                ('status', models.CharField(choices=[('waiting', 'waiting'), ('approved', 'approved'), ('denied', 'denied'), ('withdrawn', 'withdrawn'), ('expired', 'expired')], default='waiting', max_length=9)),
                ('decide_by', models.DateTimeField(null=True)),
                ('decided_at', models.DateTimeField(null=True)),
                ('decision_note', models.TextField(blank=True, default='')),
                ('previous_end', models.DateTimeField()),
                ('until', models.DateTimeField()),
            ],
            options={
                'ordering': ('requested_at', 'pk'),
            },
        ),
        migrations.CreateModel(
            name='PendingDecision',
            fields=[
                ('id', models.UUIDField(editable=False, primary_key=True, serialize=False)),
                ('kind', models.CharField(choices=[('claim', 'claim'), ('extension', 'extension'), ('quota', 'quota')], max_length=9)),
                ('requested_at', models.DateTimeField()),
                ('for_leads', models.BooleanField()),
                ('for_admins', models.BooleanField()),
                ('two_approvals', models.BooleanField(default=False)),
                ('self_approval', models.BooleanField(default=False)),
                ('reminded_at', models.DateTimeField(null=True)),
            ],
            options={
                'ordering': ('requested_at', 'pk'),
            },
        ),
        migrations.CreateModel(
            name='Profile',
            fields=[
                ('id', models.UUIDField(default=core.models.uuid7, editable=False, primary_key=True, serialize=False)),
                ('slug', models.SlugField(max_length=40, unique=True)),
                ('title', models.CharField(max_length=80)),
                ('use', models.TextField(blank=True, default='')),
                ('purpose', models.CharField(choices=[('training', 'Training and fine-tuning'), ('inference', 'Inference and batch'), ('notebooks', 'Notebooks'), ('tests', 'Tests and CI'), ('other', 'Other')], default='other', max_length=9)),
                ('retired_at', models.DateTimeField(blank=True, null=True)),
            ],
            options={
                'ordering': ('title',),
                'indexes': [models.Index(fields=['title'], name='profile_title')],
            },
        ),
        migrations.CreateModel(
            name='ProfileAvailability',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('matching', models.PositiveIntegerField(null=True)),
                ('free', models.PositiveIntegerField(null=True)),
                ('nodes', models.PositiveIntegerField(null=True)),
                ('most', models.PositiveIntegerField(null=True)),
                ('kinds', models.JSONField(default=list)),
            ],
        ),
        migrations.CreateModel(
            name='ProfileVersion',
            fields=[
                ('id', models.UUIDField(default=core.models.uuid7, editable=False, primary_key=True, serialize=False)),
                ('number', models.PositiveIntegerField()),
                ('spec', models.JSONField()),
                ('spec_hash', models.CharField(max_length=64)),
                ('scalable', models.CharField(blank=True, default='', max_length=63)),
                ('max_devices', models.PositiveIntegerField(default=1)),
                ('max_duration', models.DurationField(default=datetime.timedelta(days=14))),
                ('default_duration', models.DurationField(default=datetime.timedelta(days=1))),
                ('grace', models.DurationField(default=datetime.timedelta(0))),
                ('extension', models.DurationField(default=datetime.timedelta(0))),
                ('end_policy', models.CharField(choices=[('cluster', 'as the cluster'), ('run', 'let pods run'), ('ask', 'ask before eviction'), ('evict', 'evict pods')], default='cluster', max_length=7)),
                ('idle_percent', models.PositiveSmallIntegerField(default=None, null=True)),
                ('idle_after', models.DurationField(default=None, null=True)),
                ('deliveries', models.JSONField(default=list)),
                ('approval', models.CharField(choices=[('automatic', 'automatic'), ('lead', 'lead'), ('admin', 'platform admin'), ('both', 'lead, then platform admin')], default='lead', max_length=9)),
                ('automatic_devices', models.PositiveIntegerField(default=0)),
                ('automatic_duration', models.DurationField(blank=True, null=True)),
                ('restores', models.BooleanField(default=False)),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
            ],
            options={
                'ordering': ('profile', '-number'),
            },
        ),
        migrations.CreateModel(
            name='Quota',
            fields=[
                ('id', models.UUIDField(default=core.models.uuid7, editable=False, primary_key=True, serialize=False)),
                ('device_class', models.CharField(blank=True, default='', max_length=253)),
                ('counts', models.CharField(choices=[('devices', 'devices'), ('claims', 'claims')], default='devices', max_length=7)),
                ('devices', models.PositiveIntegerField()),
                ('guaranteed', models.PositiveIntegerField(default=0)),
            ],
            options={
                'ordering': ('team', 'device_class', 'profile'),
            },
        ),
        migrations.CreateModel(
            name='QuotaIncrease',
            fields=[
                ('id', models.UUIDField(default=core.models.uuid7, editable=False, primary_key=True, serialize=False)),
                ('devices', models.PositiveIntegerField()),
                ('starts_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('ends_at', models.DateTimeField()),
            ],
            options={
                'ordering': ('ends_at', 'pk'),
            },
        ),
        migrations.CreateModel(
            name='QuotaRequest',
            fields=[
                ('id', models.UUIDField(default=core.models.uuid7, editable=False, primary_key=True, serialize=False)),
                ('key', models.CharField(max_length=80)),
                ('requested_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('reason', models.TextField(blank=True, default='')),
                ('status', models.CharField(choices=[('waiting', 'waiting'), ('approved', 'approved'), ('denied', 'denied'), ('withdrawn', 'withdrawn'), ('expired', 'expired')], default='waiting', max_length=9)),
                ('decide_by', models.DateTimeField(null=True)),
                ('decided_at', models.DateTimeField(null=True)),
                ('decision_note', models.TextField(blank=True, default='')),
                ('counts', models.CharField(choices=[('devices', 'devices'), ('claims', 'claims')], default='devices', max_length=7)),
                ('device_class', models.CharField(blank=True, default='', max_length=253)),
                ('devices', models.PositiveIntegerField()),
                ('until', models.DateTimeField(null=True)),
            ],
            options={
                'ordering': ('requested_at', 'pk'),
            },
        ),
        migrations.CreateModel(
            name='ReasonTemplate',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('title', models.CharField(max_length=80)),
                ('text', models.TextField()),
            ],
            options={
                'ordering': ('title', 'pk'),
            },
        ),
        migrations.CreateModel(
            name='ReconciledCluster',
            fields=[
                ('cluster', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='+', serialize=False, to='inventory.cluster')),
                ('revision', models.BigIntegerField(default=0)),
                ('held_until', models.DateTimeField(null=True)),
            ],
        ),
        migrations.CreateModel(
            name='SweepRound',
            fields=[
                ('table', models.CharField(max_length=32, primary_key=True, serialize=False)),
                ('after', models.CharField(blank=True, default='', max_length=40)),
            ],
        ),
        migrations.CreateModel(
            name='TeamNamespace',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('namespace', models.CharField(max_length=63)),
            ],
        ),
        migrations.CreateModel(
            name='Transition',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('old', models.CharField(blank=True, default='', max_length=11)),
                ('new', models.CharField(choices=[('requested', 'Waiting for approval'), ('approved', 'Approved'), ('provisioned', 'Waiting for a pod'), ('allocated', 'Allocated'), ('releasing', 'Releasing'), ('released', 'Released'), ('denied', 'Denied'), ('withdrawn', 'Withdrawn'), ('expired', 'Expired'), ('failed', 'Failed')], max_length=11)),
                ('reason', models.TextField()),
                ('at', models.DateTimeField(default=django.utils.timezone.now)),
                ('source', models.CharField(choices=[('web', 'Web'), ('token', 'API token'), ('cluster', 'Cluster'), ('system', 'System')], default='system', max_length=7)),
                ('via', models.CharField(blank=True, default='', max_length=80)),
                ('values', models.JSONField(default=list)),
            ],
            options={
                'ordering': ('at', 'pk'),
            },
        ),
        migrations.CreateModel(
            name='WrittenQuota',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('hard', models.JSONField(default=dict)),
                ('observed_hard', models.JSONField(default=dict)),
                ('observed_used', models.JSONField(default=dict)),
                ('drift', models.TextField(blank=True, default='')),
                ('problem', models.TextField(blank=True, default='')),
                ('written_at', models.DateTimeField(null=True)),
                ('checked_at', models.DateTimeField(null=True)),
                ('repaired_at', models.DateTimeField(null=True)),
            ],
        ),
        migrations.AddField(
            model_name='approvalrule',
            name='team',
            field=models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='approval_rules', to='teams.team'),
        ),
        migrations.AddField(
            model_name='approvalstep',
            name='by',
            field=models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddField(
            model_name='claim',
            name='cluster',
            field=models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='claims', to='inventory.cluster'),
        ),
        migrations.AddField(
            model_name='claim',
            name='decided_by',
            field=models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddField(
            model_name='claim',
            name='replaces',
            field=models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='successors', to='claims.claim'),
        ),
        migrations.AddField(
            model_name='claim',
            name='requested_by',
            field=models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='claims', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddField(
            model_name='claim',
            name='team',
            field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='claims', to='teams.team'),
        ),
        migrations.AddField(
            model_name='approvalstep',
            name='claim',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='steps', to='claims.claim'),
        ),
        migrations.AddField(
            model_name='alternative',
            name='claim',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='alternatives', to='claims.claim'),
        ),
        migrations.AddField(
            model_name='allocation',
            name='claim',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='allocations', to='claims.claim'),
        ),
        migrations.AddField(
            model_name='consumer',
            name='claim',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='consumers', to='claims.claim'),
        ),
        migrations.AddField(
            model_name='claimcharge',
            name='claim',
            field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='charges', to='claims.claim'),
        ),
        migrations.AddField(
            model_name='comment',
            name='by',
            field=models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddField(
            model_name='comment',
            name='claim',
            field=models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='comments', to='claims.claim'),
        ),
        migrations.AddField(
            model_name='dailywaits',
            name='cluster',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='inventory.cluster'),
        ),
        migrations.AddField(
            model_name='delegation',
            name='lead',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='delegations_given', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddField(
            model_name='delegation',
            name='team',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='delegations', to='teams.team'),
        ),
        migrations.AddField(
            model_name='delegation',
            name='to',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='delegations_held', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddField(
            model_name='draft',
            name='by',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='drafts', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddField(
            model_name='extension',
            name='claim',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='extensions', to='claims.claim'),
        ),
        migrations.AddField(
            model_name='extension',
            name='decided_by',
            field=models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddField(
            model_name='extension',
            name='requested_by',
            field=models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddField(
            model_name='pendingdecision',
            name='claim',
            field=models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='pending_decisions', to='claims.claim'),
        ),
        migrations.AddField(
            model_name='pendingdecision',
            name='extension',
            field=models.OneToOneField(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='pending_decision', to='claims.extension'),
        ),
        migrations.AddField(
            model_name='pendingdecision',
            name='first_approver',
            field=models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddField(
            model_name='pendingdecision',
            name='requester',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddField(
            model_name='pendingdecision',
            name='team',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='pending_decisions', to='teams.team'),
        ),
        migrations.CreateModel(
            name='ProfileWaits',
            fields=[
                ('profile', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='waits', serialize=False, to='claims.profile')),
                ('computed_at', models.DateTimeField()),
                ('decisions', models.PositiveIntegerField(default=0)),
                ('decision_median', models.DurationField(null=True)),
                ('decision_p90', models.DurationField(null=True)),
                ('devices', models.PositiveIntegerField(default=0)),
                ('device_median', models.DurationField(null=True)),
                ('device_p90', models.DurationField(null=True)),
            ],
        ),
        migrations.AddField(
            model_name='profile',
            name='teams',
            field=models.ManyToManyField(blank=True, related_name='profiles', to='teams.team'),
        ),
        migrations.AddField(
            model_name='dailywaits',
            name='profile',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='claims.profile'),
        ),
        migrations.AddField(
            model_name='approvalrule',
            name='profile',
            field=models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='approval_rules', to='claims.profile'),
        ),
        migrations.AddField(
            model_name='profileavailability',
            name='computation',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='claims.clusteravailability'),
        ),
        migrations.AddField(
            model_name='profileversion',
            name='created_by',
            field=models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddField(
            model_name='profileversion',
            name='profile',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='versions', to='claims.profile'),
        ),
        migrations.AddField(
            model_name='profileavailability',
            name='version',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='availability', to='claims.profileversion'),
        ),
        migrations.AddField(
            model_name='profile',
            name='current',
            field=models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='claims.profileversion'),
        ),
        migrations.AddField(
            model_name='claim',
            name='profile_version',
            field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='claims', to='claims.profileversion'),
        ),
        migrations.AddField(
            model_name='alternative',
            name='profile_version',
            field=models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to='claims.profileversion'),
        ),
        migrations.AddField(
            model_name='quota',
            name='profile',
            field=models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='quotas', to='claims.profile'),
        ),
        migrations.AddField(
            model_name='quota',
            name='team',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='quotas', to='teams.team'),
        ),
        migrations.AddField(
            model_name='quotaincrease',
            name='by',
            field=models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddField(
            model_name='quotaincrease',
            name='quota',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='increases', to='claims.quota'),
        ),
        migrations.AddField(
            model_name='quotarequest',
            name='decided_by',
            field=models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddField(
            model_name='quotarequest',
            name='profile',
            field=models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='claims.profile'),
        ),
        migrations.AddField(
            model_name='quotarequest',
            name='requested_by',
            field=models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddField(
            model_name='quotarequest',
            name='team',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='quota_requests', to='teams.team'),
        ),
        migrations.AddField(
            model_name='quotaincrease',
            name='request',
            field=models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='increases', to='claims.quotarequest'),
        ),
        migrations.AddField(
            model_name='pendingdecision',
            name='quota_request',
            field=models.OneToOneField(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='pending_decision', to='claims.quotarequest'),
        ),
        migrations.AddField(
            model_name='comment',
            name='quota_request',
            field=models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='comments', to='claims.quotarequest'),
        ),
        migrations.AddField(
            model_name='reasontemplate',
            name='team',
            field=models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='teams.team'),
        ),
        migrations.AddField(
            model_name='teamnamespace',
            name='cluster',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='team_namespaces', to='inventory.cluster'),
        ),
        migrations.AddField(
            model_name='teamnamespace',
            name='team',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='namespaces', to='teams.team'),
        ),
        migrations.AddField(
            model_name='transition',
            name='by',
            field=models.ForeignKey(db_index=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddField(
            model_name='transition',
            name='claim',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='history', to='claims.claim'),
        ),
        migrations.AddField(
            model_name='transition',
            name='previous_owner',
            field=models.ForeignKey(db_index=False, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddField(
            model_name='transition',
            name='team',
            field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='teams.team'),
        ),
        migrations.AddField(
            model_name='writtenquota',
            name='team_namespace',
            field=models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name='written_quota', to='claims.teamnamespace'),
        ),
        migrations.AddConstraint(
            model_name='approvalstep',
            constraint=models.UniqueConstraint(fields=('claim', 'role'), name='approvalstep_once'),
        ),
        migrations.AddIndex(
            model_name='allocation',
            index=models.Index(condition=models.Q(('ended_at', None)), fields=['claim'], name='allocation_open'),
        ),
        migrations.AddIndex(
            model_name='allocation',
            index=models.Index(condition=models.Q(('capacity_type', ''), ('ended_at', None)), fields=['claim'], name='allocation_unknown'),
        ),
        migrations.AddIndex(
            model_name='allocation',
            index=models.Index(fields=['driver', 'pool', 'device', '-started_at'], name='allocation_device'),
        ),
        migrations.AddIndex(
            model_name='allocation',
            index=models.Index(fields=['started_at'], name='allocation_started'),
        ),
        migrations.AddIndex(
            model_name='allocation',
            index=models.Index(fields=['ended_at'], name='allocation_ended'),
        ),
        migrations.AddConstraint(
            model_name='allocation',
            constraint=models.UniqueConstraint(condition=models.Q(('ended_at', None)), fields=('object_uid', 'driver', 'pool', 'device', 'share_id'), name='allocation_open_once'),
        ),
        migrations.AddConstraint(
            model_name='allocation',
            constraint=models.CheckConstraint(condition=models.Q(('ended_at', None), ('ended_at__gte', models.F('started_at')), _connector='OR'), name='allocation_ends_after_start'),
        ),
        migrations.AddConstraint(
            model_name='allocation',
            constraint=models.CheckConstraint(condition=models.Q(('fraction__gt', 0), ('fraction__lte', 1)), name='allocation_fraction'),
        ),
        migrations.AddIndex(
            model_name='consumer',
            index=models.Index(condition=models.Q(('ended_at', None)), fields=['claim'], name='consumer_open'),
        ),
        migrations.AddConstraint(
            model_name='consumer',
            constraint=models.UniqueConstraint(condition=models.Q(('ended_at', None)), fields=('object_uid', 'uid'), name='consumer_open_once'),
        ),
        migrations.AddConstraint(
            model_name='consumer',
            constraint=models.CheckConstraint(condition=models.Q(('ended_at', None), ('ended_at__gte', models.F('started_at')), _connector='OR'), name='consumer_ends_after_start'),
        ),
        migrations.AddIndex(
            model_name='claimcharge',
            index=models.Index(condition=models.Q(('live', True)), fields=['claim'], include=('device_class', 'devices', 'settled', 'carried'), name='claimcharge_live'),
        ),
        migrations.AddConstraint(
            model_name='claimcharge',
            constraint=models.UniqueConstraint(fields=('claim', 'device_class'), include=('devices', 'settled', 'carried'), name='claimcharge_once'),
        ),
        migrations.AddConstraint(
            model_name='claimcharge',
            constraint=models.CheckConstraint(condition=models.Q(('settled', None), ('settled__lte', models.F('devices')), _connector='OR'), name='claimcharge_settles_below'),
        ),
        migrations.AddConstraint(
            model_name='delegation',
            constraint=models.CheckConstraint(condition=models.Q(('ends_at__gte', models.F('starts_at'))), name='delegation_ends_after_start'),
        ),
        migrations.AddConstraint(
            model_name='delegation',
            constraint=models.CheckConstraint(condition=models.Q(('lead', models.F('to')), _negated=True), name='delegation_to_somebody_else'),
        ),
        migrations.AddConstraint(
            model_name='draft',
            constraint=models.UniqueConstraint(fields=('by', 'key'), name='draft_once_per_key'),
        ),
        migrations.AddConstraint(
            model_name='extension',
            constraint=models.UniqueConstraint(fields=('requested_by', 'key'), name='extension_once_per_key'),
        ),
        migrations.AddConstraint(
            model_name='extension',
            constraint=models.UniqueConstraint(condition=models.Q(('status', 'waiting')), fields=('claim',), name='extension_one_waits'),
        ),
        migrations.AddConstraint(
            model_name='dailywaits',
            constraint=models.UniqueConstraint(fields=('profile', 'cluster', 'day'), name='dailywaits_once'),
        ),
        migrations.AddConstraint(
            model_name='approvalrule',
            constraint=models.CheckConstraint(condition=models.Q(('team__isnull', False), ('profile__isnull', False), _connector='OR'), name='approvalrule_is_for_something'),
        ),
        migrations.AddConstraint(
            model_name='approvalrule',
            constraint=models.UniqueConstraint(fields=('team', 'profile'), name='approvalrule_once', nulls_distinct=False),
        ),
        migrations.AddConstraint(
            model_name='profileversion',
            constraint=models.UniqueConstraint(fields=('profile', 'number'), name='profileversion_once'),
        ),
        migrations.AddConstraint(
            model_name='profileversion',
            constraint=models.CheckConstraint(condition=models.Q(('max_devices__gt', 0)), name='profileversion_max_devices_positive'),
        ),
        migrations.AddConstraint(
            model_name='profileversion',
            constraint=models.CheckConstraint(condition=models.Q(('default_duration__lte', models.F('max_duration'))), name='profileversion_default_within_max'),
        ),
        migrations.AddConstraint(
            model_name='profileavailability',
            constraint=models.UniqueConstraint(fields=('version', 'computation'), name='profileavailability_once'),
        ),
        migrations.AddIndex(
            model_name='claim',
            index=models.Index(fields=['team', 'state'], include=('id', 'created_at', 'profile_version', 'requested_by', 'decided_at'), name='claim_team_state'),
        ),
        migrations.AddIndex(
            model_name='claim',
            index=models.Index(condition=models.Q(('state__in', ('released', 'denied', 'withdrawn', 'expired', 'failed')), _negated=True), fields=['team', 'state'], include=('id', 'profile_version', 'devices', 'parallel', 'carried', 'replaces'), name='claim_live'),
        ),
        migrations.AddIndex(
            model_name='claim',
            index=models.Index(condition=models.Q(('state__in', ('released', 'denied', 'withdrawn', 'expired', 'failed')), _negated=True), fields=['profile_version'], name='claim_by_version'),
        ),
        migrations.AddIndex(
            model_name='claim',
            index=models.Index(condition=models.Q(('state__in', ('released', 'denied', 'withdrawn', 'expired', 'failed')), _negated=True), fields=['state', 'expires_at'], name='claim_expiry'),
        ),
        migrations.AddIndex(
            model_name='claim',
            index=models.Index(condition=models.Q(('state__in', ('approved', 'provisioned', 'allocated', 'releasing'))), fields=['id'], name='claim_granted'),
        ),
        migrations.AddIndex(
            model_name='claim',
            index=models.Index(condition=models.Q(('reconcile_at', None), _negated=True), fields=['reconcile_at'], name='claim_reconcile_due'),
        ),
        migrations.AddIndex(
            model_name='claim',
            index=models.Index(fields=['-created_at', '-id'], name='claim_newest'),
        ),
        migrations.AddIndex(
            model_name='claim',
            index=models.Index(fields=['team', '-created_at'], name='claim_newest_of_team'),
        ),
        migrations.AddIndex(
            model_name='claim',
            index=models.Index(fields=['state', '-created_at', '-id'], name='claim_newest_in_state'),
        ),
        migrations.AddIndex(
            model_name='claim',
            index=models.Index(condition=models.Q(('state', 'failed')), fields=['-state_since'], name='claim_failed'),
        ),
        migrations.AddIndex(
            model_name='claim',
            index=django.contrib.postgres.indexes.GinIndex(core.filters.Trigrams('name', 'reason'), name='claim_text'),
        ),
        migrations.AddIndex(
            model_name='claim',
            index=models.Index(fields=['object_uid'], name='claim_object'),
        ),
        migrations.AddIndex(
            model_name='claim',
            index=models.Index(fields=['profile_version', 'id'], name='claim_profile_version'),
        ),
        migrations.AddIndex(
            model_name='claim',
            index=models.Index(models.expressions.OrderBy(models.F('expires_at'), descending=True, nulls_last=True), models.expressions.OrderBy(models.F('id'), descending=True), name='claim_by_end'),
        ),
        migrations.AddIndex(
            model_name='claim',
            index=models.Index(condition=models.Q(models.Q(('decided_at', None), _negated=True), models.Q(('state', 'requested'), _negated=True)), fields=['-decided_at'], include=('id', 'team'), name='claim_decided'),
        ),
        migrations.AddConstraint(
            model_name='claim',
            constraint=models.UniqueConstraint(fields=('requested_by', 'key'), name='claim_once_per_key'),
        ),
        migrations.AddConstraint(
            model_name='claim',
            constraint=models.UniqueConstraint(condition=models.Q(('state__in', ('released', 'denied', 'withdrawn', 'expired', 'failed')), _negated=True), fields=('cluster', 'namespace', 'name'), include=('id', 'state', 'parallel', 'delivery'), name='claim_name_free'),
        ),
        migrations.AddConstraint(
            model_name='claim',
            constraint=models.CheckConstraint(condition=models.Q(('parallel__gt', 0)), name='claim_parallel_positive'),
        ),
        migrations.AddConstraint(
            model_name='claim',
            constraint=models.CheckConstraint(condition=models.Q(('state__in', ['requested', 'approved', 'provisioned', 'allocated', 'releasing', 'released', 'denied', 'withdrawn', 'expired', 'failed'])), name='claim_state_known'),
        ),
        migrations.AddConstraint(
            model_name='alternative',
            constraint=models.UniqueConstraint(fields=('claim', 'position'), name='alternative_once'),
        ),
        migrations.AddConstraint(
            model_name='alternative',
            constraint=models.CheckConstraint(condition=models.Q(('settled', None), ('settled__lte', models.F('devices')), _connector='OR'), name='alternative_settles_below'),
        ),
        migrations.AddConstraint(
            model_name='quota',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('counts', 'devices'), ('device_class', ''), ('profile__isnull', False)), models.Q(('counts', 'devices'), ('profile', None), models.Q(('device_class', ''), _negated=True)), models.Q(('counts', 'claims'), ('device_class', ''), ('profile', None)), _connector='OR'), name='quota_of_class_profile_or_claims'),
        ),
        migrations.AddConstraint(
            model_name='quota',
            constraint=models.CheckConstraint(condition=models.Q(('guaranteed__lte', models.F('devices'))), name='quota_guaranteed_within_limit'),
        ),
        migrations.AddConstraint(
            model_name='quota',
            constraint=models.UniqueConstraint(condition=models.Q(('counts', 'claims')), fields=('team',), name='quota_of_claims_once'),
        ),
        migrations.AddConstraint(
            model_name='quota',
            constraint=models.UniqueConstraint(condition=models.Q(('counts', 'devices'), ('profile', None)), fields=('team', 'device_class'), name='quota_once_per_class'),
        ),
        migrations.AddConstraint(
            model_name='quota',
            constraint=models.UniqueConstraint(condition=models.Q(('counts', 'devices'), ('device_class', '')), fields=('team', 'profile'), name='quota_once_per_profile'),
        ),
        migrations.AddConstraint(
            model_name='quotarequest',
            constraint=models.UniqueConstraint(fields=('requested_by', 'key'), name='quotarequest_once_per_key'),
        ),
        migrations.AddConstraint(
            model_name='quotaincrease',
            constraint=models.CheckConstraint(condition=models.Q(('ends_at__gte', models.F('starts_at'))), name='quotaraise_ends_after_start'),
        ),
        migrations.AddIndex(
            model_name='transition',
            index=models.Index(fields=['at', 'id'], include=('old', 'new'), name='transition_at'),
        ),
        migrations.AddIndex(
            model_name='transition',
            index=models.Index(fields=['team', 'at', 'id'], name='transition_of_team'),
        ),
        migrations.AddIndex(
            model_name='transition',
            index=models.Index(fields=['by', 'at', 'id'], name='transition_by'),
        ),
        migrations.AddIndex(
            model_name='transition',
            index=models.Index(condition=models.Q(('previous_owner', None), _negated=True), fields=['at', 'id'], include=('claim', 'previous_owner'), name='transition_transfer'),
        ),
        migrations.AddIndex(
            model_name='pendingdecision',
            index=models.Index(fields=['requested_at', 'id'], name='pendingdecision_oldest'),
        ),
        migrations.AddIndex(
            model_name='pendingdecision',
            index=models.Index(condition=models.Q(('for_leads', True)), fields=['team'], name='pendingdecision_leads'),
        ),
        migrations.AddIndex(
            model_name='pendingdecision',
            index=models.Index(condition=models.Q(('for_admins', True)), fields=['requested_at', 'id'], name='pendingdecision_admins'),
        ),
        migrations.AddConstraint(
            model_name='pendingdecision',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('claim', models.F('id')), ('extension', None), ('kind', 'claim'), ('quota_request', None)), models.Q(('claim__isnull', False), ('extension', models.F('id')), ('kind', 'extension'), ('quota_request', None)), models.Q(('claim', None), ('extension', None), ('kind', 'quota'), ('quota_request', models.F('id'))), _connector='OR'), name='pendingdecision_of_one_request'),
        ),
        migrations.AddConstraint(
            model_name='comment',
            constraint=models.UniqueConstraint(fields=('by', 'key'), name='comment_once_per_key'),
        ),
        migrations.AddConstraint(
            model_name='comment',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('claim', None), ('quota_request__isnull', False)), models.Q(('claim__isnull', False), ('quota_request', None)), _connector='OR'), name='comment_on_one_thing'),
        ),
        migrations.AddConstraint(
            model_name='reasontemplate',
            constraint=models.UniqueConstraint(fields=('team', 'title'), name='reason_title_once', nulls_distinct=False),
        ),
        migrations.AddConstraint(
            model_name='teamnamespace',
            constraint=models.UniqueConstraint(fields=('team', 'cluster'), name='teamnamespace_one_per_cluster'),
        ),
        migrations.AddConstraint(
            model_name='teamnamespace',
            constraint=models.UniqueConstraint(fields=('cluster', 'namespace'), name='teamnamespace_one_team'),
        ),
        migrations.CreateModel(
            name='WorkloadIdentity',
            fields=[
                ('id', models.UUIDField(default=core.models.uuid7, editable=False, primary_key=True, serialize=False)),
                ('service_account', models.CharField(max_length=253)),
                ('account', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='workload_identities', to=settings.AUTH_USER_MODEL)),
                ('place', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='workload_identities', to='claims.teamnamespace')),
            ],
            options={
                'ordering': ('place', 'service_account'),
                'constraints': [models.UniqueConstraint(fields=('place', 'service_account'), name='workloadidentity_one_account')],
            },
        ),
        migrations.CreateModel(
            name='Budget',
            fields=[
                ('id', models.UUIDField(default=core.models.uuid7, editable=False, primary_key=True, serialize=False)),
                ('title', models.CharField(blank=True, default='', max_length=60)),
                ('first', models.DateField()),
                ('last', models.DateField(null=True)),
                ('amount', models.DecimalField(decimal_places=2, max_digits=14, null=True)),
                ('currency', models.CharField(default='EUR', max_length=3)),
                ('hours', models.DecimalField(decimal_places=2, max_digits=14, null=True)),
                ('at_limit', models.CharField(choices=[('notify', 'notify only'), ('approval', 'new requests need approval'), ('reclaim', 'running claims are reclaimable first'), ('block', 'new requests are refused')], default='notify', max_length=8)),
                ('set_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('ended_at', models.DateTimeField(null=True)),
                ('ended_by', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('set_by', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('team', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='budgets', to='teams.team')),
            ],
            options={
                'ordering': ('team', 'title'),
            },
        ),
        migrations.CreateModel(
            name='BudgetUse',
            fields=[
                ('budget', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='use', serialize=False, to='claims.budget')),
                ('first', models.DateField()),
                ('last', models.DateField()),
                ('ends_at', models.DateTimeField()),
                ('as_of', models.DateTimeField()),
                ('amount', models.DecimalField(decimal_places=2, max_digits=14, null=True)),
                ('hours', models.DecimalField(decimal_places=2, max_digits=14, null=True)),
                ('used_amount', models.DecimalField(decimal_places=2, max_digits=14, null=True)),
                ('used_hours', models.DecimalField(decimal_places=2, max_digits=14)),
                ('unpriced_hours', models.DecimalField(decimal_places=2, max_digits=14)),
                ('amount_rate', models.DecimalField(decimal_places=4, max_digits=14, null=True)),
                ('hours_rate', models.DecimalField(decimal_places=4, max_digits=14, null=True)),
                ('forecast_amount', models.DecimalField(decimal_places=2, max_digits=14, null=True)),
                ('forecast_hours', models.DecimalField(decimal_places=2, max_digits=14, null=True)),
                ('share', models.FloatField()),
                ('forecast', models.FloatField(null=True)),
                ('runs_out_at', models.DateTimeField(null=True)),
            ],
        ),
        migrations.CreateModel(
            name='BudgetExtra',
            fields=[
                ('id', models.UUIDField(default=core.models.uuid7, editable=False, primary_key=True, serialize=False)),
                ('first', models.DateField()),
                ('amount', models.DecimalField(decimal_places=2, default=0, max_digits=14)),
                ('hours', models.DecimalField(decimal_places=2, default=0, max_digits=14)),
                ('reason', models.TextField(blank=True, default='')),
                ('at', models.DateTimeField(default=django.utils.timezone.now)),
                ('budget', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='extras', to='claims.budget')),
                ('by', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'ordering': ('at', 'pk'),
            },
        ),
        migrations.CreateModel(
            name='BudgetTerms',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('since', models.DateTimeField(default=django.utils.timezone.now)),
                ('first', models.DateField()),
                ('last', models.DateField(null=True)),
                ('amount', models.DecimalField(decimal_places=2, max_digits=14, null=True)),
                ('currency', models.CharField(default='EUR', max_length=3)),
                ('hours', models.DecimalField(decimal_places=2, max_digits=14, null=True)),
                ('at_limit', models.CharField(choices=[('notify', 'notify only'), ('approval', 'new requests need approval'), ('reclaim', 'running claims are reclaimable first'), ('block', 'new requests are refused')], max_length=8)),
                ('reason', models.TextField(blank=True, default='')),
                ('budget', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='terms', to='claims.budget')),
                ('by', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'ordering': ('since', 'pk'),
            },
        ),
        migrations.AddIndex(
            model_name='budget',
            index=models.Index(condition=models.Q(('ended_at', None)), fields=['team'], name='budget_open'),
        ),
        migrations.AddConstraint(
            model_name='budget',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('amount__gt', 0), models.Q(('hours', None), ('hours__gt', 0), _connector='OR')), models.Q(('amount', None), ('hours__gt', 0)), _connector='OR'), name='budget_of_money_or_hours'),
        ),
        migrations.AddConstraint(
            model_name='budget',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('last', None), ('title', '')), models.Q(models.Q(('title', ''), _negated=True), ('last__gte', models.F('first'))), _connector='OR'), name='budget_monthly_or_titled'),
        ),
        migrations.AddConstraint(
            model_name='budget',
            constraint=models.UniqueConstraint(condition=models.Q(('ended_at', None)), fields=('team', 'title'), name='budget_open_once'),
        ),
        migrations.AddConstraint(
            model_name='budgetextra',
            constraint=models.CheckConstraint(condition=models.Q(('amount__gte', 0), ('hours__gte', 0), models.Q(('amount__gt', 0), ('hours__gt', 0), _connector='OR')), name='budgetextra_adds'),
        ),
        migrations.AddIndex(
            model_name='budgetterms',
            index=models.Index(fields=['budget', 'since'], name='budgetterms_since'),
        ),
        migrations.AddField(
            model_name='quotarequest',
            name='amount',
            field=models.DecimalField(decimal_places=2, default=0, max_digits=14),
        ),
        migrations.AddField(
            model_name='quotarequest',
            name='budget',
            field=models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='requests', to='claims.budget'),
        ),
        migrations.AddField(
            model_name='quotarequest',
            name='first',
            field=models.DateField(null=True),
        ),
        migrations.AddField(
            model_name='quotarequest',
            name='hours',
            field=models.DecimalField(decimal_places=2, default=0, max_digits=14),
        ),
        migrations.AddConstraint(
            model_name='quotarequest',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('amount', 0), ('budget', None), ('first', None), ('hours', 0)), models.Q(('budget__isnull', False), ('device_class', ''), ('devices', 0), ('first__isnull', False), ('profile', None), models.Q(('amount__gt', 0), ('hours__gt', 0), _connector='OR')), _connector='OR'), name='quotarequest_of_quota_or_budget'),
        ),
        migrations.RunSQL(ADD_CLASS_USE, "DROP FUNCTION add_class_use CASCADE"),
    ]
