"""Who sees which alerts, on the page, as CSV and in the API; and their metric."""

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from tests.factories import make_alert, make_claim, make_cluster, make_team, make_user
from tests.usage.conftest import NOON
from usage.alerts.services import follow
from usage.models import Alert

ALERTS, API = "/alerts/", "/api/v1/alerts/"


@pytest.fixture
def three(waiting, full, stale):
    """Alerts of a claim of alice, of her team, and of a cluster."""
    follow(NOON)
    return waiting


def seen(client, person, address=API):
    client.force_login(person)
    answer = client.get(address)
    assert answer.status_code == 200, answer.text
    return sorted(row["condition"] for row in answer.json()["results"])


def test_owners_see_their_claims_leads_their_team_and_admins_everything(
    client, three, alice, bob, lena, eve, root
):
    assert seen(client, alice) == ["claim-pending"]
    assert seen(client, lena) == ["claim-pending", "quota-nearly-used"]
    assert seen(client, root) == ["claim-pending", "quota-nearly-used", "sync-stale"]
    assert seen(client, bob) == []  # a viewer
    make_team("nlp", leads=(eve,))
    assert seen(client, eve) == []
    alert = Alert.objects.get(condition="claim-pending")
    assert client.get(f"{API}{alert.pk}/").status_code == 404
    client.force_login(alice)
    assert client.get(f"{API}{alert.pk}/").json()["claim"] == str(three.pk)


def test_who_leaves_a_team_sees_the_alerts_of_their_claims_no_more(client, three, alice, vision):
    vision.memberships.filter(user=alice).delete()
    assert seen(client, alice) == []


def test_the_page_links_to_what_an_alert_is_about(client, three, lena):
    client.force_login(lena)
    page = client.get(ALERTS).text
    assert f'href="/claims/{three.pk}/"' in page
    assert 'href="/quotas/?team=vision"' in page
    assert "Claim is pending" in page
    assert "fra-1 has said nothing" not in page


@pytest.mark.parametrize(
    ("query", "conditions"),
    [
        ("", {"claim-pending", "quota-nearly-used", "sync-stale"}),
        ("condition=sync-stale", {"sync-stale"}),
        ("team=vision", {"claim-pending", "quota-nearly-used"}),
        ("cluster=fra-1", {"claim-pending", "sync-stale"}),
        ("q=9+of+10", {"quota-nearly-used"}),
        ("state=resolved", set()),
    ],
)
def test_the_list_is_filtered_on_the_page_and_as_csv(client, three, root, query, conditions):
    client.force_login(root)
    rows = client.get(f"{ALERTS}?{query}").context["listing"].page.object_list
    assert {row.condition for row in rows} == conditions
    lines = client.get(f"{ALERTS}?format=csv&{query}").getvalue().decode().splitlines()
    assert len(lines) == 1 + len(conditions)


def test_resolved_alerts_have_their_own_list_and_are_counted_for_a_day(client, three, root):
    Alert.objects.filter(condition="sync-stale").update(resolved_at=NOON - timedelta(hours=2))
    client.force_login(root)
    page = client.get(ALERTS)
    assert "1 resolved in the last 24 h" in page.text
    rows = client.get(f"{ALERTS}?state=resolved").context["listing"].page.object_list
    assert [row.condition for row in rows] == ["sync-stale"]
    assert seen(client, root, f"{API}?open=true") == ["claim-pending", "quota-nearly-used"]
    assert seen(client, root, f"{API}?open=false") == ["sync-stale"]
    assert seen(client, root, API) == ["claim-pending", "quota-nearly-used", "sync-stale"]
    both = seen(client, root, f"{API}?condition=sync-stale&condition=claim-pending")
    assert both == ["claim-pending", "sync-stale"]
    assert seen(client, root, f"{API}?claim={three.pk}") == ["claim-pending"]
    assert seen(client, root, f"{API}?claim=train") == []


def test_unknown_values_of_filters_are_refused(client, three, root):
    client.force_login(root)
    assert client.get(f"{API}?condition=weather").status_code == 422
    assert client.get(f"{API}?colour=red").status_code == 422
    assert client.get(f"{ALERTS}?condition=weather").status_code == 200  # the form names the error


def test_the_page_has_the_same_queries_for_many_alerts(client, three, root, vision, alice, fra):
    client.force_login(root)
    client.get(ALERTS)
    with CaptureQueriesContext(connection) as for_three:
        client.get(ALERTS)
    for _number in range(40):
        make_alert(vision, claim=make_claim(vision, by=alice, cluster=fra), cluster=fra)
    with CaptureQueriesContext(connection) as for_many:
        client.get(ALERTS)
    assert len(for_many) == len(for_three) <= 15


def test_open_alerts_are_a_metric_without_names_of_claims_and_teams(client, three):
    make_cluster("lab-2")
    make_user("someone")
    text = client.get("/metrics").text
    assert 'dragoman_alerts{cluster="fra-1",condition="claim-pending"} 1.0' in text
    assert 'dragoman_alerts{cluster="lab-2",condition="claim-pending"} 0.0' in text
    assert 'dragoman_alerts{cluster="",condition="quota-nearly-used"} 1.0' in text
    assert 'dragoman_alerts{cluster="",condition="budget-runs-out"} 0.0' in text
    assert three.name not in text
    assert 'vision"' not in text
