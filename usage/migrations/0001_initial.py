
import datetime

import core.models
import django.contrib.postgres.fields
import django.db.models.deletion
import inventory.models.cluster
import usage.models
from django.conf import settings
from django.db import migrations, models

# Rows of closed months and corrections do not change, whoever tries (docs/usage-and-cost.md).
CLOSED = """
CREATE FUNCTION usage_refuse_closed() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    of_day date;
BEGIN
    EXECUTE format('SELECT min(%1$I) FROM changed, usage_storeddays WHERE %1$I < closed_until', TG_ARGV[0]) INTO of_day;
    IF of_day IS NOT NULL THEN
        RAISE EXCEPTION '% is in a closed month', of_day USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NULL;
END $$;
CREATE FUNCTION usage_refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'a correction does not change' USING ERRCODE = 'restrict_violation';
END $$;
CREATE TRIGGER closed BEFORE UPDATE OR DELETE ON usage_correction
    FOR EACH ROW EXECUTE FUNCTION usage_refuse_change();
""" + "".join(
    f"""
CREATE TRIGGER closed_{event} AFTER {event} ON {table} REFERENCING {rows} TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION usage_refuse_closed('{column}');"""
    for table, column in (
        ("usage_dailyuse", "day"), ("usage_dailysum", "day"), ("usage_dailyactivity", "day"), ("usage_monthlysum", "month")
    )
    for event, rows in (("INSERT", "NEW"), ("UPDATE", "NEW"), ("DELETE", "OLD"))
)

# Tables of rollups, which Django cannot create: partitions of days and months (usage/partitions.py). The default
# partition takes what no other does, so that nothing is lost if the task that creates them does not run.
MEASURED = """
    claim_id uuid NOT NULL, driver varchar(63) NOT NULL, pool varchar(253) NOT NULL, device varchar(63) NOT NULL,
    bucket timestamptz NOT NULL, samples integer NOT NULL DEFAULT 0 CHECK (samples >= 0), activity float8,
    activity_min real, activity_max real, sm_activity real, tensor_activity real, memory_activity real,
    memory_bytes bigint, memory_total bigint, power_watts real, energy_joules real, temperature real,
    pcie_bytes real, nvlink_bytes real, ecc_corrected integer, ecc_uncorrected integer"""
FIVE_MINUTES = f"{MEASURED}, slots integer NOT NULL DEFAULT 0, activities real[] NOT NULL DEFAULT '{{}}'"
HOUR = f"{MEASURED}, activity_p95 real, memory_p95 bigint"


def partitioned(table, columns, fillfactor=100):
    """Create a partitioned table. A row of five minutes is updated nine times: it finds room on its page (HOT)."""
    return [
        f"CREATE TABLE {table} ({columns}, PRIMARY KEY (claim_id, driver, pool, device, bucket)) PARTITION BY RANGE (bucket)",
        # Small, and enough to find the rows of one hour: they lie together.
        f"CREATE INDEX {table}_bucket ON {table} USING brin (bucket) WITH (pages_per_range = 32, autosummarize = on)",
        f"CREATE TABLE {table}_default PARTITION OF {table} DEFAULT WITH (fillfactor = {fillfactor})",
    ]


def rollup_model(name, more):
    """Return the state of such a table: fields of its own after those of both."""
    real = usage.models.RealField
    return migrations.CreateModel(
        name=name,
        fields=[
            ('pk', models.CompositePrimaryKey('claim_id', 'driver', 'pool', 'device', 'bucket', blank=True, editable=False, primary_key=True, serialize=False)),
            ('driver', models.CharField(max_length=63)),
            ('pool', models.CharField(max_length=253)),
            ('device', models.CharField(max_length=63)),
            ('bucket', models.DateTimeField()),
            ('samples', models.PositiveIntegerField(db_default=0)),
            ('activity', models.FloatField(null=True)),
            *((of, real(null=True)) for of in ('activity_min', 'activity_max', 'sm_activity', 'tensor_activity', 'memory_activity')),
            ('memory_bytes', models.BigIntegerField(null=True)),
            ('memory_total', models.BigIntegerField(null=True)),
            *((of, real(null=True)) for of in ('power_watts', 'energy_joules', 'temperature', 'pcie_bytes', 'nvlink_bytes')),
            ('ecc_corrected', models.IntegerField(null=True)),
            ('ecc_uncorrected', models.IntegerField(null=True)),
            *more,
            ('claim', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='%(class)ss', to='claims.claim')),
        ],
        options={'ordering': ('bucket',), 'abstract': False},
    )


FIVE_MINUTES_FIELDS = [
    ('slots', models.IntegerField(db_default=0)),
    ('activities', django.contrib.postgres.fields.ArrayField(base_field=usage.models.RealField(), db_default=[], size=None)),
]
HOUR_FIELDS = [
    ('activity_p95', usage.models.RealField(null=True)),
    ('memory_p95', models.BigIntegerField(null=True)),
]


class Migration(migrations.Migration):

    initial = True

    dependencies = [
        ('claims', '0001_initial'),
        ('inventory', '0001_initial'),
        ('teams', '0001_initial'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='Collection',
            fields=[
                ('cluster', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='collection', serialize=False, to='inventory.cluster')),
                ('sampled_at', models.DateTimeField(null=True)),
                ('succeeded_at', models.DateTimeField(null=True)),
                ('devices', models.PositiveIntegerField(default=0)),
                ('attributed', models.PositiveIntegerField(default=0)),
                ('failed_at', models.DateTimeField(null=True)),
                ('error', models.TextField(blank=True, default='')),
                ('idle', models.JSONField(default=list)),
            ],
        ),
        migrations.CreateModel(
            name='CollectedBucket',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('bucket', models.DateTimeField()),
                ('attributed', models.PositiveIntegerField(default=0)),
                ('tried_at', models.DateTimeField(null=True)),
                ('filled', models.PositiveIntegerField(default=0)),
                ('lacking', models.PositiveIntegerField(default=0)),
                ('cluster', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='inventory.cluster')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('cluster', 'bucket'), name='collectedbucket_once')],
            },
        ),
        migrations.CreateModel(
            name='InexactTelemetry',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('driver', models.CharField(max_length=63)),
                ('pool', models.CharField(max_length=253)),
                ('device', models.CharField(max_length=63)),
                ('why', models.CharField(choices=[('instance', 'joined by the GPU and the MIG profile'), ('twins', 'left out beside an equal partition of the same GPU')], max_length=8)),
                ('claim', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='claims.claim')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('claim', 'driver', 'pool', 'device', 'why'), name='inexacttelemetry_once')],
            },
        ),
        migrations.CreateModel(
            name='StoredDays',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('until', models.DateField()),
                ('months_until', models.DateField(null=True)),
                ('closed_until', models.DateField(null=True)),
                ('check_from', models.DateField(null=True)),
            ],
            options={
                'constraints': [models.CheckConstraint(condition=models.Q(('pk', 1)), name='storeddays_one'), models.CheckConstraint(condition=models.Q(('closed_until', None), ('until__gte', models.F('closed_until')), _connector='OR'), name='storeddays_closed_is_stored')],
            },
        ),
        migrations.CreateModel(
            name='DailyActivity',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('day', models.DateField()),
                ('driver', models.CharField(blank=True, max_length=63)),
                ('product', models.CharField(blank=True, max_length=120)),
                ('partition', models.CharField(blank=True, max_length=64)),
                ('capacity_type', models.CharField(blank=True, max_length=9)),
                ('held', models.DecimalField(decimal_places=0, max_digits=30)),
                ('measured', models.DecimalField(decimal_places=0, max_digits=30)),
                ('used', models.DecimalField(decimal_places=0, max_digits=30)),
                ('activity', models.FloatField()),
                ('rollups', models.FloatField()),
                ('joules', models.FloatField(null=True)),
                ('joules_estimated', models.FloatField(default=0)),
                ('grams_per_kwh', models.PositiveIntegerField(null=True)),
                ('claim', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='claims.claim')),
            ],
            options={
                'indexes': [models.Index(fields=['day'], name='dailyactivity_day')],
                'constraints': [models.UniqueConstraint(fields=('claim', 'day', 'driver', 'product', 'partition', 'capacity_type'), name='dailyactivity_once'), models.CheckConstraint(condition=models.Q(('held__gt', 0), ('measured__lte', models.F('held')), ('used__gte', 0), ('used__lte', models.F('measured'))), name='dailyactivity_parts')],
            },
        ),
        migrations.CreateModel(
            name='DailySum',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('day', models.DateField()),
                ('dimension', models.CharField(choices=[('team', 'Team'), ('person', 'Person'), ('profile', 'Profile'), ('kind', 'Kind'), ('capacity', 'Capacity'), ('fleet', 'Fleet')], max_length=8)),
                ('key', models.UUIDField(null=True)),
                ('cluster', models.UUIDField(null=True)),
                ('product', models.CharField(blank=True, max_length=120)),
                ('partition', models.CharField(blank=True, max_length=64)),
                ('currency', models.CharField(blank=True, max_length=3)),
                ('held', models.DecimalField(decimal_places=0, max_digits=30)),
                ('held_measured', models.DecimalField(decimal_places=0, max_digits=30)),
                ('held_used', models.DecimalField(decimal_places=0, max_digits=30)),
                ('unpriced', models.DecimalField(decimal_places=0, max_digits=30)),
                ('unpriced_measured', models.DecimalField(decimal_places=0, max_digits=30)),
                ('unpriced_used', models.DecimalField(decimal_places=0, max_digits=30)),
                ('amount', models.DecimalField(decimal_places=0, max_digits=40)),
                ('amount_measured', models.DecimalField(decimal_places=0, max_digits=40)),
                ('amount_used', models.DecimalField(decimal_places=0, max_digits=40)),
                ('joules', models.FloatField(null=True)),
                ('joules_estimated', models.FloatField(default=0)),
                ('grams', models.FloatField(null=True)),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('dimension', 'day', 'key', 'cluster', 'product', 'partition', 'currency'), include=('held', 'unpriced', 'amount', 'amount_measured', 'amount_used'), name='dailysum_once', nulls_distinct=False)],
            },
        ),
        migrations.CreateModel(
            name='MonthlySum',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('month', models.DateField()),
                ('dimension', models.CharField(choices=[('team', 'Team'), ('person', 'Person'), ('profile', 'Profile'), ('claim', 'Claim')], max_length=8)),
                ('key', models.UUIDField()),
                ('currency', models.CharField(blank=True, max_length=3)),
                ('held', models.DecimalField(decimal_places=0, max_digits=30)),
                ('unpriced', models.DecimalField(decimal_places=0, max_digits=30)),
                ('amount', models.DecimalField(decimal_places=0, max_digits=40)),
                ('idle', models.DecimalField(decimal_places=0, max_digits=40)),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('dimension', 'month', 'key', 'currency'), include=('held', 'unpriced', 'amount', 'idle'), name='monthlysum_once')],
            },
        ),
        migrations.CreateModel(
            name='Rate',
            fields=[
                ('id', models.UUIDField(default=core.models.uuid7, editable=False, primary_key=True, serialize=False)),
                ('title', models.CharField(max_length=80, verbose_name='title')),
                ('driver', models.CharField(blank=True, default='', max_length=63, verbose_name='driver')),
                ('product', models.CharField(blank=True, default='', max_length=120, verbose_name='product')),
                ('expression', models.TextField(blank=True, default='', verbose_name='expression')),
                ('per_hour', models.DecimalField(decimal_places=4, max_digits=12, verbose_name='price per hour')),
                ('currency', models.CharField(default='EUR', max_length=3, verbose_name='currency')),
                ('valid_from', models.DateTimeField(verbose_name='valid from')),
                ('valid_until', models.DateTimeField(blank=True, null=True, verbose_name='valid until')),
                ('cluster', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='inventory.cluster', verbose_name='cluster')),
            ],
            options={
                'ordering': ('product', '-valid_from'),
                'constraints': [models.CheckConstraint(condition=models.Q(('per_hour__gte', 0)), name='rate_not_negative'), models.CheckConstraint(condition=models.Q(('currency__regex', '^[A-Z]{3}$')), name='rate_currency_iso'), models.CheckConstraint(condition=models.Q(('valid_until', None), ('valid_until__gt', models.F('valid_from')), _connector='OR'), name='rate_ends_later')],
            },
        ),
        migrations.CreateModel(
            name='RateMatch',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('basis', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='inventory.pricebasis')),
                ('rate', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='matches', to='usage.rate')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('rate', 'basis'), name='ratematch_once')],
            },
        ),
        migrations.CreateModel(
            name='DailyUse',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('day', models.DateField()),
                ('driver', models.CharField(blank=True, max_length=63)),
                ('product', models.CharField(blank=True, max_length=120)),
                ('partition', models.CharField(blank=True, max_length=64)),
                ('capacity_type', models.CharField(blank=True, max_length=9)),
                ('currency', models.CharField(blank=True, max_length=3)),
                ('held', models.DecimalField(decimal_places=0, max_digits=30)),
                ('amount', models.DecimalField(decimal_places=0, max_digits=40)),
                ('claim', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='claims.claim')),
                ('owner', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('rate', models.ForeignKey(db_index=False, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='usage.rate')),
                ('team', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='teams.team')),
            ],
            options={
                'indexes': [models.Index(fields=['team', 'day'], name='dailyuse_team'), models.Index(fields=['owner', 'day'], name='dailyuse_owner'), models.Index(fields=['day'], name='dailyuse_day')],
                'constraints': [models.UniqueConstraint(fields=('claim', 'day', 'driver', 'product', 'partition', 'capacity_type', 'rate'), name='dailyuse_once', nulls_distinct=False)],
            },
        ),
        migrations.CreateModel(
            name='ClosedMonth',
            fields=[
                ('id', models.UUIDField(default=core.models.uuid7, editable=False, primary_key=True, serialize=False)),
                ('month', models.DateField(unique=True)),
                ('closed_at', models.DateTimeField(auto_now_add=True)),
                ('by', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'ordering': ('-month',),
            },
        ),
        migrations.CreateModel(
            name='Correction',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('booked_on', models.DateField()),
                ('recorded_at', models.DateTimeField(auto_now_add=True)),
                ('day', models.DateField()),
                ('driver', models.CharField(blank=True, max_length=63)),
                ('product', models.CharField(blank=True, max_length=120)),
                ('partition', models.CharField(blank=True, max_length=64)),
                ('capacity_type', models.CharField(blank=True, max_length=9)),
                ('currency', models.CharField(blank=True, max_length=3)),
                ('held', models.DecimalField(decimal_places=0, max_digits=30)),
                ('amount', models.DecimalField(decimal_places=0, max_digits=40)),
                ('claim', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='claims.claim')),
                ('owner', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('rate', models.ForeignKey(db_index=False, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='usage.rate')),
                ('team', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='teams.team')),
            ],
            options={
                'indexes': [models.Index(fields=['team', 'booked_on'], name='correction_team'), models.Index(fields=['booked_on'], name='correction_booked'), models.Index(fields=['day'], name='correction_day')],
            },
        ),
        migrations.RunSQL(
            [*partitioned("usage_rollup", FIVE_MINUTES, fillfactor=70), *partitioned("usage_hourlyrollup", HOUR)],
            "DROP TABLE usage_rollup, usage_hourlyrollup",
            state_operations=[rollup_model("Rollup", FIVE_MINUTES_FIELDS), rollup_model("HourlyRollup", HOUR_FIELDS)],
        ),
        migrations.CreateModel(
            name='StoredHour',
            fields=[
                ('hour', models.DateTimeField(primary_key=True, serialize=False)),
                ('is_final', models.BooleanField(default=False)),
            ],
        ),
        migrations.CreateModel(
            name='CounterReading',
            fields=[
                ('cluster', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='+', serialize=False, to='inventory.cluster')),
                ('readings', models.JSONField(default=dict)),
            ],
        ),
        migrations.RunSQL(CLOSED, "DROP FUNCTION usage_refuse_closed CASCADE; DROP FUNCTION usage_refuse_change CASCADE"),
        migrations.CreateModel(
            name='IdlePolicy',
            fields=[
                ('id', models.PositiveSmallIntegerField(default=1, editable=False, primary_key=True, serialize=False)),
                ('notify_owner_after', models.DurationField(default=datetime.timedelta(seconds=7200), null=True)),
                ('snoozes', models.PositiveSmallIntegerField(default=2)),
                ('snooze_for', models.DurationField(default=datetime.timedelta(days=1))),
                ('notify_leads_after', models.DurationField(default=datetime.timedelta(days=1), null=True)),
                ('release_after', models.DurationField(default=None, null=True)),
            ],
            options={
                'constraints': [
                    models.CheckConstraint(condition=models.Q(('pk', 1)), name='idlepolicy_one'),
                    models.CheckConstraint(condition=models.Q(('release_after', None), ('release_after__gt', models.F('notify_leads_after')), _connector='OR'), name='idlepolicy_releases_last'),
                ],
            },
        ),
        migrations.CreateModel(
            name='IdlePeriod',
            fields=[
                ('id', models.UUIDField(default=core.models.uuid7, editable=False, primary_key=True, serialize=False)),
                ('since', models.DateTimeField()),
                ('noticed_at', models.DateTimeField()),
                ('ended_at', models.DateTimeField(null=True)),
                ('was_freed', models.BooleanField(default=False)),
                ('devices', models.PositiveIntegerField()),
                ('per_hour', models.DecimalField(decimal_places=4, max_digits=14, null=True)),
                ('currency', models.CharField(blank=True, default='', max_length=3)),
                ('owner_notified_at', models.DateTimeField(null=True)),
                ('snoozed_until', models.DateTimeField(null=True)),
                ('snoozes', models.PositiveSmallIntegerField(default=0)),
                ('lead_notified_at', models.DateTimeField(null=True)),
                ('claim', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='idle_periods', to='claims.claim')),
                ('team', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='teams.team')),
            ],
            options={
                'indexes': [
                    models.Index(condition=models.Q(('ended_at', None)), fields=['team', 'since'], name='idleperiod_open'),
                    models.Index(fields=['ended_at'], name='idleperiod_ended'),
                ],
                'constraints': [models.UniqueConstraint(condition=models.Q(('ended_at', None)), fields=('claim',), name='idleperiod_one_open')],
            },
        ),
        migrations.CreateModel(
            name='Alert',
            fields=[
                ('id', models.UUIDField(default=core.models.uuid7, editable=False, primary_key=True, serialize=False)),
                ('condition', models.CharField(choices=[('claim-pending', 'Claim is pending'), ('claim-idle', 'Claim is idle'), ('device-tainted', 'Held device is tainted'), ('quota-nearly-used', 'Quota is nearly used'), ('budget-runs-out', 'Budget runs out'), ('no-telemetry', 'No telemetry'), ('sync-stale', 'Mirror is stale'), ('dra-scheduler', 'Scheduler fails to allocate'), ('dra-controller', 'ResourceClaims are not created'), ('dra-kubelet', 'Devices are not prepared')], max_length=17)),
                ('key', models.CharField(max_length=120)),
                ('text', models.TextField()),
                ('url', models.CharField(max_length=400)),
                ('since', models.DateTimeField()),
                ('opened_at', models.DateTimeField()),
                ('notified_at', models.DateTimeField(null=True)),
                ('resolved_at', models.DateTimeField(null=True)),
                ('claim', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='claims.claim')),
                ('cluster', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='inventory.cluster')),
                ('team', models.ForeignKey(db_index=False, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='teams.team')),
            ],
            options={
                'indexes': [models.Index(fields=['team', 'since'], name='alert_of_team'), models.Index(fields=['resolved_at', 'since'], name='alert_resolved')],
                'constraints': [models.UniqueConstraint(condition=models.Q(('resolved_at', None)), fields=('key',), name='alert_one_open')],
            },
        ),
        migrations.CreateModel(
            name='SizeCheck',
            fields=[
                ('claim', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='size_check', serialize=False, to='claims.claim')),
                ('checked_at', models.DateTimeField()),
                ('verdict', models.CharField(choices=[('oversized', 'Oversized'), ('fits', 'No cheaper profile is enough'), ('unknown', 'Cannot be judged'), ('unmeasured', 'Too little telemetry')], max_length=10)),
                ('measured', models.DurationField(null=True)),
                ('activity', models.FloatField(null=True)),
                ('memory_bytes', models.BigIntegerField(null=True)),
                ('devices', models.PositiveIntegerField()),
                ('per_hour', models.DecimalField(decimal_places=4, max_digits=14, null=True)),
                ('currency', models.CharField(blank=True, default='', max_length=3)),
                ('saves', models.DecimalField(decimal_places=4, max_digits=14, null=True)),
                ('caveat', models.CharField(blank=True, default='', max_length=80)),
                ('profile', models.ForeignKey(db_index=False, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='claims.profile')),
                ('team', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='teams.team')),
            ],
            options={
                'indexes': [models.Index(condition=models.Q(('verdict', 'oversized')), fields=['team', '-saves'], name='sizecheck_team')],
                'constraints': [models.CheckConstraint(condition=models.Q(models.Q(('verdict', 'oversized'), _negated=True), models.Q(('profile__isnull', False), ('saves__gt', 0)), _connector='OR'), name='sizecheck_saves')],
            },
        ),
        migrations.CreateModel(
            name='SavedReport',
            fields=[
                ('id', models.UUIDField(default=core.models.uuid7, editable=False, primary_key=True, serialize=False)),
                ('name', models.CharField(max_length=60)),
                ('query', models.CharField(blank=True, max_length=500)),
                ('monthly', models.BooleanField(default=False)),
                ('mailed_for', models.DateField(null=True)),
                ('user', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='saved_reports', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'ordering': ('name',),
                'indexes': [models.Index(condition=models.Q(('monthly', True)), fields=['mailed_for'], name='savedreport_monthly')],
                'constraints': [models.UniqueConstraint(fields=('user', 'name'), name='savedreport_once')],
            },
        ),
        migrations.CreateModel(
            name='TrackingServer',
            fields=[
                ('id', models.UUIDField(default=core.models.uuid7, editable=False, primary_key=True, serialize=False)),
                ('url', models.CharField(max_length=200, validators=[inventory.models.cluster.validate_http_url], verbose_name='address')),
                ('page_url', models.CharField(blank=True, default='', max_length=200, validators=[inventory.models.cluster.validate_http_url])),
                ('authority', models.TextField(blank=True, default='', validators=[inventory.models.cluster.validate_certificates])),
                ('kind', models.CharField(blank=True, choices=[('', 'No authentication'), ('token', 'Bearer token'), ('password', 'User and password'), ('certificate', 'Client certificate')], default='', max_length=11)),
                ('server', models.CharField(blank=True, default='', editable=False, max_length=200)),
                ('sealed', models.BinaryField(default=b'')),
                ('begun_at', models.DateTimeField(null=True)),
                ('swept_at', models.DateTimeField(null=True)),
                ('succeeded_at', models.DateTimeField(null=True)),
                ('failed_at', models.DateTimeField(null=True)),
                ('error', models.TextField(blank=True, default='')),
                ('team', models.OneToOneField(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='tracking_server', to='teams.team')),
            ],
            options={
                'constraints': [models.UniqueConstraint(models.Value(1), condition=models.Q(('team', None)), name='trackingserver_one_of_installation')],
            },
        ),
        migrations.CreateModel(
            name='RunsLink',
            fields=[
                ('id', models.UUIDField(default=core.models.uuid7, editable=False, primary_key=True, serialize=False)),
                ('url', models.CharField(max_length=300, verbose_name='address')),
                ('team', models.OneToOneField(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='runs_link', to='teams.team')),
            ],
            options={
                'constraints': [models.UniqueConstraint(models.Value(1), condition=models.Q(('team', None)), name='runslink_one_of_installation')],
            },
        ),
        migrations.CreateModel(
            name='TrackedRun',
            fields=[
                ('id', models.UUIDField(default=core.models.uuid7, editable=False, primary_key=True, serialize=False)),
                ('run_id', models.CharField(max_length=64)),
                ('experiment_id', models.CharField(max_length=64)),
                ('experiment', models.CharField(blank=True, max_length=250)),
                ('name', models.CharField(blank=True, max_length=250)),
                ('status', models.CharField(max_length=16)),
                ('started_at', models.DateTimeField()),
                ('ended_at', models.DateTimeField(null=True)),
                ('claim', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='claims.claim')),
                ('tracking_server', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='runs', to='usage.trackingserver')),
            ],
            options={
                'ordering': ('-started_at', '-id'),
                'indexes': [
                    models.Index(fields=['claim', '-started_at', '-id'], name='trackedrun_of_claim'),
                    models.Index(fields=['tracking_server', 'started_at'], name='trackedrun_started'),
                ],
                'constraints': [models.UniqueConstraint(fields=('tracking_server', 'run_id'), name='trackedrun_once')],
            },
        ),
    ]
