"""Example prices, which GPUs have a price, and the worked examples of the page of rates."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from io import StringIO

import pytest
from django.core.management import call_command

from core.errors import Forbidden
from core.models import Installation
from dra.devices import mig_fraction, names_product, share
from inventory import price_bases
from inventory.models import BasisKey, FleetSpan, Node
from tests.usage.conftest import H100, NOON, hold, price
from usage.cost import Interval, UsageInterval, interval_cost, millionths
from usage.examples import EXAMPLES, add_examples, missing_examples
from usage.models import Rate
from usage.rates import PriceGroup, RateCard

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("at_noon")]
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
URL = "/rates/examples/"


def had(cluster, gpus, product=H100, use=FleetSpan.Use.AVAILABLE):
    FleetSpan.objects.create(
        cluster=cluster, driver="gpu.nvidia.com", product=product, use=use, parts=int(gpus * 10**6),
        started_at=NOON - DAY,
    )  # fmt: skip


# The starting set.


def test_examples_are_marked_rates_of_this_month(root):
    assert len(add_examples(by=root)) == len(EXAMPLES) == 10
    rate = Rate.objects.get(product="H100")
    assert (rate.title, str(rate.per_hour), rate.currency) == ("Example: H100, AWS p5", "6.8800", "USD")
    assert rate.valid_from == datetime(2026, 11, 1, tzinfo=UTC)
    assert all(one.title.startswith("Example: ") for one in Rate.objects.all())


def test_examples_are_added_once_and_change_no_price(root, fra):
    own = price("2", product="NVIDIA H100 80GB HBM3", cluster=fra)
    assert len(add_examples(by=root)) == 9
    assert (add_examples(by=root), missing_examples()) == ([], [])
    assert Rate.objects.count() == 10
    assert RateCard.load().at(PriceGroup(fra.pk, "gpu.nvidia.com", H100), NOON) == own


def test_rate_of_every_product_leaves_no_example(root):
    price("2")
    assert add_examples(by=root) == []


@pytest.mark.parametrize(
    ("product", "example"),
    [
        ("Tesla T4", "T4"),
        ("NVIDIA L4", "L4"),
        ("NVIDIA L40S", "L40S"),
        ("NVIDIA A10G", "A10G"),
        ("NVIDIA A100-SXM4-40GB", "A100 40GB"),
        ("NVIDIA A100-PCIE-40GB", "A100 40GB"),
        ("NVIDIA A100-SXM4-80GB", "A100 80GB"),
        ("NVIDIA A100 80GB PCIe", "A100 80GB"),
        ("NVIDIA H100 80GB HBM3", "H100"),
        ("NVIDIA H200", "H200"),
        ("NVIDIA B200", "B200"),
        ("AMD Instinct MI300X", "MI300X"),
    ],
)
def test_each_example_means_the_names_of_its_gpu_alone(product, example):
    assert [one.product for one in EXAMPLES if names_product(one.product, product)] == [example]


def test_only_platform_admins_add_examples(client, alice, root):
    with pytest.raises(Forbidden):
        add_examples(by=alice)
    client.force_login(alice)
    assert client.get(URL).status_code == client.post(URL).status_code == 403
    assert "/rates/examples/" not in client.get("/rates/").content.decode()
    client.force_login(root)
    assert URL in client.get("/rates/").content.decode()
    assert "Add 10 example rates" in client.get(URL).content.decode()
    assert client.post(URL, follow=True).redirect_chain == [("/rates/", 302)]
    page = client.get(URL).content.decode()
    assert "Add 10" not in page
    assert "Back to the rates" in page


def test_command_adds_examples_and_shows_them_before(root):
    shown, added, again = StringIO(), StringIO(), StringIO()
    call_command("example_rates", "--dry-run", stdout=shown)
    assert "  6.88 USD / h  Example: H100, AWS p5" in shown.getvalue()
    assert not Rate.objects.exists()
    call_command("example_rates", "--by", "root", stdout=added)
    assert added.getvalue().endswith("10 rates added.\n")
    call_command("example_rates", "--by", "root", stdout=again)
    assert again.getvalue() == "0 rates added.\n"


# Which GPUs have a price.


def test_page_says_that_budgets_in_another_currency_count_nothing_of_them(client, root):
    client.force_login(root)
    said = "budgets are in EUR, the currency under Settings, and count nothing of what is billed in USD"
    assert said in client.get(URL).text
    Installation.objects.create(currency="USD")
    assert "budgets are in" not in client.get(URL).text


def test_admins_see_which_gpus_have_no_rate(client, fra, root, alice, django_assert_max_num_queries):
    price("2", product="H100", title="H100 list")
    had(fra, 8)
    had(fra, 1, use=FleetSpan.Use.OUT_OF_SERVICE)
    had(fra, 4, product="NVIDIA L4")
    client.force_login(alice)
    assert "Prices of the fleet" not in client.get("/rates/").content.decode()
    client.force_login(root)
    client.get("/rates/")
    with django_assert_max_num_queries(15):
        page = client.get("/rates/")
    found = [
        (one.product, one.cluster, one.gpus, one.rate and one.rate.title) for one in page.context["products"]
    ]
    assert found == [("NVIDIA L4", "fra-1", 4, None), (H100, "fra-1", 9, "H100 list")]
    assert "4 GPUs without a rate" in page.content.decode()
    price("1")
    assert "every GPU has a price" in client.get("/rates/").content.decode()


# The worked examples.


def cost_of(product, start, end, fraction=1, within=None):
    group = PriceGroup(EXAMPLES[0].key, "gpu.nvidia.com", product)
    usage = UsageInterval(group.cluster_id, group, "", millionths(Decimal(fraction)), start, end)
    cost = interval_cost(usage, RateCard.load(), until=end, within=within)
    return cost.amounts["USD"]


def test_worked_examples_are_what_the_portal_computes(client, alice, root):
    add_examples(by=root)
    client.force_login(alice)
    text = " ".join(client.get("/rates/").content.decode().split())
    at = datetime(2026, 11, 3, 9, tzinfo=UTC)
    assert cost_of("NVIDIA L4", at, at + 2.5 * HOUR) == Decimal("2.00")
    assert "2.5 h × 0.80 = 2.00" in text
    a100 = "NVIDIA A100-SXM4-40GB"
    parts = {name: mig_fraction(name, a100, {}) for name in ("1g.5gb", "3g.20gb", "4g.20gb")}
    assert parts == {"1g.5gb": Fraction(1, 7), "3g.20gb": Fraction(1, 2), "4g.20gb": Fraction(4, 7)}
    assert (Decimal("2.75") / 2, round(Decimal("2.75") / 7, 4)) == (Decimal("1.375"), Decimal("0.3929"))
    assert "1/2, 1.375 per hour; a 1g.5gb has 1/7, 0.3929 per hour" in text
    assert round(float(Fraction(4, 7) + Fraction(1, 2)) - 1, 2) == 0.07
    assert "not capped at the price of their GPU: 4g.20gb and 3g.20gb are 4/7 + 1/2, 7 % more" in text
    layouts = ({"1g.5gb": 7}, {"3g.20gb": 2}, {"2g.10gb": 3, "1g.5gb": 1})
    for layout in layouts:
        assert sum((mig_fraction(name, a100, {}) or 0) * number for name, number in layout.items()) == 1
    assert "Seven 1g.5gb, two 3g.20gb, or three 2g.10gb and one 1g.5gb cost as much as the GPU" in text
    shared = {"capacity": {"memory": {"value": "80Gi"}, "cores": {"value": "100"}}}
    assert share(shared, {"memory": "20Gi"}) == Fraction(1, 4)
    assert share(shared, {"memory": "20Gi", "cores": "40"}) == Fraction(2, 5)
    assert share(shared, {}) == 1
    assert "20 of 80 GiB and 40 of 100 cores are 2/5" in text
    days = sum(cost_of("NVIDIA L4", at + n * DAY, at + n * DAY + HOUR / 3) for n in range(3))
    assert (days, cost_of("NVIDIA L4", at, at + HOUR)) == (Decimal("0.81"), Decimal("0.80"))
    assert "3 × 0.27 = 0.81; an hour on one day is 0.80" in text
    price("6.00", product="H100", since=at + 3 * HOUR, currency="USD")
    assert cost_of(H100, at + HOUR, at + 5 * HOUR) == Decimal("25.76")
    assert "2 h × 6.88 + 2 h × 6.00 = 25.76" in text


def test_worked_example_of_spot_is_what_the_portal_computes(client, alice, fra):
    price("6.88", product="H100", currency="USD")
    price("3.44", product="H100", currency="USD", expression='device.capacityType == "spot"')
    labels = {"karpenter.sh/capacity-type": "spot"}
    Node.objects.create(cluster=fra, uid="n", name="n", labels=labels, labels_key="spot")
    keys = [BasisKey(fra.pk, "gpu.nvidia.com", H100, "", key) for key in ("", "spot")]
    price_bases.add(keys)
    card, at = RateCard.load(), datetime(2026, 11, 3, 9, tzinfo=UTC)
    groups = [PriceGroup(fra.pk, "gpu.nvidia.com", H100, key.pk) for key in keys]
    rates = [card.at(group, at) for group in groups]
    assert [2 * rate.per_hour for rate in rates if rate] == [Decimal("13.76"), Decimal("6.88")]
    client.force_login(alice)
    text = client.get("/rates/").text
    assert "two hours cost 13.76 on demand and 6.88 on spot" in text


def test_worked_example_of_a_month_is_what_the_portal_computes(root):
    price("0.80", product="L4", currency="USD")
    border = datetime(2026, 11, 1, tzinfo=UTC)
    for within in (Interval(border - DAY, border), Interval(border, border + DAY)):
        assert cost_of("NVIDIA L4", border - HOUR, border + HOUR, within=within) == Decimal("0.80")


def test_everybody_reads_the_rules(client, bob, claim):
    hold(claim, NOON - HOUR)
    client.force_login(bob)
    assert "How prices apply" in client.get("/rates/").content.decode()
