"""
Example prices to begin with: what clouds ask on demand per GPU-hour, host included, in US dollars.

They are list prices of AWS us-east-1 on 20 July 2026 (karpenter-provider-aws), of the MI300X of Azure eastus
on 18 June 2026 (karpenter-provider-azure), divided by the GPUs of the instance and rounded. A site replaces
them by its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from uuid import UUID, uuid5

from django.utils import timezone

from core.times import utc_moment
from core.transactions import service
from dra.devices import names_product
from teams.models import User, record_change
from usage.closing import lock_open_days, require_admin
from usage.models import Rate
from usage.reports import Month

NAMESPACE = UUID("7d1f3c52-6f0a-4c0e-9a5e-3f0c7f2b9a10")  # the same example is the same row
CURRENCY = "USD"


@dataclass(frozen=True, slots=True)
class ExamplePrice:
    """`product` as in `Rate.product`; `instance` is the machine whose price was divided by its GPUs."""

    product: str
    per_hour: Decimal
    instance: str

    @property
    def key(self) -> UUID:
        return uuid5(NAMESPACE, self.product)

    @property
    def title(self) -> str:
        return f"Example: {self.product}, {self.instance}"


EXAMPLES = tuple(
    ExamplePrice(product, Decimal(price), instance)
    for product, price, instance in (
        ("T4", "0.53", "AWS g4dn.xlarge"),
        ("L4", "0.80", "AWS g6.xlarge"),
        ("A10G", "1.00", "AWS g5.xlarge"),
        ("L40S", "1.86", "AWS g6e.xlarge"),
        ("A100 40GB", "2.75", "AWS p4d"),
        ("A100 80GB", "3.43", "AWS p4de"),
        ("H100", "6.88", "AWS p5"),
        ("H200", "7.91", "AWS p5en"),
        ("B200", "14.24", "AWS p6-b200"),
        ("MI300X", "6.00", "Azure ND96isr_MI300X_v5"),
    )
)


def missing_examples() -> list[ExamplePrice]:
    """Return the examples of GPUs that no rate names, whatever its cluster or start: they change no price."""
    products = set(Rate.objects.values_list("product", flat=True))
    return [one for one in EXAMPLES if not any(_share(one.product, product) for product in products)]


def _share(one: str, other: str) -> bool:
    """Return whether two products of rates may mean the same GPU; an empty one means every GPU."""
    return names_product(one, other) or names_product(other, one)


@service
def add_examples(*, by: User) -> list[Rate]:
    """
    Add the examples that are missing as rates from the begin of this month (UTC) on; return these.

    Raises Forbidden for everybody but platform admins.
    """
    require_admin(by)
    start = Month.current(timezone.now()).start
    lock_open_days(start)
    added = []
    for one in missing_examples():
        rate, created = Rate.objects.get_or_create(
            pk=one.key,
            defaults={
                "title": one.title,
                "product": one.product,
                "per_hour": one.per_hour,
                "currency": CURRENCY,
                "valid_from": start,
            },
        )
        if created:
            record_change(by=by, of=rate, change=f"added, from {utc_moment(start)}")
            added.append(rate)
    return added
