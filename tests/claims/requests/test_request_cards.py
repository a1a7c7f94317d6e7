"""The cards of the request form: profiles by purpose, clusters with verdicts; the panel before a choice."""

import re
from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from claims.models import Profile, ProfileWaits
from claims.requests.views import SHOWN_CARDS
from tests.claims.requests.test_request_pages import lab, stored, verdict  # noqa: F401
from tests.factories import make_claim, make_cluster, make_profile, make_quota, make_team

pytestmark = pytest.mark.django_db

FORM, PANEL = reverse("claims:request"), reverse("claims:request_preview")


def for_(purpose, *slugs):
    for slug in slugs:
        make_profile(slug)
    Profile.objects.filter(slug__in=slugs).update(purpose=purpose)


def groups(context, name="open_groups"):
    return {group.label: [entry.profile.slug for entry in group.cards] for group in context[name]}


def has_free(cluster, *slugs, free=3):
    for profile in Profile.objects.filter(slug__in=slugs):
        stored(cluster, profile, matching=8, free=free, nodes=free and 1, most=free)


def test_profiles_are_grouped_in_the_order_of_the_purposes(client, alice, request_fields):
    for_("notebooks", "note")
    for_("training", "big", "bigger")
    client.force_login(alice)
    page = client.get(FORM)
    assert list(groups(page.context).items()) == [
        ("Training and fine-tuning", ["big", "bigger"]),
        ("Notebooks", ["note"]),
        ("Other", ["train-80"]),
    ]
    headings = re.findall(r"<h3[^>]*>(Training and fine-tuning|Notebooks|Other)</h3>", page.text)
    assert headings == ["Training and fine-tuning", "Notebooks", "Other"]


def test_what_fits_stands_first_then_what_the_team_uses(client, alice, vision, fra, request_fields):
    for_("training", "a-full", "b-free", "c-used", "d-used-full")
    has_free(fra, "a-full", "d-used-full", free=0)
    has_free(fra, "b-free", "c-used")
    for slug in ("c-used", "d-used-full"):
        make_claim(vision, cluster=fra, profile=Profile.objects.get(slug=slug))
    make_claim(make_team("nlp"), cluster=fra, profile=Profile.objects.get(slug="b-free"))
    client.force_login(alice)
    order = groups(client.get(FORM).context)["Training and fine-tuning"]
    assert order == ["c-used", "b-free", "d-used-full", "a-full"]


def test_more_profiles_than_fit_on_a_screen_are_folded_but_not_the_chosen_one(client, alice, request_fields):
    slugs = [f"p-{number:02}" for number in range(SHOWN_CARDS + 3)]
    for_("training", *slugs)
    client.force_login(alice)
    page = client.get(FORM + f"?profile={slugs[-1]}")
    shown, folded = groups(page.context), groups(page.context, "more_groups")
    assert sum(map(len, shown.values())) == SHOWN_CARDS
    assert slugs[-1] in shown["Training and fine-tuning"]
    assert sum(map(len, folded.values())) == page.context["more"] == 4  # with train-80 of the fixture
    assert "4 more: Training and fine-tuning, Other</summary>" in page.text


def test_a_card_has_free_devices_and_the_typical_wait(client, alice, fra, train, request_fields):
    stored(fra, train, matching=8, free=3, nodes=1, most=3)
    wait = timedelta(minutes=6)
    ProfileWaits.objects.create(
        profile=train, devices=9, device_median=wait, device_p90=wait, decisions=0, computed_at=timezone.now()
    )
    client.force_login(alice)
    text = " ".join(re.sub("<[^>]*>", " ", client.get(FORM).text).split())
    assert "3 free of 8 6 min" in text


def test_panel_before_a_choice_has_free_devices_and_quota_left(
    client, alice, vision, fra, train, request_fields
):
    stored(fra, train, matching=8, free=3, nodes=1, most=3)
    client.force_login(alice)
    for page in (client.get(FORM), client.get(PANEL, {"team": "vision", "devices": "1"})):
        text = " ".join(re.sub("<[^>]*>", " ", page.text).split())
        assert "Free now for" in text
        assert f"{train.title} 3 of 8" in text
        assert "Quota left gpu.nvidia.com 8 of 8" in text
    assert "Free now for" not in client.get(PANEL, request_fields).text


def test_panel_before_a_choice_shows_no_other_team(client, alice, request_fields):
    quota = make_quota(make_team("nlp"), 77)
    client.force_login(alice)
    page = client.get(PANEL, {"team": "nlp", "devices": "1"}).text
    assert quota.team.title not in page
    assert "77" not in page


@pytest.mark.parametrize(
    ("figures", "said"),
    [
        (
            {"matching": 80, "free": 34, "nodes": 9, "most": 8},
            "fits now 34 of 80 free, up to 8 per claim.",
        ),
        (
            {"matching": 80, "free": 34, "nodes": 9, "most": 1},
            "not now 34 of 80 free, up to 1 per claim.",
        ),
        ({"matching": 80, "free": 0, "nodes": 0, "most": 0}, "not now 0 of 80 free."),
        ({"matching": 0, "free": 0, "nodes": 0, "most": 0}, "no match No device of this profile."),
        (
            {"matching": None, "free": None, "nodes": None, "most": None},
            "unknown Free devices have not been counted yet.",
        ),
    ],
)
def test_each_cluster_has_its_verdict_and_figures(client, alice, lab, train, request_fields, figures, said):  # noqa: F811
    stored(lab, train, **figures)
    client.force_login(alice)
    assert verdict(client.get(PANEL, request_fields).text, "in-lab-2") == said
    assert verdict(client.get(FORM, request_fields).text, "in-lab-2") == said


def test_any_that_fits_names_the_cluster_that_it_takes(client, alice, lab, train, request_fields):  # noqa: F811
    client.force_login(alice)
    taken = "fits now Uses lab-2: 34 of 80 free, up to 8 per claim."
    assert verdict(client.get(PANEL, request_fields | {"cluster": ""}).text, "any") == taken
    stored(lab, train, matching=80, free=0, nodes=0, most=0)
    closest = "not now lab-2 comes closest. You can still send the request: pods wait for devices."
    assert verdict(client.get(PANEL, request_fields | {"cluster": ""}).text, "any") == closest


def test_a_read_only_cluster_and_one_without_a_namespace_say_so(client, alice, lab, request_fields):  # noqa: F811
    lab.read_only = True
    lab.save()
    make_cluster("ber-3", teams=(make_team("nlp", members=(alice,)),))
    client.force_login(alice)
    page = client.get(PANEL, request_fields).text
    assert verdict(page, "in-lab-2") == "read-only The portal creates no claims here."
    assert verdict(page, "in-ber-3") == "no namespace vision does not work here."


def test_verdicts_are_swapped_with_the_panel_and_stand_once_on_the_page(client, alice, lab, request_fields):  # noqa: F811
    client.force_login(alice)
    panel = client.get(PANEL, request_fields).text
    assert panel.count('hx-swap-oob="true"') == 7  # three verdicts, button, refusal, end and link
    page = client.get(FORM, request_fields).text
    assert "hx-swap-oob" not in page
    assert page.count('id="fit-in-lab-2"') == 1


def test_no_match_in_the_chosen_cluster_offers_the_one_that_has_devices(client, alice, lab, request_fields):  # noqa: F811
    client.force_login(alice)
    panel = client.get(PANEL, request_fields).text
    head, _, rest = panel.partition("What would help</h3>")
    assert head != panel
    assert "lab-2 instead of fra-1: <b>fits now</b>" in rest
    lines = re.findall(r"<li>.*?</li>", rest.partition("</div>")[0], re.S)
    assert lines
    assert all("<button" in line for line in lines)


def test_fields_that_few_need_are_folded_until_they_are_used(client, alice, request_fields):
    client.force_login(alice)
    assert '<details class="further">' in client.get(FORM).text
    assert '<details class="further" open>' in client.get(FORM + "?delivery=template").text
    assert '<select class="form-select" id="id_team"' not in client.get(FORM).text
    make_team("nlp", members=(alice,))
    assert '<select class="form-select" id="id_team"' in client.get(FORM).text


@pytest.mark.parametrize(
    ("address", "most"),
    [
        (FORM, 15),
        (PANEL, 15),
        (PANEL + "?profile=train-80", 15),
        (FORM + "?profile=train-80", 18),  # it does not fit: profiles that would, their prices; its budget
    ],
)
def test_form_and_panel_need_as_few_queries_for_one_profile_as_for_100(
    client, alice, address, most, request_fields
):
    client.force_login(alice)
    address += ("&" if "?" in address else "?") + "team=vision&devices=1"
    client.get(address)
    with CaptureQueriesContext(connection) as few:
        client.get(address)
    for number in range(100):
        make_profile(f"more-{number}")
    with CaptureQueriesContext(connection) as many:
        client.get(address)
    assert len(many) == len(few) <= most, "\n".join(query["sql"][:90] for query in many)
