"""Queries that are compiled once: the same rows as the queryset, planned once, and counted as queries."""

from datetime import datetime, timedelta
from uuid import UUID

import pytest
from django.db import connection
from django.db.models import Value
from django.utils import timezone

from claims.models import Claim
from core.models import uuid7
from core.prepared import Prepared, PreparedObjects, by_keys
from inventory.models import Freshness
from teams.models import Membership, Role, User
from tests.factories import make_claim, make_cluster, make_team, make_user

pytestmark = pytest.mark.django_db

LED = Prepared(
    lambda person: (
        Membership.objects.filter(user=person, role__in=[Role.LEAD, Role.OWNER])
        .order_by("team__slug")
        .values_list("team__slug", "role")
    ),
    UUID,
)


@pytest.fixture
def mira():
    mira = make_user("mira")
    make_team("nlp", leads=(mira,))
    make_team("vision", members=(mira,))
    return mira


def test_the_rows_are_those_of_the_queryset_for_each_person(mira):
    lena = make_user("lena")
    make_team("audio", leads=(lena,))
    assert LED.rows(mira.pk) == [("nlp", "lead")]
    assert LED.rows(lena.pk) == [("audio", "lead")]
    assert LED.rows(make_user("alice").pk) == []


def test_each_value_goes_to_its_places_in_any_order(mira):
    since = Prepared(
        lambda person, joined: User.objects.filter(date_joined__gt=joined, pk=person).values_list("username"),
        UUID,
        datetime,
    )
    now = timezone.now()
    assert since.rows(mira.pk, now - timedelta(hours=1)) == [("mira",)]
    assert since.rows(mira.pk, now + timedelta(hours=1)) == []


def test_a_percent_sign_of_a_constant_stays_one(mira):
    share = Prepared(lambda name: User.objects.filter(username=name).values_list(Value("5 % 's")), str)
    assert share.rows("mira") == [("5 % 's",)]


def test_it_counts_as_a_query_whose_text_has_the_values(mira, django_assert_num_queries):
    with django_assert_num_queries(1) as queries:
        assert LED.rows(mira.pk) == [("nlp", "lead")]
    assert str(mira.pk) in queries[0]["sql"] or mira.pk.hex in queries[0]["sql"]


def test_a_query_is_planned_once_after_its_fifth_use(mira):
    for _ in range(7):
        LED.rows(mira.pk)
    with connection.cursor() as cursor:
        cursor.execute("SELECT statement FROM pg_prepared_statements")
        statements = [text for (text,) in cursor.fetchall()]
    assert [text for text in statements if "'lead'" in text and 'user_id" = $1' in text]


def test_objects_are_those_of_the_queryset_with_their_related_rows(mira, django_assert_num_queries):
    claim = make_claim(by=mira, reason="fine tuning")
    query = PreparedObjects[Claim](
        lambda key: Claim.objects.filter(pk=key).select_related(
            "team", "profile_version__profile", "decided_by"
        ),
        UUID,
    )
    for _ in range(7):
        (found,) = query.objects(claim.pk)
    with django_assert_num_queries(0):
        assert (found, found.spec, found.duration) == (claim, claim.spec, claim.duration)
        assert found.team == claim.team
        assert found.profile_version.profile == claim.profile_version.profile
        assert found.decided_by is None
    assert found.__dict__.keys() - {"_state"} == Claim.objects.get(pk=claim.pk).__dict__.keys() - {"_state"}
    assert query.objects(uuid7()) == []


def test_rows_are_read_by_a_list_of_numbers():
    names = ("fra-1", "ber-1", "muc-1")
    counts = [Freshness.objects.create(cluster=make_cluster(name), resource="pods") for name in names]
    query = by_keys(lambda key: Freshness.objects.filter(pk=key).values_list("cluster__name"), int)
    assert sorted(query.rows([counts[0].pk, counts[2].pk])) == [("fra-1",), ("muc-1",)]
    assert query.rows([]) == []
