"""Every number with a unit on the pages of use and money is that of the data: no W for kW, no GB for GiB."""

import re
from html import unescape

import pytest
from django.urls import reverse

from inventory.models import Device, ResourceSlice
from tests.usage.conftest import NOON, hold, measure, price
from tests.usage.test_claim_use import DAY, HOUR
from usage.daily import store_days
from usage.models import Rollup

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("at_noon")]
UNITS = (
    *("kWh", "MWh", "Wh", "kW", "W", "°C", "GiB/s", "MiB/s", "GiB", "MiB", "TiB", "GB/s", "MB/s", "GB", "MB"),
    *("kg", "g", "min", "h", "d", "s", "%", "€", "ms"),
)
FOUND = re.compile(rf"(?<![\w.,])(€?)(\d[\d,.]*)[ \u00a0\u202f]?({'|'.join(UNITS)})?(?![\w%°])")


def quantities(html):
    """Return each number with its unit or currency in the text of a page's content."""
    main = html.partition("<main")[2] or html
    main = re.sub(r"<(script|style|svg|time|option)\b.*?</\1>", " ", main, flags=re.S)
    text = " ".join(unescape(re.sub(r"<[^>]+>", " ", main)).split())
    return {f"{euro}{number}{unit}" for euro, number, unit in FOUND.findall(text) if euro or unit}


@pytest.fixture
def shown(client, root, alice, vision, fra, claim):
    """Return what pages show of a device that was held from 00:00 of yesterday to noon, half of it busy."""
    price("2")
    fra.grams_per_kwh = 400
    fra.save(update_fields=["grams_per_kwh"])
    began = NOON - DAY - 12 * HOUR
    held = hold(claim, began, device="gpu-5", pool="pool")
    measure(held, began, [0.5] * 12 * 36, memory=20 * 2**30)
    Rollup.objects.update(
        power_watts=350.0, temperature=61, memory_total=80 * 2**30, energy_joules=90_000.0,
        ecc_corrected=0, ecc_uncorrected=0,
    )  # fmt: skip
    place = {"driver": held.driver, "pool": held.pool}
    of = ResourceSlice.objects.create(
        cluster=fra, uid="s", name="s", raw={}, generation=1, pool_slices=1, **place
    )
    device = Device.objects.create(
        cluster=fra, slice=of, name=held.device, memory_bytes=80 * 2**30, product=held.product, **place
    )
    store_days(now=NOON)

    def show(name, **query):
        arguments = {"usage:claim_fragment": [claim.pk], "usage:device": [device.pk]}.get(name)
        arguments = arguments or ([vision.slug] if name == "usage:team" else [])
        client.force_login(root)
        response = client.get(reverse(name, args=arguments, query=query))
        assert response.status_code == 200
        return quantities(response.text)

    return show


RANGES = {"1h", "24h", "7d", "30d"}  # that can be chosen
CLAIM = {
    *("36.00h", "18h", "1d", "12h", "0s", "350W", "61°C", "20GiB", "80GiB", "50%", "100%", "0%", "95%"),
    *("10.80kWh", "4.32kg", "400g", "€2.00", "€72.00", "€36.00", "€0.00", "€120.00"),
}


@pytest.mark.parametrize(
    ("page", "said"),
    [
        ("usage:claim_fragment", CLAIM | RANGES),
        ("usage:device", {"50%", "20GiB", "80GiB", "1h", "24h", "7d"}),
        # The stored day, today until noon, both, and the whole month at the rate of the stored day.
        ("usage:team", {"36.00h", "7.20kWh", "2.88kg", "€48.00", "€24.00", "€72.00", "€24", "€165", "80GB"}),
        ("usage:report", {"0h", "7.20kWh", "2.88kg", "€48.00", "€24.00", "€48", "€24"}),
    ],
)
def test_numbers_and_units_of_a_page_are_those_of_the_data(shown, page, said):
    """36 h at 350 W and 90 kJ in 5 minutes: 10.8 kWh, 4.32 kg of CO₂ at 400 g per kWh; €2 per hour."""
    found = shown(page)
    if page in ("usage:team", "usage:report"):
        found = {one for one in found if not one.endswith("%")}
    assert found == said
