"""Pages for export, import and presets."""

import html
import re

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from claims.catalogue.presets import presets
from claims.catalogue.yaml_export import catalogue_file, exported
from claims.models import Profile
from tests.factories import make_profile

pytestmark = pytest.mark.django_db

EXPORT, IMPORT, PRESETS = (
    reverse(f"claims:{name}") for name in ("catalogue_export", "catalogue_import", "presets")
)


@pytest.fixture
def admin(client, root):
    client.force_login(root)
    return client


@pytest.fixture
def text(train):
    """The catalogue as it is, with fewer devices."""
    return catalogue_file(exported()).replace("maxDevices: 8", "maxDevices: 4")


def carried(page):
    """Return what the confirmation sends, as a browser does."""
    found = re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', page)
    (text,) = re.findall(r'<textarea name="text" hidden>\n(.*?)</textarea>', page, re.DOTALL)
    sent = {name: html.unescape(value) for name, value in found if name != "csrfmiddlewaretoken"}
    return sent | {"text": html.unescape(text).replace("\n", "\r\n")}


@pytest.mark.parametrize("address", [EXPORT, IMPORT, PRESETS])
def test_export_import_and_presets_are_for_platform_admins(client, lena, vision, address):
    assert client.get(address).status_code == 302
    client.force_login(lena)
    assert client.get(address).status_code == 403


@pytest.mark.parametrize("address", [IMPORT, PRESETS])
def test_lead_cannot_import_or_add_presets(client, lena, vision, address, text):
    client.force_login(lena)
    assert client.post(address, {"text": text, "preset": "mps"}).status_code == 403
    assert Profile.objects.get().current.number == 1


def test_export_is_a_download(admin, train):
    answer = admin.get(EXPORT)
    assert answer.headers["Content-Disposition"] == 'attachment; filename="catalogue.yaml"'
    assert answer.text == catalogue_file(exported())


def test_import_shows_the_plan_and_then_imports(admin, text):
    page = admin.post(IMPORT, {"file": SimpleUploadedFile("ours.yaml", text.encode())}).text
    assert "ours.yaml" in page
    assert "<td><code>limits.maxDevices</code></td><td>8</td><td>4</td>" in page
    assert Profile.objects.get().current.number == 1
    assert admin.post(IMPORT, carried(page)).url == reverse("claims:profiles")
    assert (Profile.objects.get().current.number, Profile.objects.get().current.max_devices) == (2, 4)


def test_pasted_text_is_imported(admin, text):
    page = admin.post(IMPORT, {"text": text, "prune": "on"}).text
    assert "limits.maxDevices" in page
    assert carried(page)["prune"] == "on"


def test_profile_missing_in_the_file_is_shown_before_it_is_retired(admin, text):
    other = make_profile("other")
    page = admin.post(IMPORT, {"text": text, "prune": "on"}).text
    assert "It is not in the file" in page
    admin.post(IMPORT, carried(page))
    other.refresh_from_db()
    assert other.retired_at


def test_changed_catalogue_shows_a_new_plan(admin, text, train):
    sent = carried(admin.post(IMPORT, {"text": text}).text)
    train.title = "Other"
    train.save(update_fields=["title"])
    answer = admin.post(IMPORT, sent)
    assert answer.status_code == 409
    assert "has changed since you read this plan" in answer.text
    assert Profile.objects.get().current.number == 1
    admin.post(IMPORT, carried(answer.text))
    assert Profile.objects.get().current.number == 2


def test_import_of_the_same_file_has_nothing_to_do(admin, train):
    page = admin.post(IMPORT, {"text": catalogue_file(exported())}).text
    assert "there is nothing to do" in page


def test_import_page_names_profiles_that_stay_retired(admin, train, text):
    same = catalogue_file(exported())
    Profile.objects.update(retired_at=timezone.now())
    page = " ".join(admin.post(IMPORT, {"text": same}).text.split())
    assert "train-80</a> stays retired: the file repeats the last version." in page
    assert "there is nothing to do" in page
    page = admin.post(IMPORT, {"text": text}).text
    assert "The file changes it, so the import restores it." in page
    assert "limits.maxDevices" in page
    assert admin.post(IMPORT, carried(page)).status_code == 302
    assert Profile.objects.get().retired_at is None


@pytest.mark.parametrize(
    ("sent", "message"),
    [
        ({}, "Choose a file, or paste its text."),
        ({"text": "slug: [", "name": "a.yaml"}, "a.yaml, line 1: this is not YAML"),
        ({"text": "slug: a"}, "catalogue.yaml, line 1: kind must be Profile."),
        ({"file": SimpleUploadedFile("a.yaml", b"\xff\x00")}, "This is not a text file."),
        ({"file": SimpleUploadedFile("a.yaml", b"a" * (1 << 20 | 1))}, "the limit is 1024 KiB."),
    ],
)
def test_invalid_file_is_refused_with_its_lines(admin, sent, message):
    answer = admin.post(IMPORT, sent)
    assert answer.status_code == 422
    assert message in answer.text


def test_refused_import_keeps_the_pasted_text(admin):
    assert "slug: mine" in admin.post(IMPORT, {"text": "slug: mine"}).text


def test_presets_show_matching_devices_and_cautions(admin, fra):
    page = admin.get(PRESETS).text
    assert all(entry.title in page for entry in presets())
    assert "fra-1: none" in page
    assert "MPSSupport" in page


def test_selected_presets_are_added_once(admin):
    assert admin.post(PRESETS, {"preset": ["mps", "whole-node"]}).url == reverse("claims:profiles")
    assert [profile.slug for profile in Profile.objects.order_by("slug")] == ["mps", "whole-node"]
    page = admin.get(PRESETS).text
    assert 'value="mps"' not in page
    assert 'value="mig-mix"' in page
    admin.post(PRESETS, {"preset": ["mps"]})
    assert Profile.objects.get(slug="mps").versions.count() == 1


@pytest.mark.parametrize("preset", [[], ["no-such"]])
def test_no_selected_preset_is_an_error(admin, preset):
    answer = admin.post(PRESETS, {"preset": preset})
    assert answer.status_code == 422
    assert "Select the presets that you want to add." in answer.text


def test_query_count_of_presets_does_not_depend_on_the_catalogue(admin, fra):
    admin.get(PRESETS)
    with CaptureQueriesContext(connection) as one:
        admin.get(PRESETS)
    for number in range(10):
        make_profile(f"more-{number}")
    with CaptureQueriesContext(connection) as many:
        admin.get(PRESETS)
    assert len(many) == len(one)
