from django.db import migrations

CREATE = """
CREATE FUNCTION search_trigrams(VARIADIC texts text[]) RETURNS text[] LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT coalesce(array_agg(DISTINCT substr(line, i, 3)), '{}')
  FROM unnest(texts) AS part, upper(part) AS line, generate_series(1, length(line) - 2) AS i
$$
"""


class Migration(migrations.Migration):
    dependencies = [("core", "0002_stored_response_body")]

    operations = [migrations.RunSQL(CREATE, "DROP FUNCTION search_trigrams")]
