"""What people do with webhooks: leads with those of their team, platform admins with all."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TypedDict
from urllib.parse import urlsplit

from django.utils import timezone
from django.views.decorators.debug import sensitive_variables

from cluster.credentials import reseal, seal_fields
from core.errors import Conflict, Invalid
from core.transactions import after_commit, service
from notify.services import resolve
from notify.webhooks import outbox, signing, tasks
from notify.webhooks.kinds import CHOOSABLE, EventKind
from notify.webhooks.models import DeliveryState, Webhook, WebhookDelivery, WebhookQuerySet
from notify.webhooks.sending import require_url
from teams.access import is_platform_admin, require_admin, require_role, teams_where
from teams.models import Role, Team, User, record_change


class MessageData(TypedDict):
    message: str


MOST = 20  # of one team, or of the portal
OVERLAP = timedelta(days=1)  # how long a replaced secret signs too
KINDS = frozenset(key for key, _label in CHOOSABLE)


def webhooks_of(user: User) -> WebhookQuerySet:
    """Return the webhooks that a person manages."""
    return Webhook.objects.managed_by(
        user, () if user.is_superuser else teams_where(user, at_least=Role.LEAD)
    )


def require_manager(by: User, team: Team | None) -> None:
    if team is None:
        require_admin(by)
    else:
        require_role(by, team, at_least=Role.LEAD)


@sensitive_variables()
def create_webhook(
    *,
    by: User,
    team: Team | None,
    url: str,
    kinds: Sequence[str],
    title: str = "",
    is_internal: bool = False,
) -> tuple[Webhook, str]:
    """
    Add a webhook of a team, or of the portal; return it with its secret, which is shown once.

    Raises Http404 and PermissionDenied below a lead, Forbidden for an internal one below a platform admin,
    Invalid, Conflict beyond `MOST`.
    """
    require_manager(by, team)
    if is_internal:
        require_admin(by)
    require_url(url, is_internal=is_internal)
    chosen = require_kinds(kinds)
    secret = signing.new_secret()
    with service:
        if Webhook.objects.filter(team=team).count() >= MOST:
            raise Conflict(f"{team or 'The portal'} has {MOST} webhooks. Remove one first.")
        webhook = Webhook.objects.create(
            team=team,
            url=url,
            title=title,
            kinds=chosen,
            is_internal=is_internal,
            sealed=seal_fields({"secret": secret}),
            created_by=by,
        )
        record_change(by=by, of=webhook, change=f"added: {webhook.host}")
    return webhook, secret


def require_kinds(kinds: Sequence[str]) -> list[str]:
    """Return the chosen kinds in their order. Raises Invalid for none, or an unknown one."""
    if unknown := sorted(set(kinds) - KINDS):
        raise Invalid(
            f"Unknown event {', '.join(unknown)}. Known: {', '.join(sorted(KINDS))}.", field="kinds"
        )
    chosen = [key for key, _label in CHOOSABLE if key in kinds]
    if not chosen:
        raise Invalid("Choose at least one event.", field="kinds")
    return chosen


@service
def change_webhook(
    *,
    by: User,
    webhook: Webhook,
    url: str | None = None,
    kinds: Sequence[str] | None = None,
    title: str | None = None,
    is_internal: bool | None = None,
    enabled: bool | None = None,
) -> Webhook:
    """
    Change what is given, and switch it on or off. Raises as `create_webhook` does: an internal address is for
    platform admins.

    An address is what a secret was given for, and what it signs is not confidential: the secret stays.
    """
    require_manager(by, webhook.team)
    row = Webhook.objects.get(pk=webhook.pk)
    internal = row.is_internal if is_internal is None else is_internal
    address = row.url if url is None else url
    if internal and (is_internal or address != row.url) and not is_platform_admin(by):
        require_admin(by)
    require_url(address, is_internal=internal)
    values = {
        "url": address,
        "title": row.title if title is None else title,
        "kinds": row.kinds if kinds is None else require_kinds(kinds),
        "is_internal": internal,
    }
    changed = {name: value for name, value in values.items() if getattr(row, name) != value}
    if changed:
        same = Webhook.objects.filter(pk=row.pk, url=row.url, is_internal=row.is_internal)
        if not same.update(**changed):
            raise Conflict(f"Somebody else has just changed {row}. Look again.")
        words = {**changed, "url": f"at {urlsplit(address).hostname}"}
        change = ", ".join(f"{name} {_words(words[name])}" for name in changed)
        record_change(by=by, of=row, change=change)
    if enabled is not None:
        set_webhook_enabled(by=by, webhook=row, enabled=enabled)
    row.refresh_from_db()
    return row


def _words(value: object) -> str:
    return ", ".join(value) if isinstance(value, list) else str(value)


@sensitive_variables()
@service
def rotate_secret(*, by: User, webhook: Webhook) -> str:
    """Return a new secret. The one before signs too for a day, so that receivers can be changed."""
    require_manager(by, webhook.team)
    row, secret = Webhook.objects.get(pk=webhook.pk), signing.new_secret()
    same = Webhook.objects.filter(pk=row.pk, sealed=row.sealed)
    if not same.update(
        earlier=row.sealed,
        earlier_until=timezone.now() + OVERLAP,
        sealed=seal_fields({"secret": secret}),
    ):
        raise Conflict(f"Somebody else has just replaced the secret of {row}.")
    record_change(by=by, of=row, change="secret replaced")
    return secret


@service
def set_webhook_enabled(*, by: User, webhook: Webhook, enabled: bool) -> None:
    """Switch it on or off. What waits is delivered once it is on. Repeating it changes nothing."""
    require_manager(by, webhook.team)
    if enabled:
        off = Webhook.objects.filter(pk=webhook.pk).exclude(disabled_at=None)
        if off.update(disabled_at=None, disabled_because="", failing_since=None):
            record_change(by=by, of=webhook, change="switched on")
            resolve(f"webhook:{webhook.pk}")
            after_commit(tasks.deliver_webhooks)
    elif (
        Webhook.objects.enabled()
        .filter(pk=webhook.pk)
        .update(disabled_at=timezone.now(), disabled_because=f"{by.username} switched it off.")
    ):
        record_change(by=by, of=webhook, change="switched off")


@service
def remove_webhook(*, by: User, webhook: Webhook) -> None:
    """Remove it with its log."""
    require_manager(by, webhook.team)
    record_change(by=by, of=webhook, change="removed")
    resolve(f"webhook:{webhook.pk}")
    webhook.delete()


@service
def send_test(*, by: User, webhook: Webhook) -> WebhookDelivery:
    """Send it an event of kind webhook.test, in a moment. Raises Conflict while it is switched off."""
    require_manager(by, webhook.team)
    if Webhook.objects.filter(pk=webhook.pk).exclude(disabled_at=None).exists():
        raise Conflict(f"{webhook} is switched off. Switch it on first.")
    data = MessageData(message=f"{by.label} has sent this test.")
    event = outbox.write(EventKind.TEST, webhook.team_id, data, [webhook.pk])
    return WebhookDelivery.objects.select_related("event").get(webhook=webhook, event=event)


@service
def replay(*, by: User, delivery: WebhookDelivery) -> WebhookDelivery:
    """Deliver it again, with the same id, whatever became of it."""
    require_manager(by, delivery.webhook.team)
    _again(WebhookDelivery.objects.filter(pk=delivery.pk))
    delivery.refresh_from_db()
    return delivery


@service
def replay_failed(*, by: User, webhook: Webhook) -> int:
    """Deliver everything again that failed for good; return how many."""
    require_manager(by, webhook.team)
    return _again(webhook.deliveries.filter(state=DeliveryState.FAILED))


def _again(rows: object) -> int:
    number: int = rows.update(  # type: ignore[attr-defined]
        state=DeliveryState.WAITING, due_at=timezone.now(), tries=0, taken_until=None, slot=None
    )
    if number:
        after_commit(tasks.deliver_webhooks)
    return number


def reseal_webhooks() -> int:
    """Encrypt all secrets with the newest key, return their number. Raises Invalid without their key."""
    resealed = 0
    for pk, sealed, earlier in Webhook.objects.values_list("pk", "sealed", "earlier"):
        values = {"sealed": reseal(sealed), "earlier": reseal(earlier) if earlier else b""}
        resealed += Webhook.objects.filter(pk=pk, sealed=sealed).update(**values)
    return resealed
