"""Of two changes of one thing at once, none is dropped without a word."""

from functools import partial

import pytest
from django.db.models import QuerySet

from core.errors import Conflict
from inventory import clusters
from inventory.models import Cluster
from teams.services import change_team
from tests.factories import make_cluster, make_team, make_user
from tests.threads import Race

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.parametrize(
    "other", [{"title": "B"}, {"efficiency_goal": 50}], ids=["same field", "other field"]
)
def test_two_changes_of_a_team(monkeypatch, other):
    root, team = make_user("root", admin=True), make_team("vision")
    race = Race(monkeypatch)
    race.hold_after(QuerySet, "get")
    change = partial(change_team, by=root, team=team)
    first, _second = race.run(partial(change, title="A"), partial(change, **other))
    team.refresh_from_db()
    assert isinstance(first, Conflict) is (team.title == "B")
    assert (team.title, team.efficiency_goal) == (other.get("title", "A"), other.get("efficiency_goal"))


def test_quotas_are_switched_on_while_the_cluster_becomes_read_only(monkeypatch):
    root, cluster = make_user("root", admin=True), make_cluster("fra-1")
    race = Race(monkeypatch)
    race.hold_after(clusters, "find_cluster")
    first, second = race.run(
        partial(clusters.write_quotas, name="fra-1", write=True, by=root),
        partial(clusters.change_cluster, name="fra-1", by=root, read_only=True),
    )
    assert (type(first), type(second)) == (Conflict, Cluster)
    cluster.refresh_from_db()
    assert (cluster.write_quotas, cluster.read_only) == (False, True)
