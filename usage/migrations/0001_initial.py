
import datetime

import core.models
import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

# Rows of closed months and corrections do not change, whoever tries (docs/usage-and-cost.md).
CLOSED = """
CREATE FUNCTION usage_refuse_closed_day() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    of_day date := CASE TG_OP WHEN 'DELETE' THEN OLD.day ELSE NEW.day END;
BEGIN
    IF EXISTS (SELECT FROM usage_storeddays WHERE closed_until > of_day) THEN
        RAISE EXCEPTION '% is in a closed month', of_day USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN CASE TG_OP WHEN 'DELETE' THEN OLD ELSE NEW END;
END $$;
CREATE FUNCTION usage_refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'a correction does not change' USING ERRCODE = 'restrict_violation';
END $$;
CREATE TRIGGER closed BEFORE INSERT OR UPDATE OR DELETE ON usage_dailyuse
    FOR EACH ROW EXECUTE FUNCTION usage_refuse_closed_day();
CREATE TRIGGER closed BEFORE INSERT OR UPDATE OR DELETE ON usage_dailysum
    FOR EACH ROW EXECUTE FUNCTION usage_refuse_closed_day();
CREATE TRIGGER closed BEFORE INSERT OR UPDATE OR DELETE ON usage_dailyactivity
    FOR EACH ROW EXECUTE FUNCTION usage_refuse_closed_day();
CREATE TRIGGER closed BEFORE UPDATE OR DELETE ON usage_correction
    FOR EACH ROW EXECUTE FUNCTION usage_refuse_change();
"""


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
            name='StoredDays',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('until', models.DateField()),
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
                ('activity', models.FloatField()),
                ('rollups', models.PositiveIntegerField()),
                ('claim', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='claims.claim')),
            ],
            options={
                'indexes': [models.Index(fields=['day'], name='dailyactivity_day')],
                'constraints': [models.UniqueConstraint(fields=('claim', 'day'), name='dailyactivity_once')],
            },
        ),
        migrations.CreateModel(
            name='DailySum',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('day', models.DateField()),
                ('dimension', models.CharField(choices=[('team', 'Team'), ('person', 'Person'), ('profile', 'Profile'), ('kind', 'Kind'), ('fleet', 'Fleet')], max_length=7)),
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
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('dimension', 'day', 'key', 'cluster', 'product', 'partition', 'currency'), name='dailysum_once', nulls_distinct=False)],
            },
        ),
        migrations.CreateModel(
            name='Rate',
            fields=[
                ('id', models.UUIDField(default=core.models.uuid7, editable=False, primary_key=True, serialize=False)),
                ('title', models.CharField(max_length=80, verbose_name='title')),
                ('driver', models.CharField(blank=True, default='', max_length=63, verbose_name='driver')),
                ('product', models.CharField(blank=True, default='', max_length=120, verbose_name='product')),
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
            name='DailyUse',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('day', models.DateField()),
                ('driver', models.CharField(blank=True, max_length=63)),
                ('product', models.CharField(blank=True, max_length=120)),
                ('partition', models.CharField(blank=True, max_length=64)),
                ('currency', models.CharField(blank=True, max_length=3)),
                ('held', models.DecimalField(decimal_places=0, max_digits=30)),
                ('amount', models.DecimalField(decimal_places=0, max_digits=40)),
                ('claim', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='claims.claim')),
                ('rate', models.ForeignKey(db_index=False, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='usage.rate')),
                ('team', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='teams.team')),
            ],
            options={
                'indexes': [models.Index(fields=['team', 'day'], name='dailyuse_team'), models.Index(fields=['day'], name='dailyuse_day')],
                'constraints': [models.UniqueConstraint(fields=('claim', 'day', 'driver', 'product', 'partition', 'rate'), name='dailyuse_once', nulls_distinct=False)],
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
                ('currency', models.CharField(blank=True, max_length=3)),
                ('held', models.DecimalField(decimal_places=0, max_digits=30)),
                ('amount', models.DecimalField(decimal_places=0, max_digits=40)),
                ('claim', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='claims.claim')),
                ('rate', models.ForeignKey(db_index=False, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='usage.rate')),
                ('team', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='teams.team')),
            ],
            options={
                'indexes': [models.Index(fields=['team', 'booked_on'], name='correction_team'), models.Index(fields=['booked_on'], name='correction_booked'), models.Index(fields=['day'], name='correction_day')],
            },
        ),
        migrations.CreateModel(
            name='Rollup',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('driver', models.CharField(max_length=63)),
                ('pool', models.CharField(max_length=253)),
                ('device', models.CharField(max_length=63)),
                ('bucket', models.DateTimeField()),
                ('samples', models.PositiveIntegerField(default=0)),
                ('activity', models.FloatField(null=True)),
                ('memory_bytes', models.BigIntegerField(null=True)),
                ('power_watts', models.FloatField(null=True)),
                ('claim', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='rollups', to='claims.claim')),
            ],
            options={
                'ordering': ('bucket',),
                'indexes': [models.Index(fields=['bucket'], name='rollup_bucket')],
                'constraints': [models.UniqueConstraint(fields=('claim', 'driver', 'pool', 'device', 'bucket'), name='rollup_once')],
            },
        ),
        migrations.RunSQL(CLOSED, "DROP FUNCTION usage_refuse_closed_day CASCADE; DROP FUNCTION usage_refuse_change CASCADE"),
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
    ]
