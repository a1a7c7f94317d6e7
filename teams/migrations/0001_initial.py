
import core.models
import django.contrib.postgres.fields
import django.contrib.auth.models
import django.contrib.auth.validators
import django.db.models.deletion
import django.db.models.functions.datetime
import django.db.models.functions.text
import django.utils.timezone
from django.conf import settings
from django.db import migrations, models


# Nobody changes the audit log, its owner included; only `manage.py audit remove` deletes, which sets this.
REFUSE_CHANGES = """
CREATE FUNCTION refuse_audit_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP IN ('DELETE', 'TRUNCATE') AND current_setting('dragoman.audit_removal', true) = 'on' THEN
        RETURN OLD;
    END IF;
    RAISE EXCEPTION 'The audit log is only added to: % of % is refused.', lower(TG_OP), TG_TABLE_NAME
        USING ERRCODE = 'insufficient_privilege';
END $$;
CREATE TRIGGER audit_entry_stays BEFORE UPDATE OR DELETE ON teams_auditentry
    FOR EACH ROW EXECUTE FUNCTION refuse_audit_change();
CREATE TRIGGER audit_entries_stay BEFORE TRUNCATE ON teams_auditentry
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_audit_change();
CREATE TRIGGER audit_seal_stays BEFORE UPDATE OR DELETE ON teams_auditseal
    FOR EACH ROW EXECUTE FUNCTION refuse_audit_change();
CREATE TRIGGER audit_seals_stay BEFORE TRUNCATE ON teams_auditseal
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_audit_change();
"""


class Migration(migrations.Migration):

    initial = True

    dependencies = [
        ('auth', '0012_alter_user_first_name_max_length'),
    ]

    operations = [
        migrations.CreateModel(
            name='User',
            fields=[
                ('password', models.CharField(max_length=128, verbose_name='password')),
                ('last_login', models.DateTimeField(blank=True, null=True, verbose_name='last login')),
                ('is_superuser', models.BooleanField(default=False, help_text='Designates that this user has all permissions without explicitly assigning them.', verbose_name='superuser status')),
                ('username', models.CharField(error_messages={'unique': 'A user with that username already exists.'}, help_text='Required. 150 characters or fewer. Letters, digits and @/./+/-/_ only.', max_length=150, unique=True, validators=[django.contrib.auth.validators.UnicodeUsernameValidator()], verbose_name='username')),
                ('first_name', models.CharField(blank=True, max_length=150, verbose_name='first name')),
                ('last_name', models.CharField(blank=True, max_length=150, verbose_name='last name')),
                ('email', models.EmailField(blank=True, max_length=254, verbose_name='email address')),
                ('is_staff', models.BooleanField(default=False, help_text='Designates whether the user can log into this admin site.', verbose_name='staff status')),
                ('is_active', models.BooleanField(default=True, help_text='Designates whether this user should be treated as active. Unselect this instead of deleting accounts.', verbose_name='active')),
                ('date_joined', models.DateTimeField(default=django.utils.timezone.now, verbose_name='date joined')),
                ('id', models.UUIDField(default=core.models.uuid7, editable=False, primary_key=True, serialize=False)),
                ('theme', models.CharField(choices=[('system', 'Same as system'), ('light', 'Light'), ('dark', 'Dark')], default='system', max_length=6)),
                ('timezone', models.CharField(blank=True, default='', max_length=64)),
                ('seen_timezone', models.CharField(blank=True, default='', editable=False, max_length=64)),
                ('hides_setup', models.BooleanField(default=False, editable=False)),
                ('tokens_suspended_at', models.DateTimeField(editable=False, null=True)),
                ('break_glass', models.BooleanField(default=False, editable=False)),
                ('admin_from_groups', models.BooleanField(default=False, editable=False)),
                ('groups', models.ManyToManyField(blank=True, help_text='The groups this user belongs to. A user will get all permissions granted to each of their groups.', related_name='user_set', related_query_name='user', to='auth.group', verbose_name='groups')),
                ('user_permissions', models.ManyToManyField(blank=True, help_text='Specific permissions for this user.', related_name='user_set', related_query_name='user', to='auth.permission', verbose_name='user permissions')),
            ],
            options={
                'verbose_name': 'user',
                'verbose_name_plural': 'users',
                'abstract': False,
            },
            managers=[
                ('objects', django.contrib.auth.models.UserManager()),
            ],
        ),
        migrations.CreateModel(
            name='Membership',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('role', models.CharField(choices=[('viewer', 'viewer'), ('member', 'member'), ('lead', 'lead'), ('owner', 'owner')], default='member', max_length=6)),
                ('group_role', models.CharField(blank=True, choices=[('viewer', 'viewer'), ('member', 'member'), ('lead', 'lead'), ('owner', 'owner')], default='', editable=False, max_length=6)),
                ('hand_role', models.CharField(blank=True, choices=[('viewer', 'viewer'), ('member', 'member'), ('lead', 'lead'), ('owner', 'owner')], default='', editable=False, max_length=6)),
                ('user', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='memberships', to=settings.AUTH_USER_MODEL)),
            ],
        ),
        migrations.CreateModel(
            name='Team',
            fields=[
                ('id', models.UUIDField(default=core.models.uuid7, editable=False, primary_key=True, serialize=False)),
                ('slug', models.SlugField(max_length=40, unique=True)),
                ('title', models.CharField(max_length=80)),
                ('series', models.PositiveSmallIntegerField(default=1)),
                ('efficiency_goal', models.PositiveSmallIntegerField(editable=False, null=True)),
                ('archived_at', models.DateTimeField(editable=False, null=True)),
                ('members', models.ManyToManyField(related_name='teams', through='teams.Membership', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'ordering': ('slug',),
                'constraints': [models.CheckConstraint(condition=models.Q(('efficiency_goal__range', (1, 100))), name='team_efficiency_goal_percent')],
            },
        ),
        migrations.AddField(
            model_name='user',
            name='service_of',
            field=models.ForeignKey(editable=False, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='service_accounts', to='teams.team'),
        ),
        migrations.CreateModel(
            name='ApiToken',
            fields=[
                ('id', models.UUIDField(default=core.models.uuid7, editable=False, primary_key=True, serialize=False)),
                ('title', models.CharField(max_length=80)),
                ('scopes', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(choices=[('read', 'Read'), ('request', 'Request'), ('approve', 'Approve'), ('admin', 'Administer')], max_length=7), size=None)),
                ('digest', models.CharField(editable=False, max_length=64, unique=True)),
                ('start', models.CharField(editable=False, max_length=12)),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                ('expires_at', models.DateTimeField()),
                ('last_used_at', models.DateTimeField(editable=False, null=True)),
                ('last_used_from', models.GenericIPAddressField(editable=False, null=True)),
                ('rotated_at', models.DateTimeField(editable=False, null=True)),
                ('previous_digest', models.CharField(editable=False, max_length=64, null=True, unique=True)),
                ('previous_ends_at', models.DateTimeField(editable=False, null=True)),
                ('revoked_at', models.DateTimeField(editable=False, null=True)),
                ('limited_to', models.ForeignKey(editable=False, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='teams.team')),
                ('made_with', models.ForeignKey(editable=False, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='teams.apitoken')),
                ('user', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='api_tokens', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'ordering': ('-created_at',),
                'constraints': [models.CheckConstraint(condition=models.Q(('scopes__contained_by', ['read', 'request', 'approve', 'admin']), ('scopes__contains', ['read'])), name='apitoken_scopes_known'), models.CheckConstraint(condition=models.Q(models.Q(('previous_digest', None), ('previous_ends_at', None)), models.Q(('previous_digest__isnull', False), ('previous_ends_at__isnull', False)), _connector='OR'), name='apitoken_previous_ends')],
                'indexes': [models.Index(condition=models.Q(('revoked_at', None)), fields=['expires_at'], name='apitoken_expiry')],
            },
        ),
        migrations.CreateModel(
            name='Session',
            fields=[
                ('session_key', models.CharField(max_length=40, primary_key=True, serialize=False, verbose_name='session key')),
                ('session_data', models.TextField(verbose_name='session data')),
                ('expire_date', models.DateTimeField(db_index=True, verbose_name='expire date')),
                ('id', models.UUIDField(default=core.models.uuid7, editable=False, unique=True)),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('last_seen_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('address', models.GenericIPAddressField(null=True)),
                ('user_agent', models.CharField(blank=True, default='', max_length=300)),
                ('signed_in_with', models.CharField(blank=True, default='', max_length=60)),
                ('provider_session', models.CharField(blank=True, default='', max_length=255)),
                ('sealed_id_token', models.BinaryField(default=b'')),
                ('user', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='sessions', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'verbose_name': 'session',
                'verbose_name_plural': 'sessions',
                'abstract': False,
                'indexes': [models.Index(condition=models.Q(('provider_session', ''), _negated=True), fields=['signed_in_with', 'provider_session'], name='session_of_provider')],
            },
        ),
        migrations.CreateModel(
            name='DeviceLogin',
            fields=[
                ('id', models.UUIDField(default=core.models.uuid7, editable=False, primary_key=True, serialize=False)),
                ('device_digest', models.CharField(max_length=64, unique=True)),
                ('user_digest', models.CharField(max_length=64, unique=True)),
                ('client', models.CharField(max_length=80)),
                ('scopes', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(choices=[('read', 'Read'), ('request', 'Request'), ('approve', 'Approve'), ('admin', 'Administer')], max_length=7), size=None)),
                ('address', models.GenericIPAddressField(null=True)),
                ('created_at', models.DateTimeField()),
                ('expires_at', models.DateTimeField()),
                ('asked_at', models.DateTimeField(null=True)),
                ('interval', models.PositiveSmallIntegerField()),
                ('allowed', models.BooleanField(null=True)),
                ('lifetime', models.DurationField(null=True)),
                ('used_at', models.DateTimeField(null=True)),
                ('decided_by', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('limited_to', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='teams.team')),
            ],
            options={
                'ordering': ('created_at',),
                'indexes': [models.Index(fields=['expires_at'], name='devicelogin_expiry')],
                'constraints': [models.CheckConstraint(condition=models.Q(models.Q(('allowed', None), ('decided_by', None)), models.Q(('allowed__isnull', False), ('decided_by__isnull', False)), _connector='OR'), name='devicelogin_decided_by_somebody')],
            },
        ),
        migrations.CreateModel(
            name='Invitation',
            fields=[
                ('id', models.UUIDField(default=core.models.uuid7, editable=False, primary_key=True, serialize=False)),
                ('email', models.EmailField(max_length=254)),
                ('role', models.CharField(choices=[('viewer', 'viewer'), ('member', 'member'), ('lead', 'lead'), ('owner', 'owner')], default='member', max_length=6)),
                ('sent_at', models.DateTimeField()),
                ('expires_at', models.DateTimeField()),
                ('accepted_at', models.DateTimeField(editable=False, null=True)),
                ('revoked_at', models.DateTimeField(editable=False, null=True)),
                ('accepted_by', models.ForeignKey(editable=False, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('invited_by', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('team', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='invitations', to='teams.team')),
            ],
            options={
                'ordering': ('-sent_at',),
            },
        ),
        migrations.AddConstraint(
            model_name='invitation',
            constraint=models.UniqueConstraint(condition=models.Q(('accepted_at', None), ('revoked_at', None)), fields=('email', 'team'), name='invitation_open_once', nulls_distinct=False),
        ),
        migrations.AddConstraint(
            model_name='invitation',
            constraint=models.CheckConstraint(condition=models.Q(('role__in', ['viewer', 'member', 'lead', 'owner'])), name='invitation_role_known'),
        ),
        migrations.AddField(
            model_name='membership',
            name='team',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='memberships', to='teams.team'),
        ),
        migrations.AddConstraint(
            model_name='membership',
            constraint=models.UniqueConstraint(fields=('user', 'team'), name='membership_once'),
        ),
        migrations.AddConstraint(
            model_name='membership',
            constraint=models.CheckConstraint(condition=models.Q(('role__in', ['viewer', 'member', 'lead', 'owner'])), name='membership_role_known'),
        ),
        migrations.AddConstraint(
            model_name='membership',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('group_role', ''), ('hand_role', '')), models.Q(('group_role__in', ['viewer', 'member', 'lead', 'owner']), ('role', models.F('group_role'))), models.Q(('group_role__in', ['viewer', 'member', 'lead', 'owner']), ('role', models.F('hand_role'))), _connector='OR'), name='membership_role_has_a_source'),
        ),
        migrations.CreateModel(
            name='IdentityProvider',
            fields=[
                ('id', models.UUIDField(default=core.models.uuid7, editable=False, primary_key=True, serialize=False)),
                ('slug', models.SlugField(max_length=40, unique=True)),
                ('title', models.CharField(max_length=80)),
                ('issuer', models.CharField(max_length=300)),
                ('client_id', models.CharField(max_length=200)),
                ('sealed', models.BinaryField(default=b'')),
                ('secret_set_at', models.DateTimeField(editable=False, null=True)),
                ('scopes', models.CharField(default='openid profile email', max_length=200)),
                ('groups_claim', models.CharField(blank=True, default='groups', max_length=80)),
                ('trusts_email', models.BooleanField(default=False)),
                ('admits_everybody', models.BooleanField(default=False)),
                ('external_id_claim', models.CharField(blank=True, default='sub', max_length=80)),
                ('acr_values', models.CharField(blank=True, default='', max_length=200)),
                ('suspends_tokens', models.BooleanField(default=True)),
                ('signs_out', models.BooleanField(default=True)),
                ('enabled', models.BooleanField(default=False)),
                ('position', models.PositiveSmallIntegerField(default=0)),
                ('failures', models.PositiveSmallIntegerField(default=0, editable=False)),
                ('retry_at', models.DateTimeField(editable=False, null=True)),
                ('problem', models.TextField(blank=True, default='', editable=False)),
            ],
            options={
                'ordering': ('position', 'slug'),
                'constraints': [models.UniqueConstraint(fields=('issuer', 'client_id'), name='identityprovider_client_once')],
            },
        ),
        migrations.CreateModel(
            name='ExternalGroup',
            fields=[
                ('id', models.UUIDField(default=core.models.uuid7, editable=False, primary_key=True, serialize=False)),
                ('name', models.CharField(max_length=200)),
                ('external_id', models.CharField(blank=True, default='', max_length=200)),
                ('kept_by', models.CharField(choices=[('claim', 'tokens of its members'), ('scim', 'SCIM')], default='claim', max_length=5)),
                ('members', models.ManyToManyField(related_name='external_groups', to=settings.AUTH_USER_MODEL)),
                ('provider', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='groups', to='teams.identityprovider')),
            ],
            options={
                'ordering': ('name',),
                'constraints': [models.UniqueConstraint(fields=('provider', 'name'), name='externalgroup_name_once'), models.UniqueConstraint(condition=models.Q(('external_id', ''), _negated=True), fields=('provider', 'external_id'), name='externalgroup_external_id_once')],
            },
        ),
        migrations.CreateModel(
            name='GroupRule',
            fields=[
                ('id', models.UUIDField(default=core.models.uuid7, editable=False, primary_key=True, serialize=False)),
                ('pattern', models.CharField(max_length=200)),
                ('role', models.CharField(blank=True, default='', max_length=6)),
                ('provider', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='rules', to='teams.identityprovider')),
                ('team', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='group_rules', to='teams.team')),
            ],
            options={
                'ordering': ('provider__position', 'provider__slug', 'pattern', 'team__slug'),
                'constraints': [models.UniqueConstraint(fields=('provider', 'pattern', 'team'), name='grouprule_once', nulls_distinct=False), models.CheckConstraint(condition=models.Q(models.Q(('role', ''), ('team', None)), models.Q(('role__in', ('viewer', 'member', 'lead', 'owner')), ('team__isnull', False)), _connector='OR'), name='grouprule_gives_one_thing')],
            },
        ),
        migrations.CreateModel(
            name='IdentityGrant',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('subject', models.CharField(max_length=255)),
                ('sealed', models.BinaryField(default=b'')),
                ('signed_in_at', models.DateTimeField()),
                ('read_at', models.DateTimeField()),
                ('due_at', models.DateTimeField(null=True)),
                ('is_offline', models.BooleanField(default=False)),
                ('sid', models.CharField(blank=True, default='', max_length=255)),
                ('signed_out_at', models.DateTimeField(null=True)),
                ('refused_at', models.DateTimeField(null=True)),
                ('provider', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='grants', to='teams.identityprovider')),
                ('user', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='identity_grants', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('user', 'provider'), name='identitygrant_once'), models.UniqueConstraint(fields=('provider', 'subject'), name='identitygrant_subject_once')],
                'indexes': [models.Index(condition=models.Q(('due_at__isnull', False)), fields=['due_at'], name='identitygrant_due')],
            },
        ),
        migrations.CreateModel(
            name='AuditEntry',
            fields=[
                ('id', models.UUIDField(default=core.models.uuid7, editable=False, primary_key=True, serialize=False)),
                ('at', models.DateTimeField(default=django.utils.timezone.now)),
                ('action', models.CharField(max_length=40)),
                ('actor', models.CharField(blank=True, default='', max_length=150)),
                ('actor_kind', models.CharField(choices=[('person', 'person'), ('service', 'service account'), ('portal', 'the portal'), ('provider', 'identity provider'), ('nobody', 'not signed in')], default='portal', max_length=8)),
                ('kind', models.CharField(max_length=40)),
                ('object_id', models.CharField(max_length=40)),
                ('name', models.CharField(max_length=200)),
                ('text', models.TextField()),
                ('values', models.JSONField(default=list)),
                ('reason', models.TextField(blank=True, default='')),
                ('source', models.CharField(choices=[('web', 'Web'), ('token', 'API token'), ('cluster', 'Cluster'), ('system', 'System')], default='system', max_length=7)),
                ('via', models.CharField(blank=True, default='', max_length=80)),
                ('token', models.CharField(blank=True, default='', max_length=12)),
                ('address', models.GenericIPAddressField(null=True)),
                ('place', models.CharField(blank=True, default='', max_length=120)),
                ('request_id', models.CharField(blank=True, default='', max_length=64)),
                ('in_activity', models.BooleanField(default=True)),
                ('by', models.ForeignKey(db_constraint=False, db_index=False, null=True, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('team', models.ForeignKey(db_constraint=False, db_index=False, null=True, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='teams.team')),
            ],
            options={
                'ordering': ('at', 'pk'),
                'indexes': [models.Index(fields=['at', 'id'], name='audit_at'), models.Index(fields=['action', 'at', 'id'], name='audit_action'), models.Index(fields=['by', 'at', 'id'], name='audit_by'), models.Index(fields=['team', 'at', 'id'], name='audit_of_team'), models.Index(fields=['kind', 'object_id', 'at'], name='audit_of_object'), models.Index(condition=models.Q(('address__isnull', False)), fields=['address', 'at', 'id'], name='audit_address'), models.Index(condition=models.Q(('token', ''), _negated=True), fields=['token', 'at', 'id'], name='audit_token'), models.Index(condition=models.Q(('in_activity', True)), fields=['at', 'id'], name='change_at'), models.Index(condition=models.Q(('in_activity', True)), fields=['team', 'at', 'id'], name='change_of_team')],
            },
        ),
        migrations.CreateModel(
            name='AuditSeal',
            fields=[
                ('number', models.BigIntegerField(primary_key=True, serialize=False)),
                ('hash', models.CharField(max_length=64)),
                ('at', models.DateTimeField()),
                ('entry', models.OneToOneField(db_constraint=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name='seal', to='teams.auditentry')),
            ],
            options={
                'ordering': ('number',),
            },
        ),
        migrations.CreateModel(
            name='AuditState',
            fields=[
                ('id', models.PositiveSmallIntegerField(default=1, editable=False, primary_key=True, serialize=False)),
                ('verified_at', models.DateTimeField(null=True)),
                ('verified_number', models.BigIntegerField(default=0)),
                ('verified_hash', models.CharField(blank=True, default='', max_length=64)),
                ('problem', models.TextField(blank=True, default='')),
                ('written_number', models.BigIntegerField(default=0)),
            ],
            options={
                'constraints': [models.CheckConstraint(condition=models.Q(('id', 1)), name='auditstate_one_row')],
            },
        ),
        migrations.CreateModel(
            name='ScimToken',
            fields=[
                ('provider', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='scim_token', serialize=False, to='teams.identityprovider')),
                ('digest', models.CharField(max_length=64, unique=True)),
                ('start', models.CharField(max_length=12)),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('last_used_at', models.DateTimeField(null=True)),
                ('last_used_from', models.GenericIPAddressField(null=True)),
                ('previous_digest', models.CharField(max_length=64, null=True, unique=True)),
                ('previous_ends_at', models.DateTimeField(null=True)),
            ],
        ),
        migrations.CreateModel(
            name='ScimUser',
            fields=[
                ('id', models.UUIDField(default=core.models.uuid7, editable=False, primary_key=True, serialize=False)),
                ('user_name', models.CharField(max_length=150)),
                ('external_id', models.CharField(blank=True, default='', max_length=200)),
                ('emails', models.JSONField(default=list)),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('changed_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('deactivated', models.BooleanField(default=False)),
                ('deleted_at', models.DateTimeField(null=True)),
                ('provider', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='scim_users', to='teams.identityprovider')),
                ('user', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name='scim_user', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'ordering': ('id',),
                'constraints': [models.UniqueConstraint(models.F('provider'), django.db.models.functions.text.Lower('user_name'), condition=models.Q(('deleted_at', None)), name='scimuser_name_once'), models.UniqueConstraint(condition=models.Q(('deleted_at', None), models.Q(('external_id', ''), _negated=True)), fields=('provider', 'external_id'), name='scimuser_external_id_once')],
            },
        ),
        migrations.RunSQL(REFUSE_CHANGES, 'DROP FUNCTION refuse_audit_change CASCADE'),
    ]
