"""The search for a part of a text finds what a look at every row finds, by an index."""

import pytest
from django.db import connection
from django.db.models import Q
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra.django import TestCase

from claims.models import Claim
from core.filters import has_text, has_text_by_index, like_pattern
from tests.factories import make_claim, make_cluster, make_team, make_user

FIELDS = ("name", "reason")
TEXTS = ("sam2 fine tuning", "Straße nach Köln", "100 % of it_all", "a\\b'c", "", "xyz", "SAM")
words = st.text(st.sampled_from("sam2fineßÖkK%_\\'xyz"), min_size=3, max_size=8)


class Search(TestCase):
    def setUp(self):
        lena, cluster = make_user("lena"), make_cluster()
        team = make_team("vision", members=(lena,))
        for number, reason in enumerate(TEXTS):
            make_claim(team=team, by=lena, cluster=cluster, name=f"run-{number}", reason=reason)

    @given(words)
    @example("am2")
    @example("STRASSE")
    @example("straße")
    @example("_al")
    @example("\\b'")
    @example("run-")
    @example("fine tun")
    @example("fine tuning")
    def test_a_word_is_found_wherever_a_text_contains_it(self, word):
        by_index = Claim.objects.filter(has_text_by_index(word, *FIELDS))
        by_row = Claim.objects.filter(has_text(word, *FIELDS))
        pattern = like_pattern(word)
        by_pattern = Claim.objects.filter(Q(name__matches=pattern) | Q(reason__matches=pattern))
        keys = set(by_row.values_list("pk"))
        assert set(by_index.values_list("pk")) == keys
        assert set(by_pattern.values_list("pk")) == keys


@pytest.mark.django_db
def test_the_index_of_claims_serves_the_search():
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")
    plan = Claim.objects.filter(has_text_by_index("fine", *FIELDS)).order_by().values("pk").explain()
    assert "claim_text" in plan
