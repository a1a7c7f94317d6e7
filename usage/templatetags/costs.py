"""Tags and filters for costs and prices, and for who holds a device; no price is "no rate", never 0."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from functools import partial
from typing import Protocol

from django import template
from django.template import Context
from django.utils import timezone
from django.utils.safestring import SafeString

from claims.catalogue import views
from claims.catalogue.views import Card
from claims.models import Claim, Profile
from core import times
from core.templatetags.ui import meter
from core.text import DASH, money, percent, unit
from inventory.history import HistoryLine
from inventory.models import Device
from teams.access import user_of
from usage import device_use
from usage.claim_use import MoneySplit
from usage.cost import Cost, cost_text, hourly_price
from usage.rates import PricedPart, Prices, RateCard, device_prices
from usage.reports import ClaimCost, claim_allocations, claim_cost
from usage.time_split import TimeSplit

register = template.Library()
register.filter("rate", hourly_price)


class PricedDevices(Protocol):
    """A number of devices of some kinds."""

    @property
    def kinds(self) -> Iterable[PricedPart]: ...
    @property
    def devices(self) -> int: ...


class PricedRequest(PricedDevices, Protocol):
    """These devices for some time."""

    @property
    def duration(self) -> timedelta: ...


@register.filter
def priced(cost: Cost | None) -> str:
    """Show "€5.80", "€5.80 + $3.00" or "no rate"; a dash where nothing was held."""
    return cost_text(cost)


@register.simple_tag
def money_meter(split: MoneySplit) -> SafeString:
    """Draw the parts of the cost of a claim."""
    shares = {part.key: part.share for part in split.parts}
    label = ", ".join(f"{part.label.lower()} {percent(part.share)}" for part in split.parts)
    return meter(1.0, label=label, size="tall", **shares)


@register.simple_tag
def time_meter(time: TimeSplit, size: str) -> SafeString:
    """Draw the parts of the time of one or several devices."""
    parts = time.parts
    label = ", ".join(f"{name.lower()} {percent(share)}" for _key, name, _time, share in parts)
    return meter(1.0, label=label, size=size, **{key: share for key, _name, _time, share in parts})


@register.filter
def headline(cost: Cost | None) -> str:
    """Show the same in whole units of money."""
    return cost_text(cost, digits=0)


@register.filter
def hourly(cost: Cost) -> str:
    """Show the price of an hour as `hourly_price` does: "€5.80", "€0.0042 + $3.00" or "no rate"."""
    if not cost.prices:
        return cost_text(cost)
    return " + ".join(hourly_price(amount, currency) for currency, amount in cost.prices.items())


@register.simple_tag
def profile_cards(cards: Iterable[Card], picked: Collection[str], card: RateCard) -> SafeString:
    """Draw the profiles of the catalogue with their prices."""
    return views.profile_cards(cards, picked, partial(price_per_hour, card=card))


@register.simple_tag(takes_context=True)
def rate_card(context: Context) -> RateCard:
    """Return all rates, read once per request; the other tags then make no query."""
    request = context.get("request")
    card: RateCard = getattr(request, "rate_card", None) or RateCard.load()
    if request is not None:
        request.rate_card = card
    return card


@register.simple_tag(takes_context=True)
def cost_of_claim(context: Context, claim: Claim) -> ClaimCost:
    """Return what a claim costs, from all its allocations and the rates; two queries."""
    return claim_cost(claim, claim_allocations(claim), rate_card(context), now=timezone.now())


@register.simple_tag
def price_per_hour(kinds: Iterable[PricedPart], card: RateCard) -> str:
    """Show "€2.90 / h", "€0.41–2.90 / h" or "no rate"; a dash where there is no device to price."""
    prices = device_prices(kinds, card, at=timezone.now())
    if not prices.has_devices:
        return DASH
    if prices.is_unknown:
        return "no rate"
    text = price_text(prices)
    return f"{text}, some without a rate" if prices.unpriced else text


@register.simple_tag
def price_of_duration(kinds: Iterable[PricedPart], card: RateCard, duration: timedelta) -> str:
    """Show the highest cost of one device: "at most €69.60 for 1 d"; "" if it is not known."""
    amounts = device_prices(kinds, card, at=timezone.now()).max_cost(1, duration)
    if not amounts:
        return ""
    maximum = " or ".join(money(amount, currency) for currency, amount in amounts.items())
    return f"at most {maximum} for {times.duration(duration)}"


@register.simple_tag
def most_cost(kinds: Iterable[PricedPart], card: RateCard, devices: int, duration: timedelta) -> str:
    """Show the highest cost of a request: "at most €139.20", "€43.20" at one price; "" if it is not known."""
    prices = device_prices(kinds, card, at=timezone.now())
    amounts = prices.max_cost(devices, duration)
    is_one = all(least == most for least, most in prices.spans.values()) and len(amounts) == 1
    words = " or ".join(money(amount, currency) for currency, amount in amounts.items())
    return words if is_one or not words else f"at most {words}"


@register.simple_tag
def price_of_request(kinds: Iterable[PricedPart], card: RateCard, devices: int, duration: timedelta) -> str:
    """Show the price of a request: "€2.90 / h per device, 1 d: at most €69.60"."""
    prices = device_prices(kinds, card, at=timezone.now())
    if not prices.has_devices:
        return "No matching device in this cluster, so no price is available."
    if prices.is_unknown:
        return "No rate for the matching devices."
    price, span = price_text(prices), times.duration(duration)
    amounts = prices.max_cost(devices, duration)
    if not amounts:
        return f"{price} per device. Some matching devices have no rate, so no maximum is known."
    maximum = " or ".join(money(amount, currency) for currency, amount in amounts.items())
    if devices == 1:
        return f"{price} per device, {span}: at most {maximum}"
    return f"{price} per device, {devices} devices for {span}: at most {maximum}"


@register.simple_tag
def price_together(parts: Iterable[PricedDevices], card: RateCard, duration: timedelta) -> str:
    """Show the highest cost of all parts of a request; "" unless each has a price in one currency."""
    return _together(((part, duration) for part in parts), card)


@register.simple_tag
def price_of_all(requests: Iterable[PricedRequest], card: RateCard) -> str:
    """Show the highest cost of several requests; "" unless each has a price in one currency."""
    return _together(((request, request.duration) for request in requests), card)


def _together(parts: Iterable[tuple[PricedDevices, timedelta]], card: RateCard) -> str:
    total: dict[str, Decimal] = {}
    now = timezone.now()
    for part, duration in parts:
        maximum = device_prices(part.kinds, card, at=now).max_cost(part.devices, duration)
        if len(maximum) != 1:
            return ""
        for currency, amount in maximum.items():
            total[currency] = total.get(currency, Decimal(0)) + amount
    words = " + ".join(money(amount, currency) for currency, amount in sorted(total.items()))
    return f"Together at most {words}"


class PricedAlternative(PricedDevices, Protocol):
    @property
    def profile(self) -> Profile: ...
    @property
    def fits(self) -> bool | None: ...


@dataclass(frozen=True, slots=True)
class PriceOrder:
    """What the order of alternatives means for the price; `cheaper` fits now too and costs less, or None."""

    sentence: str
    cheaper: Profile | None = None


@register.simple_tag
def order_by_price(parts: Iterable[PricedAlternative], card: RateCard) -> PriceOrder:
    """
    Say that alternatives are taken in their order, and which of those that fit now costs less than the first
    of them.
    """
    order, now = "The first that fits is taken, whatever it costs.", timezone.now()
    costs = [
        (part, device_prices(part.kinds, card, at=now).max_cost(part.devices, timedelta(hours=1)))
        for part in parts
        if part.fits
    ]
    currencies = {currency for _part, cost in costs for currency in cost}
    if len(costs) < 2 or len(currencies) != 1 or not all(cost for _part, cost in costs):
        return PriceOrder(order)
    (currency,) = currencies
    first, most = costs[0][0], costs[0][1][currency]
    cheapest, least = min(((part, cost[currency]) for part, cost in costs), key=lambda entry: entry[1])
    if least >= most:
        return PriceOrder(f"{order} Of those that fit now, none costs less than the first.")
    price, instead_of = (hourly_price(amount, currency) for amount in (least, most))
    sentence = (
        f"{order} {cheapest.profile.title} fits now too and costs at most {price} per hour "
        f"instead of {instead_of}: put it before {first.profile.title} to pay less."
    )
    return PriceOrder(sentence, cheapest.profile)


def price_text(prices: Prices) -> str:
    """Return the range per currency: "€0.41–2.90 / h"."""
    spans = []
    for currency, (least, most) in prices.spans.items():
        text = hourly_price(most, currency)
        if least != most:
            text = f"{hourly_price(least, currency)}–{text.removeprefix(unit(currency))}"
        spans.append(f"{text} / h")
    return " or ".join(spans)


# What the page of a device shows of claims.


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
