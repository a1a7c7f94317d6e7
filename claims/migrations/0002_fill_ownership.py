"""Compares mirrored objects with the claims once, as `claims.observation.ownership` does from now on."""

from django.db import migrations

FILL = """
UPDATE {table} r SET ownership = CASE
  WHEN named.name = r.name OR named.delivery = 'template' OR written.live THEN 3
  WHEN named.id IS NOT NULL OR written.live IS NOT NULL THEN 2
  ELSE 1 END
FROM {table} o
LEFT JOIN claims_claim named
  ON named.id::text = o.owner AND named.cluster_id = o.cluster_id AND named.namespace = o.namespace
LEFT JOIN (
  SELECT cluster_id, namespace, object_uid,
    bool_or(state NOT IN ('released', 'denied', 'withdrawn', 'expired', 'failed')) AS live
  FROM claims_claim WHERE object_uid <> '' GROUP BY cluster_id, namespace, object_uid
) written
  ON written.object_uid = o.uid AND written.cluster_id = o.cluster_id AND written.namespace = o.namespace
WHERE r.id = o.id AND o.gone_at IS NULL;
"""
TABLES = ("inventory_resourceclaim", "inventory_resourceclaimtemplate")


class Migration(migrations.Migration):
    dependencies = (("claims", "0001_initial"), ("inventory", "0002_ownership"))

    operations = (
        migrations.RunSQL("SET LOCAL statement_timeout = 0", migrations.RunSQL.noop),
        *(migrations.RunSQL(FILL.format(table=table), migrations.RunSQL.noop) for table in TABLES),
    )
