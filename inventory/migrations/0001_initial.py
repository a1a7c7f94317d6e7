
import core.models
import django.contrib.postgres.indexes
import django.core.validators
import django.db.models.deletion
import django.db.models.functions.datetime
import django.db.models.functions.text
import django.utils.timezone
import inventory.models.cluster
import inventory.models.device
from django.db import migrations, models


class Migration(migrations.Migration):

    initial = True

    dependencies = [
    ]

    operations = [
        migrations.CreateModel(
            name='Cluster',
            fields=[
                ('id', models.UUIDField(default=core.models.uuid7, editable=False, primary_key=True, serialize=False)),
                ('name', models.SlugField(max_length=40, unique=True)),
                ('title', models.CharField(blank=True, default='', max_length=80)),
                ('uid', models.CharField(blank=True, default='', editable=False, max_length=64)),
                ('credentials', models.BinaryField()),
                ('credentials_expire_at', models.DateTimeField(editable=False, null=True)),
                ('version', models.CharField(blank=True, default='', editable=False, max_length=32)),
                ('discovery', models.JSONField(default=dict, editable=False)),
                ('simulated', models.BooleanField(default=False)),
                ('read_only', models.BooleanField(default=False)),
                ('enabled', models.BooleanField(default=True)),
                ('write_quotas', models.BooleanField(default=False)),
                ('end_policy', models.CharField(choices=[('run', 'let pods run'), ('ask', 'ask before eviction'), ('evict', 'evict pods')], default='run', max_length=5)),
                ('prometheus_url', models.CharField(blank=True, default='', max_length=200, validators=[inventory.models.cluster.validate_http_url])),
                ('metrics_url', models.CharField(blank=True, default='', max_length=2000, validators=[inventory.models.cluster.validate_exporters])),
                ('grams_per_kwh', models.PositiveIntegerField(blank=True, null=True, validators=[django.core.validators.MinValueValidator(1), django.core.validators.MaxValueValidator(5000)])),
                ('halt_reason', models.TextField(blank=True, default='', editable=False)),
                ('checked_at', models.DateTimeField(editable=False, null=True)),
                ('missing', models.JSONField(default=list, editable=False)),
                ('revision', models.BigIntegerField(default=0, editable=False)),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
            ],
            options={
                'ordering': ('name',),
            },
        ),
        migrations.CreateModel(
            name='Device',
            fields=[
                ('id', models.UUIDField(default=core.models.uuid7, editable=False, primary_key=True, serialize=False)),
                ('driver', models.CharField(max_length=63)),
                ('pool', models.CharField(max_length=253)),
                ('name', models.CharField(max_length=63)),
                ('node_name', models.CharField(blank=True, default='', max_length=253)),
                ('product', models.CharField(blank=True, default='', max_length=120)),
                ('kind', models.CharField(blank=True, default='', max_length=32)),
                ('partition', models.CharField(blank=True, default='', max_length=64)),
                ('uuid', models.CharField(blank=True, default='', max_length=80)),
                ('parent_uuid', models.CharField(blank=True, default='', max_length=80)),
                ('memory_bytes', models.BigIntegerField(null=True)),
                ('attributes', models.JSONField(default=dict)),
                ('capacity', models.JSONField(default=dict)),
                ('counters', models.JSONField(default=list)),
                ('taints', models.JSONField(default=list)),
                ('condition', models.CharField(choices=[('good', 'good'), ('tainted', 'tainted'), ('unhealthy', 'unhealthy')], default='good', max_length=9)),
                ('shareable', models.BooleanField(default=False)),
                ('blocked', models.BooleanField(default=False)),
                ('pool_complete', models.BooleanField(default=True)),
                ('classes', models.JSONField(default=list)),
                ('search', inventory.models.device.StoredColumn(db_persist=True, expression=django.db.models.functions.text.Lower(django.db.models.functions.text.Concat('name', models.Value(' '), 'node_name', models.Value(' '), 'pool', models.Value(' '), 'product', models.Value(' '), 'uuid', models.Value(' '), 'parent_uuid', models.Value(' '), 'partition')), output_field=models.TextField())),
                ('appeared_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('changed_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('gone_at', models.DateTimeField(null=True)),
            ],
            options={
                'ordering': ('node_name', 'name'),
            },
        ),
        migrations.CreateModel(
            name='DeviceClass',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False)),
                ('uid', models.CharField(max_length=64)),
                ('name', models.CharField(max_length=253)),
                ('labels', models.JSONField(default=dict)),
                ('raw', models.JSONField(default=dict)),
                ('resource_version', models.CharField(default='', max_length=40)),
                ('created_at', models.DateTimeField(null=True)),
                ('seen_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('gone_at', models.DateTimeField(null=True)),
                ('revision', models.BigIntegerField(default=0)),
                ('extended_resource', models.CharField(blank=True, default='', max_length=253)),
            ],
            options={
                'verbose_name_plural': 'device classes',
                'ordering': ('name',),
                'abstract': False,
            },
        ),
        migrations.CreateModel(
            name='DeviceTaintRule',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False)),
                ('uid', models.CharField(max_length=64)),
                ('name', models.CharField(max_length=253)),
                ('labels', models.JSONField(default=dict)),
                ('raw', models.JSONField(default=dict)),
                ('resource_version', models.CharField(default='', max_length=40)),
                ('created_at', models.DateTimeField(null=True)),
                ('seen_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('gone_at', models.DateTimeField(null=True)),
                ('revision', models.BigIntegerField(default=0)),
            ],
            options={
                'ordering': ('name',),
                'abstract': False,
            },
        ),
        migrations.CreateModel(
            name='TelemetryAccess',
            fields=[
                ('cluster', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='telemetry_access', serialize=False, to='inventory.cluster')),
                ('authority', models.TextField(blank=True, default='', validators=[inventory.models.cluster.validate_certificates])),
                ('tenant', models.CharField(blank=True, default='', max_length=150, validators=[inventory.models.cluster.validate_tenant])),
                ('matchers', models.CharField(blank=True, default='', max_length=200, validators=[inventory.models.cluster.validate_matchers])),
                ('timeout_seconds', models.PositiveSmallIntegerField(default=10, validators=[django.core.validators.MinValueValidator(1), django.core.validators.MaxValueValidator(60)])),
                ('kind', models.CharField(blank=True, choices=[('', 'No authentication'), ('token', 'Bearer token'), ('password', 'User and password'), ('certificate', 'Client certificate')], default='', editable=False, max_length=11)),
                ('server', models.CharField(blank=True, default='', editable=False, max_length=200)),
                ('sealed', models.BinaryField(default=b'')),
            ],
            options={
                'verbose_name_plural': 'telemetry access',
            },
        ),
        migrations.CreateModel(
            name='Freshness',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('resource', models.CharField(max_length=40)),
                ('resource_version', models.CharField(blank=True, default='', max_length=40)),
                ('listed_at', models.DateTimeField(null=True)),
                ('seen_at', models.DateTimeField(null=True)),
                ('failed_at', models.DateTimeField(null=True)),
                ('error', models.TextField(blank=True, default='')),
                ('failures', models.PositiveIntegerField(default=0)),
                ('holder', models.CharField(blank=True, default='', max_length=40)),
                ('held_until', models.DateTimeField(null=True)),
            ],
            options={
                'verbose_name_plural': 'freshness',
                'ordering': ('resource',),
            },
        ),
        migrations.CreateModel(
            name='Namespace',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False)),
                ('uid', models.CharField(max_length=64)),
                ('name', models.CharField(max_length=253)),
                ('labels', models.JSONField(default=dict)),
                ('raw', models.JSONField(default=dict)),
                ('resource_version', models.CharField(default='', max_length=40)),
                ('created_at', models.DateTimeField(null=True)),
                ('seen_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('gone_at', models.DateTimeField(null=True)),
                ('revision', models.BigIntegerField(default=0)),
            ],
            options={
                'ordering': ('name',),
                'abstract': False,
            },
        ),
        migrations.CreateModel(
            name='Node',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False)),
                ('uid', models.CharField(max_length=64)),
                ('name', models.CharField(max_length=253)),
                ('labels', models.JSONField(default=dict)),
                ('raw', models.JSONField(default=dict)),
                ('resource_version', models.CharField(default='', max_length=40)),
                ('created_at', models.DateTimeField(null=True)),
                ('seen_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('gone_at', models.DateTimeField(null=True)),
                ('revision', models.BigIntegerField(default=0)),
                ('ready', models.BooleanField(default=False)),
                ('unschedulable', models.BooleanField(default=False)),
                ('node_pool', models.CharField(blank=True, default='', max_length=63)),
                ('labels_key', models.CharField(blank=True, default='', max_length=32)),
                ('plugin_devices', models.JSONField(default=dict)),
            ],
            options={
                'ordering': ('name',),
                'abstract': False,
            },
        ),
        migrations.CreateModel(
            name='ObjectEvent',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('kind', models.CharField(max_length=40)),
                ('name', models.CharField(max_length=400)),
                ('uid', models.CharField(blank=True, default='', max_length=64)),
                ('change', models.CharField(choices=[('appeared', 'Appeared'), ('changed', 'Changed'), ('gone', 'Gone')], max_length=8)),
                ('detail', models.JSONField(default=dict)),
                ('at', models.DateTimeField(default=django.utils.timezone.now)),
            ],
            options={
                'ordering': ('-at', '-pk'),
            },
        ),
        migrations.CreateModel(
            name='Pod',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False)),
                ('uid', models.CharField(max_length=64)),
                ('name', models.CharField(max_length=253)),
                ('labels', models.JSONField(default=dict)),
                ('raw', models.JSONField(default=dict)),
                ('resource_version', models.CharField(default='', max_length=40)),
                ('created_at', models.DateTimeField(null=True)),
                ('seen_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('gone_at', models.DateTimeField(null=True)),
                ('revision', models.BigIntegerField(default=0)),
                ('namespace', models.CharField(max_length=63)),
                ('node_name', models.CharField(blank=True, default='', max_length=253)),
                ('phase', models.CharField(blank=True, default='', max_length=16)),
                ('message', models.TextField(blank=True, default='')),
                ('claims', models.JSONField(default=list)),
                ('templates', models.JSONField(default=list)),
                ('extended', models.JSONField(default=dict)),
                ('deleting_since', models.DateTimeField(null=True)),
                ('events_at', models.DateTimeField(null=True)),
            ],
            options={
                'ordering': ('name',),
                'abstract': False,
            },
        ),
        migrations.CreateModel(
            name='PodEvent',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('reason', models.CharField(max_length=128)),
                ('message', models.TextField(blank=True, default='')),
                ('source', models.CharField(blank=True, default='', max_length=253)),
                ('warning', models.BooleanField(default=True)),
                ('count', models.PositiveIntegerField(default=1)),
                ('first_at', models.DateTimeField()),
                ('last_at', models.DateTimeField()),
            ],
            options={
                'ordering': ('-last_at', '-pk'),
            },
        ),
        migrations.CreateModel(
            name='ResourceClaim',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False)),
                ('uid', models.CharField(max_length=64)),
                ('name', models.CharField(max_length=253)),
                ('labels', models.JSONField(default=dict)),
                ('raw', models.JSONField(default=dict)),
                ('resource_version', models.CharField(default='', max_length=40)),
                ('created_at', models.DateTimeField(null=True)),
                ('seen_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('gone_at', models.DateTimeField(null=True)),
                ('revision', models.BigIntegerField(default=0)),
                ('namespace', models.CharField(max_length=63)),
                ('owner', models.CharField(blank=True, default='', max_length=64)),
                ('ownership', models.PositiveSmallIntegerField(choices=[(0, 'Not Compared'), (1, 'Unmanaged'), (2, 'Related'), (3, 'Managed')], db_default=0, default=0)),
                ('state', models.CharField(default='pending', max_length=40)),
                ('origin', models.CharField(choices=[('portal', 'Portal'), ('template', 'Template'), ('extended-resource', 'Extended Resource'), ('foreign', 'Foreign')], default='foreign', max_length=17)),
                ('deleting_since', models.DateTimeField(null=True)),
                ('allocated_at', models.DateTimeField(null=True)),
            ],
            options={
                'ordering': ('name',),
                'abstract': False,
            },
        ),
        migrations.CreateModel(
            name='ResourceClaimTemplate',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False)),
                ('uid', models.CharField(max_length=64)),
                ('name', models.CharField(max_length=253)),
                ('labels', models.JSONField(default=dict)),
                ('raw', models.JSONField(default=dict)),
                ('resource_version', models.CharField(default='', max_length=40)),
                ('created_at', models.DateTimeField(null=True)),
                ('seen_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('gone_at', models.DateTimeField(null=True)),
                ('revision', models.BigIntegerField(default=0)),
                ('namespace', models.CharField(max_length=63)),
                ('owner', models.CharField(blank=True, default='', max_length=64)),
                ('ownership', models.PositiveSmallIntegerField(choices=[(0, 'Not Compared'), (1, 'Unmanaged'), (2, 'Related'), (3, 'Managed')], db_default=0, default=0)),
            ],
            options={
                'ordering': ('name',),
                'abstract': False,
            },
        ),
        migrations.CreateModel(
            name='ResourceSlice',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False)),
                ('uid', models.CharField(max_length=64)),
                ('name', models.CharField(max_length=253)),
                ('labels', models.JSONField(default=dict)),
                ('raw', models.JSONField(default=dict)),
                ('resource_version', models.CharField(default='', max_length=40)),
                ('created_at', models.DateTimeField(null=True)),
                ('seen_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('gone_at', models.DateTimeField(null=True)),
                ('revision', models.BigIntegerField(default=0)),
                ('driver', models.CharField(max_length=63)),
                ('pool', models.CharField(max_length=253)),
                ('generation', models.BigIntegerField()),
                ('pool_slices', models.PositiveIntegerField()),
                ('node_name', models.CharField(blank=True, default='', max_length=253)),
            ],
            options={
                'ordering': ('name',),
                'abstract': False,
            },
        ),
        migrations.CreateModel(
            name='FleetCount',
            fields=[
                ('cluster', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='fleet_count', serialize=False, to='inventory.cluster')),
                ('revision', models.BigIntegerField()),
                ('counted_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('gpus', models.PositiveIntegerField(default=0)),
                ('nodes', models.PositiveIntegerField(default=0)),
                ('groups', models.JSONField(default=list)),
                ('node_pools', models.JSONField(default=list)),
                ('namespaces', models.JSONField(default=list)),
                ('whole_shapes', models.JSONField(default=list)),
                ('plugin_devices', models.JSONField(default=list)),
                ('uses', models.JSONField(default=dict)),
            ],
        ),
        migrations.CreateModel(
            name='DraHealth',
            fields=[
                ('cluster', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='dra_health', serialize=False, to='inventory.cluster')),
                ('started_at', models.DateTimeField(null=True)),
                ('read_at', models.DateTimeField(null=True)),
                ('error', models.TextField(blank=True, default='')),
                ('figures', models.JSONField(default=dict)),
                ('waiting_pods', models.PositiveIntegerField(default=0)),
                ('waiting_since', models.DateTimeField(null=True)),
            ],
        ),
        migrations.CreateModel(
            name='PriceBasis',
            fields=[
                ('id', models.UUIDField(editable=False, primary_key=True, serialize=False)),
                ('driver', models.CharField(max_length=63)),
                ('product', models.CharField(blank=True, max_length=120)),
                ('partition', models.CharField(blank=True, max_length=64)),
                ('labels_key', models.CharField(blank=True, max_length=32)),
                ('capacity_type', models.CharField(blank=True, max_length=9)),
                ('node_labels', models.JSONField(default=dict)),
                ('devices', models.PositiveIntegerField(default=0)),
                ('cluster', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='inventory.cluster')),
            ],
        ),
        migrations.CreateModel(
            name='FleetSpan',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('driver', models.CharField(max_length=63)),
                ('product', models.CharField(blank=True, max_length=120)),
                ('use', models.CharField(choices=[('available', 'available'), ('unmanaged', 'held by unmanaged claims'), ('out-of-service', 'out of service')], max_length=14)),
                ('parts', models.BigIntegerField()),
                ('started_at', models.DateTimeField()),
                ('ended_at', models.DateTimeField(null=True)),
                ('basis', models.ForeignKey(db_index=False, null=True, on_delete=django.db.models.deletion.RESTRICT, related_name='+', to='inventory.pricebasis')),
                ('cluster', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='inventory.cluster')),
            ],
            options={
                'indexes': [models.Index(fields=['ended_at', 'started_at'], name='fleetspan_in')],
                'constraints': [models.UniqueConstraint(condition=models.Q(('ended_at', None)), fields=('cluster', 'driver', 'product', 'basis', 'use'), name='fleetspan_one_open', nulls_distinct=False)],
            },
        ),
        migrations.AddConstraint(
            model_name='cluster',
            constraint=models.UniqueConstraint(condition=models.Q(('uid', ''), _negated=True), fields=('uid',), name='cluster_uid_once', violation_error_message='This cluster is known already, under another name.'),
        ),
        migrations.AddField(
            model_name='device',
            name='cluster',
            field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='devices', to='inventory.cluster'),
        ),
        migrations.AddField(
            model_name='deviceclass',
            name='cluster',
            field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='inventory.cluster'),
        ),
        migrations.AddField(
            model_name='devicetaintrule',
            name='cluster',
            field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='inventory.cluster'),
        ),
        migrations.AddField(
            model_name='freshness',
            name='cluster',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='freshness', to='inventory.cluster'),
        ),
        migrations.AddField(
            model_name='namespace',
            name='cluster',
            field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='inventory.cluster'),
        ),
        migrations.AddField(
            model_name='node',
            name='cluster',
            field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='inventory.cluster'),
        ),
        migrations.AddField(
            model_name='device',
            name='node',
            field=models.ForeignKey(db_index=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='devices', to='inventory.node'),
        ),
        migrations.AddField(
            model_name='objectevent',
            name='cluster',
            field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='inventory.cluster'),
        ),
        migrations.AddField(
            model_name='pod',
            name='cluster',
            field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='inventory.cluster'),
        ),
        migrations.AddField(
            model_name='podevent',
            name='pod',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='events', to='inventory.pod'),
        ),
        migrations.AddField(
            model_name='resourceclaim',
            name='cluster',
            field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='inventory.cluster'),
        ),
        migrations.AddField(
            model_name='device',
            name='held_by',
            field=models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='devices', to='inventory.resourceclaim'),
        ),
        migrations.AddField(
            model_name='resourceclaimtemplate',
            name='cluster',
            field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='inventory.cluster'),
        ),
        migrations.AddField(
            model_name='resourceslice',
            name='cluster',
            field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='inventory.cluster'),
        ),
        migrations.AddField(
            model_name='device',
            name='slice',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='devices', to='inventory.resourceslice'),
        ),
        migrations.AddIndex(
            model_name='deviceclass',
            index=models.Index(condition=models.Q(('gone_at', None)), fields=['cluster', 'name'], name='deviceclass_name'),
        ),
        migrations.AddIndex(
            model_name='deviceclass',
            index=models.Index(fields=['cluster', 'revision'], name='deviceclass_rev'),
        ),
        migrations.AddConstraint(
            model_name='deviceclass',
            constraint=models.UniqueConstraint(fields=('cluster', 'uid'), name='deviceclass_once'),
        ),
        migrations.AddIndex(
            model_name='devicetaintrule',
            index=models.Index(condition=models.Q(('gone_at', None)), fields=['cluster', 'name'], name='devicetaintrule_name'),
        ),
        migrations.AddIndex(
            model_name='devicetaintrule',
            index=models.Index(fields=['cluster', 'revision'], name='devicetaintrule_rev'),
        ),
        migrations.AddConstraint(
            model_name='devicetaintrule',
            constraint=models.UniqueConstraint(fields=('cluster', 'uid'), name='devicetaintrule_once'),
        ),
        migrations.AddConstraint(
            model_name='freshness',
            constraint=models.UniqueConstraint(fields=('cluster', 'resource'), name='freshness_once'),
        ),
        migrations.AddIndex(
            model_name='namespace',
            index=models.Index(condition=models.Q(('gone_at', None)), fields=['cluster', 'name'], name='namespace_name'),
        ),
        migrations.AddIndex(
            model_name='namespace',
            index=models.Index(fields=['cluster', 'revision'], name='namespace_rev'),
        ),
        migrations.AddConstraint(
            model_name='namespace',
            constraint=models.UniqueConstraint(fields=('cluster', 'uid'), name='namespace_once'),
        ),
        migrations.AddIndex(
            model_name='node',
            index=models.Index(condition=models.Q(('gone_at', None)), fields=['cluster', 'name'], name='node_name'),
        ),
        migrations.AddIndex(
            model_name='node',
            index=models.Index(fields=['cluster', 'revision'], name='node_rev'),
        ),
        migrations.AddIndex(
            model_name='node',
            index=models.Index(condition=models.Q(('gone_at', None)), fields=['name', 'id'], name='node_by_name'),
        ),
        migrations.AddIndex(
            model_name='node',
            index=models.Index(condition=models.Q(('gone_at', None), models.Q(('plugin_devices', {}), _negated=True)), fields=['cluster'], name='node_with_plugin'),
        ),
        migrations.AddConstraint(
            model_name='node',
            constraint=models.UniqueConstraint(fields=('cluster', 'uid'), name='node_once'),
        ),
        migrations.AddIndex(
            model_name='objectevent',
            index=models.Index(fields=['cluster', 'kind', 'name', '-at'], name='objectevent_of'),
        ),
        migrations.AddIndex(
            model_name='objectevent',
            index=models.Index(fields=['cluster', 'at', 'id'], name='objectevent_latest'),
        ),
        migrations.AddIndex(
            model_name='pod',
            index=models.Index(condition=models.Q(('gone_at', None)), fields=['cluster', 'namespace', 'name'], name='pod_name'),
        ),
        migrations.AddIndex(
            model_name='pod',
            index=models.Index(fields=['cluster', 'revision'], name='pod_rev'),
        ),
        migrations.AddIndex(
            model_name='pod',
            index=django.contrib.postgres.indexes.GinIndex(fields=['claims'], name='pod_claims'),
        ),
        migrations.AddIndex(
            model_name='pod',
            index=models.Index(condition=models.Q(('gone_at', None), models.Q(('phase__in', ('', 'Pending')), ('deleting_since__isnull', False), _connector='OR')), fields=['cluster'], name='pod_moving'),
        ),
        migrations.AddIndex(
            model_name='pod',
            index=models.Index(condition=models.Q(('gone_at', None), _negated=True), fields=['cluster', 'gone_at'], name='pod_gone'),
        ),
        migrations.AddIndex(
            model_name='pod',
            index=models.Index(condition=models.Q(('gone_at', None), models.Q(('extended', {}), _negated=True)), fields=['cluster', 'namespace'], name='pod_extended'),
        ),
        migrations.AddIndex(
            model_name='pod',
            index=models.Index(condition=models.Q(('gone_at', None), models.Q(('extended', {}), _negated=True)), fields=['cluster', 'node_name'], name='pod_extended_on_node'),
        ),
        migrations.AddConstraint(
            model_name='pod',
            constraint=models.UniqueConstraint(fields=('cluster', 'uid'), name='pod_once'),
        ),
        migrations.AddIndex(
            model_name='resourceclaim',
            index=models.Index(condition=models.Q(('gone_at', None)), fields=['cluster', 'namespace', 'name'], name='resourceclaim_name'),
        ),
        migrations.AddIndex(
            model_name='resourceclaim',
            index=models.Index(fields=['cluster', 'revision'], name='resourceclaim_rev'),
        ),
        migrations.AddIndex(
            model_name='resourceclaim',
            index=models.Index(condition=models.Q(('owner', ''), _negated=True), fields=['owner'], name='resourceclaim_owner'),
        ),
        migrations.AddIndex(
            model_name='resourceclaim',
            index=models.Index(condition=models.Q(('gone_at', None), ('ownership__lt', 3)), fields=['cluster', 'namespace'], name='resourceclaim_unowned'),
        ),
        migrations.AddIndex(
            model_name='resourceclaim',
            index=models.Index(condition=models.Q(('gone_at', None)), fields=['cluster', 'state'], name='resourceclaim_state'),
        ),
        migrations.AddConstraint(
            model_name='resourceclaim',
            constraint=models.UniqueConstraint(fields=('cluster', 'uid'), name='resourceclaim_once'),
        ),
        migrations.AddIndex(
            model_name='resourceclaimtemplate',
            index=models.Index(condition=models.Q(('gone_at', None)), fields=['cluster', 'namespace', 'name'], name='resourceclaimtemplate_name'),
        ),
        migrations.AddIndex(
            model_name='resourceclaimtemplate',
            index=models.Index(fields=['cluster', 'revision'], name='resourceclaimtemplate_rev'),
        ),
        migrations.AddIndex(
            model_name='resourceclaimtemplate',
            index=models.Index(condition=models.Q(('owner', ''), _negated=True), fields=['owner'], name='resourceclaimtemplate_owner'),
        ),
        migrations.AddIndex(
            model_name='resourceclaimtemplate',
            index=models.Index(condition=models.Q(('gone_at', None), ('ownership__lt', 3)), fields=['cluster', 'namespace'], name='resourceclaimtemplate_unowned'),
        ),
        migrations.AddConstraint(
            model_name='resourceclaimtemplate',
            constraint=models.UniqueConstraint(fields=('cluster', 'uid'), name='resourceclaimtemplate_once'),
        ),
        migrations.AddIndex(
            model_name='resourceslice',
            index=models.Index(condition=models.Q(('gone_at', None)), fields=['cluster', 'name'], name='resourceslice_name'),
        ),
        migrations.AddIndex(
            model_name='resourceslice',
            index=models.Index(fields=['cluster', 'revision'], name='resourceslice_rev'),
        ),
        migrations.AddIndex(
            model_name='resourceslice',
            index=models.Index(condition=models.Q(('gone_at', None)), fields=['cluster', 'driver', 'pool'], name='slice_pool'),
        ),
        migrations.AddConstraint(
            model_name='resourceslice',
            constraint=models.UniqueConstraint(fields=('cluster', 'uid'), name='resourceslice_once'),
        ),
        migrations.AddIndex(
            model_name='device',
            index=models.Index(condition=models.Q(('gone_at', None)), fields=['node_name', 'name', 'id'], include=('search',), name='device_by_node'),
        ),
        migrations.AddIndex(
            model_name='device',
            index=models.Index(condition=models.Q(('gone_at', None)), fields=['product', 'partition', 'id'], name='device_by_product'),
        ),
        migrations.AddIndex(
            model_name='device',
            index=models.Index(condition=models.Q(('gone_at', None)), fields=['product', 'cluster', 'node_name', 'pool', 'name'], name='device_on_map'),
        ),
        migrations.AddIndex(
            model_name='device',
            index=models.Index(fields=['node'], include=('held_by', 'condition', 'pool_complete', 'blocked', 'gone_at'), name='device_of_node'),
        ),
        migrations.AddIndex(
            model_name='device',
            index=models.Index(condition=models.Q(('gone_at', None), models.Q(('parent_uuid', ''), _negated=True)), fields=['cluster', 'parent_uuid'], name='device_of_gpu'),
        ),
        migrations.AddIndex(
            model_name='device',
            index=models.Index(condition=models.Q(('gone_at', None), models.Q(('counters', []), _negated=True)), fields=['cluster', 'pool'], name='device_counting'),
        ),
        migrations.AddIndex(
            model_name='device',
            index=django.contrib.postgres.indexes.GinIndex(fields=['classes'], name='device_classes'),
        ),
        migrations.AddConstraint(
            model_name='device',
            constraint=models.UniqueConstraint(fields=('cluster', 'driver', 'pool', 'name'), name='device_once'),
        ),
        migrations.CreateModel(
            name='NodeCount',
            fields=[
                ('node', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='count', serialize=False, to='inventory.node')),
                ('devices', models.PositiveIntegerField()),
                ('held', models.PositiveIntegerField()),
                ('free', models.PositiveIntegerField()),
            ],
        ),
        migrations.CreateModel(
            name='DeviceUtilization',
            fields=[
                ('device', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='utilization', serialize=False, to='inventory.device')),
                ('use', models.CharField(choices=[('idle', 'Idle'), ('no-telemetry', 'No telemetry')], max_length=12)),
                ('since', models.DateTimeField()),
                ('held_by', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='inventory.resourceclaim')),
            ],
        ),
        migrations.CreateModel(
            name='HardwareEvent',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('driver', models.CharField(max_length=63)),
                ('pool', models.CharField(max_length=253)),
                ('device', models.CharField(max_length=63)),
                ('at', models.DateTimeField()),
                ('kind', models.CharField(choices=[('xid', 'XID'), ('ecc', 'uncorrected ECC error'), ('remapped', 'row of memory remapped'), ('remap-failed', 'row of memory not remapped')], max_length=12)),
                ('code', models.PositiveIntegerField(null=True)),
                ('count', models.PositiveIntegerField(default=1)),
                ('cluster', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='inventory.cluster')),
            ],
            options={
                'ordering': ('-at', 'kind'),
                'constraints': [models.UniqueConstraint(fields=('cluster', 'driver', 'pool', 'device', 'at', 'kind'), name='hardwareevent_once')],
            },
        ),
        # A slice that changes rewrites all its devices, which lie on one page: its other half takes the new rows, and
        # no index changes (HOT). A table with updates is half empty in any case.
        migrations.RunSQL("ALTER TABLE inventory_device SET (fillfactor = 50)", migrations.RunSQL.noop),
    ]
