"""
Identifiers of providers are kept whole, and service accounts get back the names that their teams gave.

allauth's model says 191 characters for a subject, and nothing there changes that; OpenID Connect says 255.
"""

from django.db import migrations, models

WIDER = 'ALTER TABLE "socialaccount_socialaccount" ALTER COLUMN "uid" TYPE varchar(255)'
NAMES = """
    UPDATE teams_user account
    SET first_name = split_part(username, '@', 1), last_name = '(service account of ' || slug || ')'
    FROM teams_team team
    WHERE team.id = service_of_id AND first_name <> split_part(username, '@', 1)
"""


class Migration(migrations.Migration):
    dependencies = [
        ('socialaccount', '0006_alter_socialaccount_extra_data'),
        ('teams', '0001_initial'),
    ]

    operations = [
        migrations.RunSQL(WIDER, migrations.RunSQL.noop),
        migrations.RunSQL(NAMES, migrations.RunSQL.noop),
        migrations.AlterField(
            model_name='scimuser',
            name='user_name',
            field=models.CharField(max_length=500),
        ),
    ]
