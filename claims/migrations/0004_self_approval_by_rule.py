"""Whether leads approve their own requests moves from quotas to approval rules of the team."""

from django.db import migrations, models


def copy(apps, schema_editor):
    Quota = apps.get_model("claims", "Quota")
    ApprovalRule = apps.get_model("claims", "ApprovalRule")
    for quota in Quota.objects.filter(self_approval=True).order_by("pk"):
        ApprovalRule.objects.update_or_create(
            team_id=quota.team_id,
            profile_id=quota.profile_id,
            defaults={"self_approval": True},
            create_defaults={"self_approval": True, "approval": ""},
        )


class Migration(migrations.Migration):
    dependencies = [("claims", "0003_requests_in_full")]

    operations = [
        migrations.AlterField(
            model_name="approvalrule",
            name="approval",
            field=models.CharField(
                blank=True,
                choices=[
                    ("automatic", "automatic"),
                    ("lead", "lead"),
                    ("admin", "platform admin"),
                    ("both", "lead, then platform admin"),
                ],
                default="lead",
                max_length=9,
            ),
        ),
        migrations.RunPython(copy, migrations.RunPython.noop, elidable=True),
        migrations.RemoveField(model_name="quota", name="self_approval"),
    ]
