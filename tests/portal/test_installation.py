"""An empty installation leads its admin through the steps; its settings are shown without secrets."""

from __future__ import annotations

import pytest
from django.core import mail
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from core.models import Installation
from dra.cluster_snapshot import ClusterSnapshot
from inventory.models import Cluster, DeviceClass
from notify import mail as notify_mail
from portal.setup.installation import setup_of
from teams.invitations import invite
from teams.models import AuditEntry, User
from teams.zones import zone_for
from tests.factories import make_cluster, make_profile, make_quota, make_team, make_user
from tests.scheduler.hardware import CASES, every_class

pytestmark = pytest.mark.django_db


@pytest.fixture
def root():
    return make_user("root", admin=True, email="root@helix.example")


@pytest.fixture
def as_root(client, root):
    client.force_login(root)
    return client


def open_steps(user) -> list[tuple[str, str]]:
    return [(step.title, step.action) for step in setup_of(user).steps if not step.is_done]


def test_each_step_is_done_by_what_it_asks_for(root):
    titles = ["Cluster", "Telemetry", "Profiles", "Team", "People"]
    assert [title for title, _action in open_steps(root)] == titles
    cluster = make_cluster("fra-1")
    assert [title for title, _action in open_steps(root)] == titles[1:]
    Cluster.objects.update(metrics_url="http://dcgm:9400/metrics")
    make_profile("train-80")
    assert open_steps(root) == [("Team", "Create a team"), ("People", "Invite")]
    team = make_team("vision")
    assert open_steps(root)[0] == ("Team", "Give it a namespace")
    team.namespaces.create(cluster=cluster, namespace="vision")
    assert open_steps(root)[0] == ("Team", "Set a quota")
    make_quota(team, 8)
    assert open_steps(root) == [("People", "Invite")]
    make_user("mia")
    assert setup_of(root).is_done


def test_a_step_that_is_done_says_what_there_is(root):
    for number in range(4):
        make_cluster(f"fra-{number}")
    Cluster.objects.filter(name="fra-2").update(prometheus_url="http://prometheus:9090")
    Cluster.objects.filter(name="fra-3").update(metrics_url="http://dcgm:9400/metrics")
    make_profile("train-80")
    team = make_team("vision", members=(make_user("mia"),))
    team.namespaces.create(cluster=Cluster.objects.get(name="fra-1"), namespace="vision")
    make_quota(team, 8)
    invite(by=root, email="ana@helix.example")
    assert [step.fact for step in setup_of(root).steps] == [
        "fra-0, fra-1, fra-2 and more",
        "fra-2, fra-3",
        "1 profile",
        "1 team with namespace and quota",
        "1 other person, 1 invited",
    ]


def test_steps_are_read_in_one_query(root, django_assert_num_queries):
    with django_assert_num_queries(1):
        setup_of(root)


def test_home_shows_the_steps_until_they_are_done_or_hidden(as_root, root):
    page = as_root.get("/").text
    assert "Set up Dragoman" in page
    assert 'href="/setup/cluster/"' in page
    for _attempt in range(2):
        assert as_root.post("/setup/hide").status_code == 302
    assert "Set up Dragoman" not in as_root.get("/").text
    assert "0 of 5 done" in as_root.get("/setup/").text


def test_step_is_skipped_by_one_admin_for_all_and_taken_up_again(as_root, root):
    other = make_user("chief", admin=True)
    for _attempt in range(2):
        assert as_root.post("/setup/skip", {"step": "cluster", "next": "/"}).url == "/"
    assert setup_of(other).next.key == "telemetry"
    assert "1 skipped" in as_root.get("/setup/").text
    assert [change.text for change in AuditEntry.objects.filter(in_activity=True)] == [
        "setup: cluster skipped"
    ]
    assert as_root.post("/setup/skip", {"step": "cluster", "skip": "0"}).url == "/setup/"
    assert setup_of(other).next.key == "cluster"
    assert as_root.post("/setup/skip", {"step": "nothing"}).status_code == 404


def test_setup_is_over_once_each_step_is_done_or_skipped(as_root, root):
    make_cluster("fra-1", prometheus_url="http://prometheus:9090")
    for step in ("profiles", "team", "people"):
        assert not setup_of(root).is_done
        as_root.post("/setup/skip", {"step": step})
    assert setup_of(root).is_done
    assert "Set up Dragoman" not in as_root.get("/").text


def test_step_of_profiles_lists_the_presets_that_match_devices(as_root, root, monkeypatch):
    machine = next(case for case in CASES if case.preset == "mps")
    seen = ClusterSnapshot(classes=every_class(), slices=[])
    monkeypatch.setattr("claims.catalogue.presets.matches.current_snapshot", lambda cluster: seen)
    make_cluster("fra-1", prometheus_url="http://prometheus:9090")
    assert "None matches yet" in as_root.get("/setup/").text
    seen = ClusterSnapshot(classes=every_class(), slices=machine.machine(machine.name))
    page = as_root.get("/setup/").text
    assert 'name="preset" value="mps"' in page
    assert "presets compared with the 0 devices" in page
    added = as_root.post("/profiles/presets/", {"preset": "mps", "next": "/setup/"})
    step = setup_of(root).next
    assert (added.url, step and step.key) == ("/setup/", "team")
    assert 'value="mps"' not in as_root.get("/setup/?step=profiles").text


def test_home_shows_no_steps_once_all_are_done(as_root, root):
    team = make_team("vision", members=(make_user("mia"),))
    make_cluster("fra-1", teams=(team,), prometheus_url="http://prometheus:9090")
    make_profile("train-80")
    make_quota(team, 8)
    assert "Set up Dragoman" not in as_root.get("/").text
    assert "Teams can request devices now." in as_root.get("/setup/").text


ABOUT = {"name": "Helix GPU", "currency": "usd", "timezone": "Asia/Tokyo"}
PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c489"
    "0000000d49444154789c6360f8cfc0f01f0005000201a5f645400000000049454e44ae426082"
)


def logo_file(image: bytes = PIXEL) -> SimpleUploadedFile:
    return SimpleUploadedFile("logo.png", image, "image/png")


def test_name_and_logo_are_shown_on_every_page_and_at_sign_in(as_root, client, root):
    for _attempt in range(2):
        assert as_root.post("/settings/", {**ABOUT, "file": logo_file()}).status_code == 302
    address = f"/logo.png?v={Installation.load().logo_digest}"
    as_root.logout()
    for page in (as_root.get("/accounts/login/"), Client().get("/accounts/login/")):
        assert f'<img src="{address}" alt=""> Helix GPU' in page.text
        assert "· Helix GPU</title>" in page.text
    answer = Client().get(address)
    assert (answer.content, answer["Content-Type"]) == (PIXEL, "image/png")
    client.force_login(make_user("mia"))
    assert f'<img src="{address}" alt=""> Helix GPU' in client.get("/me/").text
    client.force_login(root)
    page = client.get("/settings/")
    assert "name Dragoman → Helix GPU, currency EUR → USD, timezone none → Asia/Tokyo, logo" in page.text
    assert AuditEntry.objects.filter(in_activity=True).count() == 1  # the second time nothing changed
    client.post("/settings/", {**ABOUT, "removes_logo": "on"})
    assert client.get(address).status_code == 404
    assert "/logo.png" not in client.get("/me/").text


def test_settings_cost_a_page_no_query(as_root, django_assert_num_queries):
    with CaptureQueriesContext(connection) as before:
        as_root.get("/me/")
        number = len(before)
    as_root.post("/settings/", {**ABOUT, "file": logo_file()})
    as_root.get("/me/")
    with django_assert_num_queries(number):
        assert "Helix GPU" in as_root.get("/me/").text


def test_time_zone_holds_for_readers_without_one_on_pages_and_in_mails(as_root, root):
    as_root.post("/settings/", ABOUT)
    assert 'data-zone="Asia/Tokyo"' in as_root.get("/me/").text
    assert str(zone_for(root)) == "Asia/Tokyo"
    as_root.cookies["timezone"] = "Europe/Paris"
    assert 'data-zone="Europe/Paris"' in as_root.get("/me/").text
    User.objects.update(timezone="America/Lima")
    assert 'data-zone="America/Lima"' in as_root.get("/me/").text


def test_new_rates_start_with_the_currency(as_root):
    as_root.post("/settings/", ABOUT)
    assert 'value="USD"' in as_root.get("/rates/new/").text
    body = {"title": "All", "per_hour": "2.90", "valid_from": "2026-11-01T00:00:00Z"}
    answer = as_root.post("/api/v1/rates/", body, content_type="application/json")
    assert answer.json()["currency"] == "USD"


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"name": ""}, "This field is required."),
        ({"currency": "E1R"}, "Three letters, such as EUR"),
        ({"timezone": "Mars/Olympus"}, "Mars/Olympus is not one of the available choices"),
        ({"file": logo_file(b"<svg onload=alert(1)>")}, "The file is not a PNG."),
        ({"file": logo_file(PIXEL + bytes(64 * 1024))}, "larger than 64 KiB"),
        ({"file": logo_file(PIXEL[:16] + b"\0\0\x10\0" + PIXEL[20:])}, "4096 × 1 pixels"),
    ],
)
def test_invalid_settings_are_refused_with_a_sentence(as_root, wrong, sentence):
    answer = as_root.post("/settings/", ABOUT | wrong)
    assert answer.status_code == 422
    assert sentence in answer.text
    assert not Installation.objects.exists()


def test_settings_are_shown_without_secrets(as_root, settings):
    settings.MAIL_URL = "smtp+tls://portal:pa55word@mail.helix.example:587"
    settings.PORTAL_URL = "https://gpu.helix.example"
    for name in ("fra-1", "lab-2"):
        cluster = make_cluster(name)
        DeviceClass.objects.create(cluster=cluster, uid=name, name="gpu.nvidia.com")
    page = as_root.get("/settings/").text
    for text in ("mail.helix.example", "https://gpu.helix.example", "EMAIL_URL", "fra-1, lab-2"):
        assert text in page
    for secret in ("pa55word", settings.SECRET_KEY):
        assert secret not in page


def test_test_mail_goes_to_the_reader_and_says_what_went_wrong(as_root, root, settings, monkeypatch):
    settings.MAIL_URL = "smtp://mail.helix.example"
    settings.MAILERS = {"default": {"BACKEND": "django.core.mail.backends.locmem.EmailBackend"}}
    assert "accepted a test email" in as_root.post("/settings/mail", follow=True).text
    assert mail.outbox[-1].to == ["root@helix.example"]

    def refuse(self):
        raise OSError("connection refused")

    monkeypatch.setattr(notify_mail.EmailMessage, "send", refuse)
    assert "connection refused" in as_root.post("/settings/mail", follow=True).text
    User.objects.update(email="")
    assert "no email address" in as_root.post("/settings/mail", follow=True).text


@pytest.mark.parametrize("role", ["outsider", "member", "lead", "owner"])
def test_only_platform_admins_see_setup_and_settings(client, role):
    people = {name: make_user(name) for name in ("outsider", "member", "lead", "owner")}
    make_team(members=(people["member"],), leads=(people["lead"],), owners=(people["owner"],))
    client.force_login(people[role])
    assert "Set up Dragoman" not in client.get("/").text
    for address in ("/setup/", "/settings/"):
        assert client.get(address).status_code == 403
    for address in ("/setup/hide", "/setup/skip", "/settings/mail", "/settings/"):
        assert client.post(address, ABOUT).status_code == 403
    assert not Installation.objects.exists()
    assert not User.objects.filter(hides_setup=True).exists()
