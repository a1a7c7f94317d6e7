"""A manifest that no reader of YAML can read is said to be wrong."""

import pytest
import yaml

from claims.catalogue.presets import presets
from claims.models import Profile
from claims.requests.manifest_import import import_claims
from core.errors import Invalid
from dra.combination import with_positional_names
from tests.factories import make_profile, make_team, make_user

PAGE = "/claims/request/import/"


CLAIM = "kind: ResourceClaim\nmetadata: {name: n%d}\nspec: {devices: {requests: [%s]}}\n"
REQUEST = "{name: r%d, exactly: {deviceClassName: gpu.nvidia.com}}"
EITHER = "{name: r%d, firstAvailable: [{name: a, deviceClassName: x}, {name: b, deviceClassName: y}]}"


def claims(number, requests=1, written=REQUEST):
    listed = ", ".join(written % place for place in range(requests))
    return "---\n".join(CLAIM % (place, listed) for place in range(number))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (claims(51), "f, line 200: the limit is 50 documents."),
        (yaml.safe_dump({"items": [*yaml.safe_load_all(claims(51))]}), "f has 51 objects; the limit is 50."),
        (claims(4, 26), "f has 104 device requests; the limit is 100."),
        (claims(17, 3, EITHER), "f has 102 device requests; the limit is 100."),
    ],
)
def test_file_with_too_many_objects_or_requests_is_refused(text, sentence):
    with pytest.raises(Invalid) as refusal:
        import_claims(text, "f", ())
    assert refusal.value.message == sentence


def test_file_may_have_fifty_objects_and_a_hundred_requests():
    assert len(import_claims(claims(50, 2), "f", ()).claims) == 50


@pytest.mark.django_db
def test_profiles_are_made_comparable_once_for_all_objects_of_a_file(monkeypatch):
    for entry in presets():
        make_profile(entry.slug, spec=entry.spec, scalable=entry.limits.scalable)
    normalized = []
    monkeypatch.setattr(
        "dra.combination.with_positional_names",
        lambda spec: normalized.append(spec) or with_positional_names(spec),
    )
    import_claims(claims(50), "f", Profile.objects.select_related("current"))
    assert len(normalized) <= 2 * len(presets())  # by their count: as saved, and with the count of the file


class Clock:
    """Processor time that goes on by a second with each look at it."""

    def __init__(self):
        self.seconds = 0

    def __call__(self):
        self.seconds += 1
        return self.seconds


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            claims(9),
            "To compare f with 2 profiles takes more than 5 s, the limit. "
            "2 of 9 claims were compared. Import at most 2 of them in one file.",
        ),
        (
            claims(2, 20),
            "To compare f with 2 profiles takes more than 5 s, the limit. "
            "0 of 2 claims were compared. Import each of them in a file of its own.",
        ),
        (
            claims(1, 20),
            "To compare f with 2 profiles takes more than 5 s, the limit. "
            "0 of 1 claims were compared. Choose profiles in the request form instead.",
        ),
    ],
)
def test_comparison_ends_after_five_seconds_of_processor_time(monkeypatch, text, sentence):
    make_profile("one"), make_profile("two")
    monkeypatch.setattr("claims.requests.manifest_import.time.thread_time", Clock())
    with pytest.raises(Invalid) as refusal:
        import_claims(text, "f", Profile.objects.select_related("current"))
    assert refusal.value.message == sentence


@pytest.mark.django_db
def test_page_says_which_part_of_a_file_was_compared_in_time(client, monkeypatch):
    alice = make_user("alice")
    make_team("vision", members=(alice,))
    make_profile("one"), make_profile("two")
    client.force_login(alice)
    monkeypatch.setattr("claims.requests.manifest_import.time.thread_time", Clock())
    page = client.post(PAGE, {"text": claims(9)})
    assert page.status_code == 422
    assert "2 of 9 claims were compared. Import at most 2 of them in one file." in page.content.decode()


@pytest.mark.django_db
def test_the_box_that_clears_a_file_is_no_file(client):
    alice = make_user("alice")
    make_team("vision", members=(alice,))
    client.force_login(alice)
    assert client.post(PAGE, {"text": "kind: Pod", "file-clear": "on"}).status_code == 422
