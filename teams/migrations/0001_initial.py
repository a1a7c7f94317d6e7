
import core.models
import django.contrib.postgres.fields
import django.contrib.auth.models
import django.contrib.auth.validators
import django.db.models.deletion
import django.db.models.functions.datetime
import django.utils.timezone
from django.conf import settings
from django.db import migrations, models


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
                'constraints': [models.CheckConstraint(condition=models.Q(('scopes__contains', ['read']), ('scopes__contained_by', ['read', 'request', 'approve', 'admin'])), name='apitoken_scopes_known'), models.CheckConstraint(condition=models.Q(models.Q(('previous_digest', None), ('previous_ends_at', None)), models.Q(('previous_digest__isnull', False), ('previous_ends_at__isnull', False)), _connector='OR'), name='apitoken_previous_ends')],
                'indexes': [models.Index(condition=models.Q(('revoked_at', None)), fields=['expires_at'], name='apitoken_expiry')],
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
        migrations.CreateModel(
            name='RecordedChange',
            fields=[
                ('id', models.UUIDField(default=core.models.uuid7, editable=False, primary_key=True, serialize=False)),
                ('at', models.DateTimeField(default=django.utils.timezone.now)),
                ('kind', models.CharField(max_length=40)),
                ('object_id', models.CharField(max_length=40)),
                ('name', models.CharField(max_length=200)),
                ('text', models.TextField()),
                ('values', models.JSONField(default=list)),
                ('reason', models.TextField(blank=True, default='')),
                ('source', models.CharField(choices=[('web', 'Web'), ('token', 'API token'), ('cluster', 'Cluster'), ('system', 'System')], default='system', max_length=7)),
                ('via', models.CharField(blank=True, default='', max_length=80)),
                ('by', models.ForeignKey(db_index=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('team', models.ForeignKey(db_index=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='teams.team')),
            ],
            options={
                'ordering': ('at', 'pk'),
                'indexes': [models.Index(fields=['at', 'id'], name='change_at'), models.Index(fields=['team', 'at', 'id'], name='change_of_team'), models.Index(fields=['by', 'at', 'id'], name='change_by'), models.Index(fields=['kind', 'object_id', 'at'], name='change_of_object')],
            },
        ),
    ]
