import core.models
import django.contrib.postgres.fields
import django.utils.timezone
from django.db import migrations, models
import django.db.models.deletion
from django.conf import settings

# The pieces of three letters of some texts: what a search of a part of a text looks up (`core.filters.Trigrams`).
SEARCH_TRIGRAMS = """
CREATE FUNCTION search_trigrams(VARIADIC texts text[]) RETURNS text[] LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT coalesce(array_agg(DISTINCT substr(line, i, 3)), '{}')
  FROM unnest(texts) AS part, upper(part) AS line, generate_series(1, length(line) - 2) AS i
$$
"""


class Migration(migrations.Migration):

    initial = True

    dependencies = [
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.RunSQL(SEARCH_TRIGRAMS, "DROP FUNCTION search_trigrams"),
        migrations.CreateModel(
            name='Installation',
            fields=[
                ('id', models.PositiveSmallIntegerField(default=1, editable=False, primary_key=True, serialize=False)),
                ('name', models.CharField(default='Dragoman', max_length=40)),
                ('currency', models.CharField(default='EUR', max_length=3)),
                ('timezone', models.CharField(blank=True, default='', max_length=64)),
                ('logo', models.BinaryField(blank=True, default=b'')),
                ('logo_digest', models.CharField(blank=True, default='', max_length=16)),
                ('second_factor', models.CharField(blank=True, choices=[('', 'Nobody'), ('admins', 'Platform admins'), ('all', 'Everybody')], default='', max_length=8)),
                ('skipped_steps', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=16), blank=True, default=list, size=None)),
                ('password_sign_in', models.BooleanField(default=True, editable=False)),
            ],
            options={
                'constraints': [
                    models.CheckConstraint(condition=models.Q(('pk', 1)), name='installation_one'),
                    models.CheckConstraint(condition=models.Q(('currency__regex', '^[A-Z]{3}$')), name='installation_currency'),
                ],
            },
        ),
        migrations.CreateModel(
            name='StoredResponse',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('key', models.CharField(max_length=80)),
                ('address', models.CharField(max_length=64)),
                ('digest', models.CharField(max_length=64)),
                ('at', models.DateTimeField(default=django.utils.timezone.now)),
                ('status', models.PositiveSmallIntegerField(null=True)),
                ('body', models.TextField(blank=True, default='')),
            ],
        ),
        migrations.AddField(
            model_name='storedresponse',
            name='user',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddConstraint(
            model_name='storedresponse',
            constraint=models.UniqueConstraint(fields=('user', 'key', 'address'), name='storedresponse_once'),
        ),
        migrations.CreateModel(
            name='SavedFilter',
            fields=[
                ('id', models.UUIDField(default=core.models.uuid7, editable=False, primary_key=True, serialize=False)),
                ('path', models.CharField(max_length=200)),
                ('title', models.CharField(max_length=60)),
                ('name', models.CharField(max_length=60)),
                ('query', models.TextField()),
                ('default_since', models.DateTimeField(null=True)),
                ('user', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('user', 'path', 'name'), name='savedfilter_once')],
            },
        ),
    ]
