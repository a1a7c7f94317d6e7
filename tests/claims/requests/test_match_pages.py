"""The funnel of the request form: steps that open, what would help, alternatives; and the same in the API."""

import re
from datetime import timedelta
from decimal import Decimal

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone
from rest_framework.test import APIClient

from claims.models import Claim
from claims.requests import suggestions
from inventory import cluster_snapshot
from inventory.models import Cluster, Device, DeviceClass, ResourceClaim, ResourceSlice
from tests.dra.clusters import device_class, gpu, holds, resource_slice
from tests.factories import make_profile, make_spec, make_team
from usage.models import Rate

pytestmark = pytest.mark.django_db

DAY = timedelta(days=1)
FORM, PANEL = reverse("claims:request"), reverse("claims:request_preview")
API = "/api/v1/match/"
MEMORY = (
    'device.capacity["gpu.nvidia.com"].?memory.orValue(quantity("0")).compareTo(quantity("40Gi")) >= 0'
    ' && device.attributes["gpu.nvidia.com"].?productName.orValue("").startsWith("NVIDIA H100")'
)
TAINT = {"key": "example.com/broken", "value": "true", "effect": "NoSchedule"}
STEPS = {"class": 1, "memory": 2, "product": 3, "taint": 4, "free": 5, "nodes": 6}


def dropped(step):
    return reverse("claims:request_dropped", args=[STEPS[step]])


def mirrored(cluster, devices, *claims):
    """Write devices of node-a into the mirror, with the claims that hold some of them."""
    raw = resource_slice("node-a", devices)
    part = ResourceSlice.objects.create(
        cluster=cluster, uid="s", name="node-a-1", raw=raw, driver="gpu.nvidia.com", pool="node-a",
        generation=1, pool_slices=1, node_name="node-a",
    )  # fmt: skip
    DeviceClass.objects.create(cluster=cluster, uid="c", name="gpu.nvidia.com", raw=device_class())
    for one in devices:
        Device.objects.create(
            cluster=cluster, slice=part, driver="gpu.nvidia.com", pool="node-a", name=one["name"],
            node_name="node-a",
        )  # fmt: skip
    for claim in claims:
        take(cluster, claim)
    cluster_snapshot.forget()


def take(cluster, claim):
    """Write an allocated claim into the mirror, with its devices."""
    meta = claim["metadata"]
    row = ResourceClaim.objects.create(
        cluster=cluster, uid=meta["name"], name=meta["name"], namespace=meta["namespace"], raw=claim
    )
    for held in claim["status"]["allocation"]["devices"]["results"]:
        Device.objects.filter(name=held["device"]).update(held_by=row)
    cluster_snapshot.forget()


@pytest.fixture
def cluster(fra, vision):
    make_team("nlp")
    theirs = holds("gpu-3", name="secret-run")
    theirs["metadata"]["namespace"] = "nlp"
    devices = [
        gpu(0, product="NVIDIA L4", memory="24Gi"),
        gpu(1, product="NVIDIA L4"),
        gpu(2, taints=[TAINT]),
        gpu(3),
        gpu(4),
    ]
    mirrored(fra, devices, theirs, holds("gpu-4", name="mine"))
    return fra


@pytest.fixture
def request_fields(cluster, vision, quota, gateway):
    selectors = [{"cel": {"expression": MEMORY}}]
    exactly = {"deviceClassName": "gpu.nvidia.com", "allocationMode": "ExactCount", "count": 1}
    spec = {"devices": {"requests": [{"name": "gpu", "exactly": exactly | {"selectors": selectors}}]}}
    make_profile("train-80", spec=spec)
    large = exactly | {"selectors": [{"cel": {"expression": MEMORY.partition(" && ")[0]}}]}
    make_profile("any-gpu", spec={"devices": {"requests": [{"name": "gpu", "exactly": large}]}})
    return {"profile": "train-80", "devices": 1, "team": "vision", "cluster": "fra-1", "name": "sam2"}


def test_each_condition_is_a_step_that_opens(client, alice, request_fields):
    client.force_login(alice)
    page = client.get(PANEL, request_fields).text
    assert "memory ≥ 40 GiB" in page
    assert "product begins with NVIDIA H100" in page
    assert dropped("memory") in page
    assert dropped("product") in page


@pytest.mark.parametrize(
    ("step", "device", "said"),
    [
        ("memory", "gpu-0", "memory 24 GiB &lt; 40 GiB"),
        ("product", "gpu-1", "product NVIDIA L4, not NVIDIA H100…"),
        ("taint", "gpu-2", "has the taint example.com/broken=true:NoSchedule, which is not tolerated"),
        ("free", "gpu-3", "held by another team"),
        ("free", "gpu-4", "held by vision/mine"),
    ],
)
def test_a_step_shows_the_devices_it_leaves_out_and_why(client, alice, request_fields, step, device, said):
    client.force_login(alice)
    page = client.get(dropped(step), request_fields).text
    assert reverse("inventory:device", args=[Device.objects.get(name=device).pk]) in page
    assert said in " ".join(page.split()).replace('<span class="dg-2 dg-break">', "")
    assert "secret-run" not in page


def test_a_fragment_is_the_rows_alone(client, alice, request_fields):
    client.force_login(alice)
    page = client.get(dropped("memory"), request_fields, headers={"HX-Request": "true"}).text
    assert "gpu-0" in page
    assert "<html" not in page


def test_many_devices_come_fifty_at_a_time_and_cost_as_many_queries(client, alice, fra, request_fields):
    client.force_login(alice)
    client.get(dropped("memory"), request_fields)
    with CaptureQueriesContext(connection) as few:
        client.get(dropped("memory"), request_fields)
    ResourceSlice.objects.all().delete()
    DeviceClass.objects.all().delete()
    mirrored(fra, [gpu(number, product="NVIDIA L4", memory="24Gi") for number in range(120)])
    client.get(dropped("memory"), request_fields)
    with CaptureQueriesContext(connection) as many:
        page = client.get(dropped("memory"), request_fields | {"page": "2"}).text
    assert "51–100 of 120" in page
    assert len(many) <= len(few)
    assert "101–120 of 120" in client.get(dropped("memory"), request_fields | {"page": "99"}).text
    assert "1–50 of 120" in client.get(dropped("memory"), request_fields | {"page": "no"}).text


def test_a_device_on_which_a_selector_fails_is_shown_apart(client, alice, request_fields):
    odd = make_profile(
        "odd",
        spec={
            "devices": {
                "requests": [
                    {
                        "name": "gpu",
                        "exactly": {
                            "deviceClassName": "gpu.nvidia.com",
                            "selectors": [
                                {"cel": {"expression": 'device.attributes["gpu.nvidia.com"].nope == 1'}}
                            ],
                        },
                    }
                ]
            }
        },
    )
    client.force_login(alice)
    page = client.get(
        reverse("claims:request_dropped", args=[2]), request_fields | {"profile": odd.slug}
    ).text
    assert "The selector fails on these devices." in page


def test_a_step_that_is_none_is_404_and_a_wish_that_is_none_422(client, alice, bob, eve, request_fields):
    client.force_login(alice)
    assert client.get(reverse("claims:request_dropped", args=[0]), request_fields).status_code == 404
    assert client.get(reverse("claims:request_dropped", args=[99]), request_fields).status_code == 404
    assert client.get(dropped("memory"), request_fields | {"devices": "0"}).status_code == 422
    client.force_login(eve)
    assert "gpu-0" not in client.get(dropped("memory"), request_fields).text
    client.logout()
    assert client.get(dropped("memory"), request_fields).status_code == 302


def test_what_would_help_is_said_where_it_does_not_fit(client, alice, request_fields):
    client.force_login(alice)
    page = " ".join(client.get(PANEL, request_fields).text.split())
    assert "Does not fit now" in page
    assert "Tolerating example.com/broken=true:NoSchedule: <b>fits now</b>" in page
    assert "Without “product begins with NVIDIA H100”: <b>fits now</b>" in page


def test_other_profiles_that_fit_become_alternatives_by_a_tick(client, alice, request_fields):
    client.force_login(alice)
    assert 'name="alternatives" value="any-gpu"' in client.get(PANEL, request_fields).text
    ticked = request_fields | {"alternatives": "any-gpu"}
    page = client.get(PANEL, ticked).text
    assert 'name="alternatives" value="any-gpu" checked' in page
    assert "Fits now in fra-1" in page
    assert "firstAvailable" in page
    client.post(FORM, ticked | {"delivery": "claim", "duration": "24h", "key": "k"})
    claim = Claim.objects.get()
    assert [one.name for one in claim.alternatives.all()] == ["gpu/train-80", "gpu/any-gpu"]


def buttons(page):
    return re.findall(r'<button[^>]*name="(use_\w+)" value="([^"]*)"', page)


def test_a_line_that_helps_has_a_button_that_requests_fewer_devices(client, alice, request_fields):
    client.force_login(alice)
    many = request_fields | {"profile": "any-gpu", "devices": "3"}
    panel = client.get(PANEL, many).text
    assert "With 1 device instead of 3: <b>fits now, and is within quota</b>" in " ".join(panel.split())
    assert ("use_devices", "1") in buttons(panel)
    page = client.post(FORM, many | {"use_devices": "1", "reason": "Kept."}).text
    assert 'name="devices" min="1" max="1024" value="1"' in page
    assert "Kept." in page
    assert "Does not fit now" not in page
    assert not Claim.objects.exists()


def test_a_profile_that_fits_can_be_requested_instead(client, alice, request_fields):
    client.force_login(alice)
    [(name, value)] = [
        row for row in buttons(client.get(PANEL, request_fields).text) if row[0] == "use_profile"
    ]
    assert value == f"any-gpu:{request_fields['devices']}"
    sent = request_fields | {name: value, "alternatives": ["any-gpu", "train-80"]}
    page = client.post(FORM, sent).text
    assert 'name="profile" value="any-gpu" checked' in page
    assert 'name="alternatives" value="any-gpu"' not in page
    assert not Claim.objects.exists()


def test_an_alternative_that_costs_less_is_put_first_by_a_button(client, alice, fra, request_fields):
    for model in (ResourceSlice, Device, ResourceClaim, DeviceClass):
        model.objects.all().delete()
    mirrored(fra, [gpu(0), gpu(1, product="NVIDIA L4", memory="24Gi")])
    for slug, product_name, price in (("dear", "H100", 4), ("cheap", "L4", 1), ("third", "H100", 4)):
        product = f'device.attributes["gpu.nvidia.com"].productName.startsWith("NVIDIA {product_name}")'
        make_profile(slug, spec=make_spec(selectors=[{"cel": {"expression": product}}]))
        Rate.objects.update_or_create(
            title=product_name,
            product=product_name,
            per_hour=price,
            currency="EUR",
            valid_from=timezone.now() - DAY,
        )
    client.force_login(alice)
    wanted = request_fields | {"profile": "dear", "devices": "1", "alternatives": ["third", "cheap"]}
    panel = client.get(PANEL, wanted).text
    assert "put it before dear to pay less" in panel.lower()
    assert ("use_first", "cheap") in buttons(panel)
    page = client.post(FORM, wanted | {"use_first": "cheap", "reason": "Kept."}).text
    assert 'name="profile" value="cheap" checked' in page
    assert page.index('value="dear" checked') < page.index('value="third" checked')
    assert "none costs less than the first" in page
    assert "use_first" not in page
    assert "Kept." in page
    assert not Claim.objects.exists()


@pytest.mark.parametrize("value", ["", "nothing", "train-80"])
def test_only_a_chosen_alternative_can_be_put_first(client, alice, request_fields, value):
    client.force_login(alice)
    page = client.post(FORM, request_fields | {"use_first": value}).text
    assert 'name="profile" value="train-80" checked' in page


@pytest.mark.parametrize("value", ["", ":", "nothing:2", "any-gpu:many"])
def test_a_forged_value_of_a_button_shows_the_form_with_its_problem(client, alice, request_fields, value):
    client.force_login(alice)
    assert client.post(FORM, request_fields | {"use_profile": value}).status_code == 200
    assert not Claim.objects.exists()


def test_conditions_of_the_profile_say_who_can_change_them(client, alice, root, vision, request_fields):
    client.force_login(alice)
    sentence = "The profile sets these conditions."
    assert sentence in client.get(PANEL, request_fields).text
    client.force_login(root)
    page = client.get(PANEL, request_fields).text
    assert sentence not in page
    assert reverse("claims:profile_edit", args=["train-80"]) in page


def test_alternatives_keep_their_order_and_survive_a_mistake(client, alice, request_fields):
    for slug in ("b-gpu", "a-gpu"):
        make_profile(slug)
    client.force_login(alice)
    sent = request_fields | {"alternatives": ["b-gpu", "a-gpu", "b-gpu", "train-80"], "devices": "0"}
    page = client.post(FORM, sent).text
    assert page.index('value="b-gpu" checked') < page.index('value="a-gpu" checked')
    assert page.count('name="alternatives"') == 2


def test_what_fits_says_more_on_demand(client, alice, vision, request_fields):
    client.force_login(alice)
    fits = request_fields | {"profile": "any-gpu"}
    assert "More options and alternatives" in client.get(PANEL, fits).text
    page = client.get(PANEL, fits | {"help": "1"}).text
    assert "Tolerating example.com/broken=true:NoSchedule: <b>1 more free</b>" in page
    assert "<b>1 more free</b>" in client.get(FORM, fits | {"help": "1"}).text
    Device.objects.all().delete()
    ResourceSlice.objects.all().delete()
    DeviceClass.objects.all().delete()
    mirrored(Cluster.objects.get(), [gpu(0)])
    assert "Removing a condition would not free more" in client.get(PANEL, fits | {"help": "1"}).text


def test_offers_cost_the_same_for_one_profile_and_for_many(
    client, alice, request_fields, django_assert_num_queries
):
    client.force_login(alice)
    client.get(PANEL, request_fields)
    with CaptureQueriesContext(connection) as one:
        client.get(PANEL, request_fields)
    for place in range(6):
        make_profile(f"more-{place}")
    with django_assert_num_queries(len(one)):
        client.get(PANEL, request_fields)


def test_offers_are_computed_once_per_snapshot(client, alice, request_fields, monkeypatch):
    make_profile("more")
    previews = []
    preview = suggestions.match.preview
    monkeypatch.setattr(
        suggestions.match, "preview", lambda *args, **options: previews.append(1) or preview(*args, **options)
    )
    client.force_login(alice)

    def number_of_previews():
        previews.clear()
        client.get(PANEL, {**request_fields, "help": "1"})
        return len(previews)

    first = number_of_previews()
    again = number_of_previews()
    assert first > again == 0
    cluster_snapshot.forget()
    assert number_of_previews() == first


@pytest.mark.parametrize("page", [("claims:request_blockers",), ("claims:request_dropped", 1)])
def test_pages_without_suggestions_compute_none(page, client, alice, request_fields, monkeypatch):
    def none(*args, **fields):
        raise AssertionError("computed for nothing")

    monkeypatch.setattr("claims.requests.preview.find_relaxations", none)
    monkeypatch.setattr("claims.requests.preview.suggestions_for", none)
    client.force_login(alice)
    name, *args = page
    assert client.get(reverse(name, args=args), {**request_fields, "help": "1"}).status_code == 200
    with pytest.raises(AssertionError, match="for nothing"):
        client.get(PANEL, {**request_fields, "help": "1"})


def test_offers_come_cheapest_first_and_by_memory_where_a_price_is_missing(
    alice, fra, vision, request_fields, monkeypatch
):
    ResourceSlice.objects.all().delete()
    DeviceClass.objects.all().delete()
    Device.objects.all().delete()
    ResourceClaim.objects.all().delete()
    mirrored(fra, [gpu(0, product="NVIDIA L4", memory="44Gi"), gpu(1, product="NVIDIA A100", memory="59Gi")])
    for slug, memory in (("small", "40Gi"), ("large", "50Gi")):
        selectors = [{"cel": {"expression": MEMORY.partition(" && ")[0].replace("40Gi", memory)}}]
        make_profile(slug, spec=make_spec(selectors=selectors))

    def offered(prices):
        monkeypatch.setattr("usage.rates.max_prices", lambda offers, _currency: prices[: len(offers)])
        shown = api(alice).post(API, request_fields, format="json").json()
        return [one["profile"] for one in shown["alternatives"] if one["profile"] != "any-gpu"]

    assert offered([Decimal(9), Decimal(1), Decimal(5)]) == ["large", "small"]
    assert offered([Decimal(9), Decimal(1), None]) == ["small", "large"]


def test_what_would_help_comes_cheapest_first_where_it_fits_equally(
    client, alice, request_fields, monkeypatch
):
    def helps(prices):
        monkeypatch.setattr("usage.rates.max_prices", lambda offers, _currency: prices[: len(offers)])
        shown = api(alice).post(API, request_fields, format="json").json()
        assert all(one["fits"] for one in shown["help"])
        return [one["kind"] for one in shown["help"]]

    by_gain = helps([None, Decimal(1)])
    assert sorted(by_gain) == ["condition", "toleration"]
    assert helps([Decimal(9), Decimal(1)]) == by_gain[::-1]
    assert helps([Decimal(1), Decimal(9)]) == by_gain
    client.force_login(alice)
    sentence = "the one with the lowest price per device comes first"
    assert sentence in client.get(PANEL, request_fields).text
    helps([None, Decimal(1)])
    assert sentence not in client.get(PANEL, request_fields).text


def test_alternatives_give_what_the_request_asks_for(alice, fra, vision, request_fields):
    ResourceSlice.objects.all().delete()
    DeviceClass.objects.all().delete()
    Device.objects.all().delete()
    ResourceClaim.objects.all().delete()
    mirrored(fra, [*(gpu(number) for number in range(4)), gpu(4, product="NVIDIA L4", memory="24Gi")])
    memory = [{"cel": {"expression": MEMORY.partition(" && ")[0]}}]
    make_profile("with-24", spec=make_spec())
    make_profile("one-only", spec=make_spec(selectors=memory), max_devices=1)
    shared = make_spec(selectors=memory)
    parameters = {"kind": "GpuConfig", "sharing": {"strategy": "MPS"}}
    opaque = {"driver": "gpu.nvidia.com", "parameters": parameters}
    shared["devices"]["config"] = [{"opaque": opaque}]
    make_profile("shared", spec=shared)
    make_profile("twin", spec=make_spec(selectors=memory))
    fields = request_fields | {"devices": 2, "help": True}
    offers = api(alice).post(API, fields, format="json").json()["alternatives"]
    assert {offer["profile"] for offer in offers} == {"any-gpu", "twin"}


def api(user):
    client = APIClient()
    client.force_authenticate(user)
    return client


def test_the_api_answers_the_same(alice, request_fields):
    numbers = {"devices": 1, "step": STEPS["free"]}
    shown = api(alice).post(API, request_fields | numbers, format="json").json()
    assert [step["kind"] for step in shown["match"]["steps"]] == [
        "total", "class", "selector", "selector", "untainted", "free", "nodes",
    ]  # fmt: skip
    assert shown["dropped"]["total"] == 2
    assert [(one["name"], one["cause"], one["holder"]) for one in shown["dropped"]["devices"]] == [
        ("gpu-3", "held", "another team"),
        ("gpu-4", "held", "vision/mine"),
    ]
    assert {one["kind"] for one in shown["help"]} == {"toleration", "condition"}
    assert [one["profile"] for one in shown["alternatives"]] == ["any-gpu"]
    assert api(alice).get(API, request_fields | {"step": STEPS["free"]}).json()["dropped"] == shown["dropped"]


def test_the_api_takes_alternatives_in_order(alice, request_fields):
    request_fields = request_fields | {"devices": 1, "alternatives": ["any-gpu"]}
    shown = api(alice).post(API, request_fields, format="json").json()
    assert (shown["match"]["fits"], shown["problems"]) == (True, [])
    made = api(alice).post(
        "/api/v1/claims/",
        request_fields,
        format="json",
        headers={"Idempotency-Key": "k"},
    )
    assert made.status_code == 201
    options = made.json()["spec"]["devices"]["requests"][0]["firstAvailable"]
    assert [one["name"] for one in options] == ["train-80", "any-gpu"]


def test_the_api_refuses_a_step_that_is_none(alice, request_fields):
    answer = api(alice).get(API, request_fields | {"step": 99})
    assert answer.status_code == 422
    assert "there is no step 99" in answer.json()["detail"]
    assert api(alice).get(API).status_code == 422
