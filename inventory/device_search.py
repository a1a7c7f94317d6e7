"""
The search for devices by any part of their name, node, pool, product, partition or UUID.

Devices of a ResourceSlice share most of their words, so a word is compared with one text per slice first, and
then with the devices of the slices that have it: 5,000 short texts instead of 40,000. `inventory.sync.pools`
stores the text of a slice in the transaction that changes its devices.
"""

from __future__ import annotations

from collections.abc import Collection

from django.db import connection
from django.db.models import Q

from core.models import RowDifferences
from inventory.models import SliceText

MOST_SLICES = 1_000  # each has a device with the word; a list counts no more devices of a search

TEXTS = """
SELECT slice_id, string_agg(DISTINCT word, ' ') AS text
FROM inventory_device, unnest(string_to_array(search, ' ')) AS word
WHERE gone_at IS NULL AND {} GROUP BY slice_id"""
OF_SLICES = TEXTS.format("slice_id = ANY(%(slices)s)")
OF_ALL = TEXTS.format("true")
STORED = f"""
WITH texts AS MATERIALIZED ({OF_SLICES}), obsolete AS (
  DELETE FROM inventory_slicetext
  WHERE slice_id = ANY(%(slices)s) AND slice_id NOT IN (SELECT slice_id FROM texts)
)
INSERT INTO inventory_slicetext (slice_id, text) SELECT slice_id, text FROM texts
ON CONFLICT (slice_id) DO UPDATE SET text = EXCLUDED.text"""  # noqa: S608
DIFFERING = f"""
SELECT slice_id, texts.text, stored.text FROM ({OF_ALL}) texts
FULL JOIN inventory_slicetext stored USING (slice_id) WHERE texts.text IS DISTINCT FROM stored.text"""  # noqa: S608


def device_has_text(word: str) -> Q:
    """
    Return the condition of devices that contain a word, which has no spaces, in any case; one query.

    Of a word that more slices have than a list counts, so many devices come first that no slices are chosen.
    """
    word = word.lower()
    having = SliceText.objects.filter(text__contains=word).values_list("pk", flat=True)
    slices = list(having[: MOST_SLICES + 1])
    contains = Q(search__contains=word)
    return contains if len(slices) > MOST_SLICES else contains & Q(slice__in=slices)


def store_texts(slices: Collection[int]) -> None:
    """Store the texts of these slices, as their devices are now."""
    if slices:
        with connection.cursor() as cursor:
            cursor.execute(STORED, {"slices": list(slices)})


def find_differences() -> RowDifferences:
    return _differing()[1]


def refresh() -> RowDifferences:
    """Store the texts that differ from the devices; return how many did."""
    slices, differences = _differing()
    store_texts(slices)
    return differences


def _differing() -> tuple[list[int], RowDifferences]:
    with connection.cursor() as cursor:
        cursor.execute(DIFFERING)
        rows = cursor.fetchall()
    missing = sum(stored is None for _slice, _text, stored in rows)
    obsolete = sum(text is None for _slice, text, _stored in rows)
    differences = RowDifferences(missing, len(rows) - missing - obsolete, obsolete)
    return [row[0] for row in rows], differences
