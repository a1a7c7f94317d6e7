"""The audit log of a platform admin: its page, CSV and API, and who reads it."""

from __future__ import annotations

import csv
import io
from datetime import timedelta

import pytest
from django.utils import timezone

from teams.audit.actions import ACTIONS
from teams.audit.chain import seal, verify_and_store
from teams.models import AuditEntry, record
from tests.factories import changing_the_log, make_claim, make_cluster, make_team, make_token, make_user

pytestmark = pytest.mark.django_db
PAGE, API = "/audit/", "/api/v1/audit/"


@pytest.fixture
def root():
    return make_user("root", admin=True)


@pytest.fixture
def alice():
    return make_user("alice", first_name="Alice", last_name="Ames")


@pytest.fixture
def vision(alice):
    return make_team("vision", members=(alice,))


@pytest.fixture
def entries(root, alice, vision):
    """Four entries, of which three are in the log of the demo's kinds of actions."""
    claim = make_claim(vision, by=alice, cluster=make_cluster("fra-1", teams=(vision,)), name="bev-train")
    common = {"kind": "claim", "object_id": str(claim.pk), "name": "bev-train", "team_id": vision.pk}
    record(by=alice, action="claim.requested", text="For the review.", **common)
    record(by=root, action="claim.approved", text="Approved.", values=[("State", "a", "b")], **common)
    record(by=alice, action="session.signed_in", kind="user", object_id=str(alice.pk), name="alice")
    record(by=None, action="claim.expired", text="Nobody decided.", **common)
    with changing_the_log():
        AuditEntry.objects.filter(action="session.signed_in").update(
            address="192.0.2.7", source="token", token="drg_abcdef", via="ci"
        )
        AuditEntry.objects.exclude(action__in=OF_TEST).delete()
    return claim


OF_TEST = ("claim.requested", "claim.approved", "session.signed_in", "claim.expired")


@pytest.fixture
def reads(client, root, entries):
    """Return the page as the admin sees it, without the entry of their own sign-in."""

    def page(query="", person=root):
        client.force_login(person)
        with changing_the_log():
            AuditEntry.objects.filter(action="session.signed_in", object_id=str(person.pk)).delete()
        return client.get(PAGE + query)

    return page


def actions(page):
    return [row.entry.action for _day, rows, _number in page.context["days"] for row in rows]


def test_the_newest_entry_is_the_first(reads):
    assert actions(reads()) == ["claim.expired", "session.signed_in", "claim.approved", "claim.requested"]


@pytest.mark.parametrize("role", ["members", "leads", "owners"])
def test_nobody_but_platform_admins_knows_of_it(client, entries, role):
    person = make_user("eve")
    make_team("vision", **{role: (person,)})
    client.force_login(person)
    assert client.get(PAGE).status_code == 403
    assert client.get(f"{PAGE}?format=csv").status_code == 403
    assert client.get(API).status_code == 403
    assert b"/audit/" not in client.get("/").content


def test_who_is_not_signed_in_reads_nothing(client, entries):
    assert client.get(PAGE).status_code == 302
    assert client.get(API).status_code == 401


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("?who=alice", ["session.signed_in", "claim.requested"]),
        ("?who=Ames", ["session.signed_in", "claim.requested"]),
        ("?who=nobody", []),
        ("?action=claim.approved", ["claim.approved"]),
        ("?action=claim.", ["claim.expired", "claim.approved", "claim.requested"]),
        ("?action=nothing", []),
        ("?kind=user", ["session.signed_in"]),
        ("?team=vision", ["claim.expired", "claim.approved", "claim.requested"]),
        ("?team=nlp", []),
        ("?address=192.0.2.7", ["session.signed_in"]),
        ("?address=192.0.2.8", []),
        ("?token=drg_abcdef", ["session.signed_in"]),
        ("?q=bev+review", ["claim.requested"]),
        ("?q=decided", ["claim.expired"]),
        ("?since=2000-01-01&until=2001-01-01", []),
    ],
)
def test_each_filter_finds_what_it_names(reads, query, found):
    assert actions(reads(query)) == found


def test_all_entries_of_one_object(reads, entries):
    page = reads(f"?kind=claim&object={entries.pk}")
    assert len(actions(page)) == 3
    assert "One object" in page.text


def test_an_address_that_is_none_is_said(reads):
    page = reads("?address=here")
    assert "Enter a valid IPv4 or IPv6 address" in page.text


def test_the_range_is_seven_days_unless_another_is_chosen(reads):
    with changing_the_log():
        AuditEntry.objects.update(at=timezone.now() - timedelta(days=8))
    assert actions(reads()) == []
    assert len(actions(reads("?range=30d"))) == 4


def test_an_entry_opens_with_before_and_after_address_and_seal(reads, client):
    opened = AuditEntry.objects.get(action="claim.approved")
    closed, page = reads(), reads(f"?open=c{opened.pk.hex}")
    assert ">Before<" not in closed.text
    assert '<td class="was">a</td><td class="now">b</td>' in page.text
    assert "within seconds" in page.text
    seal()
    assert "within seconds" not in reads(f"?open=c{opened.pk.hex}").text
    alone = reads(f"?entry=c{opened.pk.hex}")
    assert actions(alone) == ["claim.approved"]


@pytest.mark.parametrize("entry", ["x", "t1", "c", f"c{'0' * 32}"])
def test_an_entry_that_does_not_exist_is_404(reads, entry):
    assert reads(f"?entry={entry}").status_code == 404


def test_pages_show_every_entry_once(reads, alice):
    for _index in range(120):
        record(by=alice, action="team.changed", kind="team", name="x")
    address, seen = "?action=team.changed", []
    while address:
        page = reads(address)
        seen += [row.id for _day, rows, _number in page.context["days"] for row in rows]
        address = page.context["older_url"]
    assert len(seen) == len(set(seen)) == 120


def test_a_position_that_is_none_is_refused(reads):
    assert reads("?before=x").status_code == 422


def test_the_csv_has_every_column(reads):
    text = b"".join(reads("?format=csv&action=session.signed_in").streaming_content).decode()
    [line] = csv.DictReader(io.StringIO(text))
    assert (line["Action"], line["Who"], line["Address"]) == ("session.signed_in", "alice", "192.0.2.7")
    assert (line["Token"], line["Token title"], line["From where"]) == ("drg_abcdef", "ci", "API token")


def test_the_page_says_how_far_the_log_is_sealed_and_verified(reads):
    assert "Nothing is sealed yet." in reads().text
    seal()
    assert "Sealed up to number 4" in reads().text
    assert "Not verified yet" in reads().text
    verify_and_store()
    assert "nothing was changed" in reads().text


def test_the_page_says_what_a_verification_found(reads):
    seal()
    with changing_the_log():
        AuditEntry.objects.filter(action="claim.approved").update(name="other")
    verify_and_store()
    page = reads().text
    assert "The log was changed." in page
    assert "was changed. Found" in page
    assert "nothing was changed" not in page


def test_the_page_says_whether_the_portal_could_change_the_log(reads, monkeypatch):
    assert "manage.py audit grants" in reads().text
    monkeypatch.setattr("portal.audit.views.may_change_log", lambda: False)
    assert "may only add to the log" in reads().text


def test_a_page_takes_the_same_queries_for_any_number_of_entries(
    client, root, alice, django_assert_max_num_queries, django_assert_num_queries
):
    client.force_login(root)
    client.get(PAGE)
    with django_assert_max_num_queries(10) as few:
        client.get(PAGE)
    for _index in range(60):
        record(by=alice, action="team.changed", kind="team", name="x")
    seal()
    with django_assert_num_queries(len(few)):
        client.get(PAGE)


def test_admins_come_from_the_changes_of_an_object_to_its_entries(client, root, vision):
    client.force_login(root)
    client.post(f"/teams/{vision.slug}/settings/", {"title": "Computer vision"})
    page = client.get(f"/teams/{vision.slug}/settings/").text
    assert f"/audit/?kind=team&amp;object={vision.pk}" in page


# The API.


def test_the_api_has_sealed_entries_in_the_order_of_the_chain(client, root, entries):
    client.force_login(root)
    assert client.get(API).json() == {"next": None, "results": []}
    seal()
    first = client.get(f"{API}?limit=3").json()
    assert [entry["number"] for entry in first["results"]] == [1, 2, 3]
    for address in (first["next"], f"{API}?after=3"):
        rest = client.get(address).json()
        assert rest["results"][0]["number"] == 4
        assert rest["next"] is None


def test_an_entry_of_the_api_has_who_what_before_and_after(client, root, entries, vision):
    seal()
    client.force_login(root)
    [entry] = client.get(f"{API}?action=claim.approved").json()["results"]
    assert (entry["actor"], entry["actor_kind"], entry["team"]) == ("root", "person", "vision")
    assert entry["values"] == [{"what": "State", "before": "a", "after": "b"}]
    assert len(entry["hash"]) == 64


@pytest.mark.parametrize(
    ("query", "number"),
    [
        ("action=claim.", 3),
        ("who=alice", 2),
        ("team=vision", 3),
        ("address=192.0.2.7", 1),
        ("token=drg_abcdef", 1),
        ("kind=user&who=alice", 1),
        ("q=decided", 1),
        ("since=2000-01-01T00:00:00Z&who=alice", 2),
        ("until=2000-01-01T00:00:00Z", 0),
    ],
)
def test_the_api_filters_as_the_page_does(client, root, entries, query, number):
    seal()
    client.force_login(root)
    assert len(client.get(f"{API}?{query}").json()["results"]) == number


@pytest.mark.parametrize(
    "query", ["limit=0", "limit=501", "after=-1", "after=x", "address=here", "q=", "since=soon", "other=1"]
)
def test_the_api_refuses_malformed_parameters(client, root, query):
    client.force_login(root)
    assert client.get(f"{API}?{query}").status_code == 422


def test_a_token_of_an_admin_reads_the_api(client, root, entries):
    _token, text = make_token(root)
    seal()
    assert client.get(API, headers={"Authorization": f"Bearer {text}"}).json()["results"]


def test_the_api_takes_the_same_queries_for_any_number_of_entries(
    client, root, alice, django_assert_num_queries
):
    client.force_login(root)
    record(by=alice, action="team.changed", kind="team", name="x")
    seal()
    client.get(API)
    with django_assert_num_queries(2):  # session, page
        client.get(API)
    for _index in range(40):
        record(by=alice, action="team.changed", kind="team", name="x")
    seal()
    with django_assert_num_queries(2):
        client.get(API)


def test_the_page_of_the_docs_lists_every_action(settings):
    page = (settings.BASE_DIR / "docs" / "audit.md").read_text()
    for code, words in ACTIONS.items():
        assert f"| `{code}` | {words} |" in page, code
