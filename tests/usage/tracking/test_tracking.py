"""Tracking servers: who sets them, what becomes of their secret, and what a hostile one can do."""

import json
from datetime import timedelta

import pytest
from cryptography.fernet import Fernet
from django.urls import reverse

from core.errors import Conflict, Forbidden, Invalid
from inventory.telemetry_access import NO_SECRET, TelemetrySecret, reseal_secrets
from teams.models import AuditEntry
from tests.factories import make_claim, make_team
from tests.usage.conftest import NOON, hold, price
from usage.models import TrackedRun, TrackingServer
from usage.tracking.mlflow import Mlflow, TrackingUnavailable, instant, printable
from usage.tracking.runs import follow, run_costs, tags_of
from usage.tracking.servers import remove_server, save_server, source_of

TOKEN = "eyJ.a-secret"
AT = "http://mlflow.example.org:5000"
HOUR = timedelta(hours=1)


@pytest.fixture
def server(root):
    return save_server(by=root, url=AT, secret=TelemetrySecret(token=TOKEN))


def make_run(server, claim, start, end=None, **fields):
    number = TrackedRun.objects.count()
    values = {"run_id": f"run-{number}", "experiment_id": "1", "status": "FINISHED", **fields}
    return TrackedRun.objects.create(
        tracking_server=server, claim=claim, started_at=start, ended_at=end, **values
    )


def answers(serve, runs=(), *, experiments=({"experiment_id": "1", "name": "e"},)):
    """Serve a page of experiments and one of runs, and return the address and what was asked."""
    asked = []

    def answer(path, body):
        asked.append((path, json.loads(body)))
        if path.endswith("experiments/search"):
            return 200, json.dumps({"experiments": list(experiments)})
        if path.endswith("runs/search"):
            return 200, json.dumps({"runs": list(runs)})
        return 200, "{}"

    return serve(answer), asked


def run_row(claim, **info):
    started = round((NOON - HOUR).timestamp() * 1000)
    about = {
        "run_id": "r1",
        "experiment_id": "1",
        "run_name": "x",
        "status": "RUNNING",
        "start_time": started,
    }
    return {"info": about | info, "data": {"tags": [{"key": "dragoman.claim", "value": str(claim.pk)}]}}


# Who.


def test_only_platform_admins_set_test_and_remove_servers(client, alice, lena, server):
    addresses = [
        reverse("usage:tracking"),
        reverse("usage:tracking_new"),
        reverse("usage:tracking_edit", args=[server.pk]),
    ]
    for person in (alice, lena):
        client.force_login(person)
        assert {client.get(address).status_code for address in addresses} == {403}
        assert client.post(reverse("usage:tracking_remove", args=[server.pk])).status_code == 403
        with pytest.raises(Forbidden):
            save_server(by=person, server=server, url="http://elsewhere.example.org")
        with pytest.raises(Forbidden):
            remove_server(by=person, server=server)
    assert TrackingServer.objects.get().url == AT


def test_runs_of_a_claim_are_hidden_from_outsiders_and_shown_to_viewers(client, claim, server, bob, eve):
    make_run(server, claim, NOON - HOUR, NOON)
    addresses = (reverse("usage:claim_runs_csv", args=[claim.pk]), f"/api/v1/claims/{claim.pk}/runs/")
    for person, status in ((eve, 404), (bob, 200)):
        client.force_login(person)
        assert [client.get(address).status_code for address in addresses] == [status, status]
    assert [client.post(address).status_code for address in addresses] == [405, 405]


# Settings.


def test_admin_adds_changes_and_removes_a_server_on_its_pages(client, root, vision):
    client.force_login(root)
    assert "No tracking server" in client.get(reverse("usage:tracking")).content.decode()
    answer = client.post(
        reverse("usage:tracking_new"), {"team": vision.pk, "url": AT, "kind": "token", "token": TOKEN}
    )
    assert answer.status_code == 302
    server = TrackingServer.objects.get()
    assert (server.team, server.kind, source_of(server).secret.token) == (vision, "token", TOKEN)
    edit = reverse("usage:tracking_edit", args=[server.pk])
    page = client.get(edit).content.decode()
    assert TOKEN not in page
    assert "Bearer token stored encrypted for http://mlflow.example.org:5000" in page
    client.post(edit, {"url": AT, "page_url": "https://mlflow.example.org", "kind": "token"})
    server.refresh_from_db()
    assert (server.page_url, source_of(server).secret.token) == ("https://mlflow.example.org", TOKEN)
    client.post(reverse("usage:tracking_remove", args=[server.pk]))
    assert not TrackingServer.objects.exists()
    texts = list(AuditEntry.objects.filter(in_activity=True).order_by("at").values_list("text", flat=True))
    assert texts == [
        "added, url mlflow.example.org, access given: bearer token",
        "page_url mlflow.example.org",
        "removed",
    ]


@pytest.mark.parametrize(
    ("sent", "problem"),
    [
        ({"url": "ftp://mlflow"}, "Enter a URL"),
        ({"url": "http://user:pw@mlflow"}, "user and password in their own fields"),
        ({"url": "http://169.254.169.254/"}, "an address of the machine itself"),
        ({"url": "http://[fe80::1]/"}, "an address of the machine itself"),
        ({"url": AT, "kind": "token"}, "Give the bearer token"),
        ({"url": AT, "token": TOKEN}, "Choose “Bearer token”"),
        ({"url": AT, "kind": "password", "password": "x"}, "Give the user of the password"),
        ({"url": AT, "authority": "no PEM"}, "Enter certificates in PEM"),
    ],
)
def test_what_cannot_be_a_server_is_refused_with_a_sentence(client, root, sent, problem):
    client.force_login(root)
    answer = client.post(reverse("usage:tracking_new"), sent)
    assert answer.status_code == 422
    page = answer.content.decode()
    assert problem in page
    assert TOKEN not in page
    assert not TrackingServer.objects.exists()


@pytest.mark.security("secrets", "sends the secret of an MLflow to another address")
def test_secret_is_not_sent_to_another_address(client, root, server):
    client.force_login(root)
    edit = reverse("usage:tracking_edit", args=[server.pk])
    answer = client.post(edit, {"url": "http://elsewhere.example.org", "kind": "token"})
    assert answer.status_code == 422
    assert "is not sent elsewhere" in answer.content.decode()
    with pytest.raises(Invalid, match="is not sent to"):
        save_server(by=root, server=server, url="http://elsewhere.example.org")
    TrackingServer.objects.update(url="http://elsewhere.example.org")
    server.refresh_from_db()
    with pytest.raises(TrackingUnavailable, match="is not sent to"):
        source_of(server)


def test_secret_is_encrypted_removed_on_request_and_moves_to_a_new_key(root, server, settings):
    assert TOKEN.encode() not in bytes(server.sealed)
    settings.CREDENTIAL_KEYS = [Fernet.generate_key().decode(), *settings.CREDENTIAL_KEYS]
    assert reseal_secrets() == 1
    settings.CREDENTIAL_KEYS = settings.CREDENTIAL_KEYS[:1]
    server.refresh_from_db()
    assert source_of(server).secret.token == TOKEN
    without = save_server(by=root, server=server, secret=NO_SECRET)
    assert (without.kind, without.sealed, source_of(without).secret) == ("", b"", NO_SECRET)


def test_one_server_for_the_installation_and_one_for_each_team(root, server, vision):
    save_server(by=root, team=vision, url=AT)
    for team in (None, vision):
        with pytest.raises(Conflict, match="has a tracking server already"):
            save_server(by=root, team=team, url=AT)


# A server that answers as it likes.


@pytest.mark.security("outbound", "an MLflow that redirects")
def test_redirect_is_not_followed_so_that_no_secret_goes_elsewhere(serve, root):
    asked = []
    elsewhere = serve(lambda path, body: (asked.append(path), (200, "{}"))[1])
    url = serve(lambda path, body: (302, ""))
    server = save_server(by=root, url=url, secret=TelemetrySecret(token=TOKEN))
    follow(server.pk, now=NOON)
    server.refresh_from_db()
    assert "redirects" in server.error
    assert TOKEN not in server.error
    assert (asked, bool(elsewhere)) == ([], True)


@pytest.mark.parametrize(
    ("status", "body", "problem"),
    [
        (401, "", "denies access (status 401)"),
        (500, "oops", "returned status 500"),
        (200, "<html>", "unknown format"),
        (200, '{"experiments": [{"no": "id"}]}', "unknown format"),
    ],
)
def test_failure_of_a_server_is_a_sentence_and_the_next_round_tries_again(serve, root, status, body, problem):
    server = save_server(by=root, url=serve(lambda path, sent: (status, body)))
    follow(server.pk, now=NOON)
    server.refresh_from_db()
    assert problem in server.error
    assert server.failed_at == NOON
    url, _asked = answers(serve)
    TrackingServer.objects.update(url=url)
    follow(server.pk, now=NOON + HOUR)
    server.refresh_from_db()
    assert (server.error, server.failed_at, server.succeeded_at) == ("", None, NOON + HOUR)


def test_names_of_a_server_are_shortened_and_made_printable(serve, root, claim):
    name = "a\x00b\ud800" + "x" * 400
    url, _asked = answers(
        serve, [run_row(claim, run_name=name)], experiments=[{"experiment_id": "1", "name": name}]
    )
    follow(save_server(by=root, url=url).pk, now=NOON)
    run = TrackedRun.objects.get()
    assert run.name == run.experiment == ("a b " + "x" * 400)[:250]


@pytest.mark.parametrize("time", [-5, 10**18, "soon"])
def test_time_that_no_clock_shows_is_an_unknown_format(time):
    with pytest.raises(ValueError, match=r"range|invalid literal"):
        instant(time)


def test_a_name_keeps_what_is_printable():
    assert printable("Ж <b>é</b>\n", 99) == "Ж <b>é</b>"


def test_two_rounds_at_the_same_time_are_one(serve, root, claim):
    url, asked = answers(serve, [run_row(claim)])
    server = save_server(by=root, url=url)
    assert follow(server.pk, now=NOON) == 1
    number = len(asked)
    assert follow(server.pk, now=NOON + timedelta(seconds=9)) == 0
    assert len(asked) == number


def test_a_round_is_one_search_for_all_claims_and_no_page_asks(serve, root, claim, client, alice):
    url, asked = answers(serve, [run_row(claim)])
    server = save_server(by=root, url=url)
    follow(server.pk, now=NOON)
    paths = [path.rpartition("/mlflow/")[2] for path, _body in asked]
    assert paths == ["experiments/search", "runs/search", "runs/log-batch"]
    client.force_login(alice)
    assert (
        "/#/experiments/1/runs/r1"
        in client.get(reverse("usage:claim_fragment", args=[claim.pk])).content.decode()
    )
    assert len(asked) == 3


def test_slow_server_ends_the_round_and_not_the_worker(serve, root):
    url, _asked = answers(serve)
    server = save_server(by=root, url=url)
    with pytest.raises(TrackingUnavailable, match="the rest follows"):
        Mlflow(source_of(server), budget=-1).experiments()


# Cost.


def test_runs_at_the_same_time_count_the_same_devices(server, claim):
    price("2.80")
    hold(claim, NOON - 4 * HOUR, NOON)
    runs = [make_run(server, claim, NOON - 2 * HOUR, NOON - HOUR) for _ in range(2)]
    costs = run_costs(runs, now=NOON)
    assert [tags_of(costs[run.pk])["dragoman.cost"] for run in runs] == ["2.80", "2.80"]


def test_run_before_or_without_devices_costs_nothing_and_has_no_cost_tag(server, claim):
    price("2.80")
    hold(claim, NOON - HOUR)
    run = make_run(server, claim, NOON - 3 * HOUR, NOON - 2 * HOUR)
    assert tags_of(run_costs([run], now=NOON)[run.pk]) == {"dragoman.gpu_hours": "0.00"}


def test_run_that_ends_before_it_begins_costs_nothing(server, claim):
    price("2.80")
    hold(claim, NOON - 5 * HOUR)
    run = make_run(server, claim, NOON - HOUR, NOON - 3 * HOUR)
    assert run_costs([run], now=NOON)[run.pk].held == 0


def test_run_in_two_currencies_or_partly_without_a_rate_has_no_cost_tag(server, claim):
    price("2.80", product="H100")
    hold(claim, NOON - HOUR)
    hold(claim, NOON - HOUR, product="NVIDIA L4")
    run = make_run(server, claim, NOON - HOUR, NOON)
    assert tags_of(run_costs([run], now=NOON)[run.pk]) == {"dragoman.gpu_hours": "2.00"}
    price("1.00", product="L4", currency="USD")
    assert tags_of(run_costs([run], now=NOON)[run.pk]) == {"dragoman.gpu_hours": "2.00"}


def test_cost_of_many_runs_needs_the_same_number_of_queries(
    server, claim, vision, alice, fra, client, django_assert_num_queries
):
    price("2.80")
    hold(claim, NOON - HOUR)
    client.force_login(alice)
    address = reverse("usage:claim_fragment", args=[claim.pk])
    make_run(server, claim, NOON - HOUR, NOON)
    client.get(address)
    with django_assert_num_queries(16) as few:
        client.get(address)
    for number in range(15):
        make_run(server, claim, NOON - number * HOUR, NOON)
    with django_assert_num_queries(len(few)):
        client.get(address)


def test_page_shows_the_newest_runs_and_the_csv_all(server, claim, client, alice):
    for number in range(25):
        make_run(server, claim, NOON - number * HOUR, NOON, name=f"epoch-{number}")
    client.force_login(alice)
    page = client.get(reverse("usage:claim_fragment", args=[claim.pk])).content.decode()
    assert "The newest 20; the CSV has all." in page
    assert "epoch-19" in page
    assert "epoch-20" not in page
    lines = client.get(reverse("usage:claim_runs_csv", args=[claim.pk])).content.decode().splitlines()
    assert len(lines) == 26


def test_api_of_runs_has_pages_and_only_the_runs_of_the_claim(server, claim, vision, alice, fra, client):
    other = make_claim(make_team("second", members=(alice,)), by=alice, cluster=fra)
    make_run(server, other, NOON - HOUR)
    for number in range(3):
        make_run(server, claim, NOON - number * HOUR, NOON)
    client.force_login(alice)
    first = client.get(f"/api/v1/claims/{claim.pk}/runs/?limit=2").json()
    rest = client.get(first["next"]).json()
    found = [row["run_id"] for row in first["results"] + rest["results"]]
    assert found == ["run-1", "run-2", "run-3"]
