"""What the page of a device shows of claims: its price, who holds it, and who held it."""

from collections.abc import Sequence

from django import template
from django.template import Context
from django.utils import timezone

from inventory.history import HistoryLine
from inventory.models import Device
from teams.access import user_of
from usage import device_use
from usage.templatetags.costs import price_text, rate_card

register = template.Library()


@register.simple_tag(takes_context=True)
def price_of_device(context: Context, device: Device) -> str:
    """Show "€0.45 / h" or "no rate"."""
    prices = device_use.price_of(device, rate_card(context), timezone.now())
    return "no rate" if prices.is_unknown else price_text(prices)


@register.simple_tag(takes_context=True)
def holds_of(context: Context, device: Device) -> list[device_use.DeviceHold]:
    """Return the claims that hold a device and that the reader may see."""
    reader = user_of(context["request"])
    return device_use.holds_of(reader, device, rate_card(context), timezone.now())


@register.simple_tag(takes_context=True)
def with_holders(context: Context, history: Sequence[HistoryLine], device: Device) -> list[HistoryLine]:
    """Return the history of a device with the claims that held it."""
    return device_use.history_with_holders(user_of(context["request"]), device, history)
