"""Pages of webhooks: those of a team for its leads, all of them for platform admins, and the log of one."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_variables
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from core.attempt import Attempt, posted, refusal_as_message
from core.errors import Invalid
from core.text import counted
from notify.webhooks import services
from notify.webhooks.kinds import CHOOSABLE
from notify.webhooks.models import DeliveryState, Webhook
from notify.webhooks.sending import MAX_URL
from teams.access import is_platform_admin, require_admin, team_for, user_of
from teams.models import Role, Team, recorded_changes

SHOWN = 50  # deliveries of the log; the API has all of 30 days
CHANGES = 10


class WebhookForm(forms.Form):
    url = forms.CharField(
        label="Address",
        max_length=MAX_URL,
        widget=forms.TextInput({"autocomplete": "off", "placeholder": "https://hooks.example.org/gpus"}),
        help_text="Receives a POST for each event. Begins with https://.",
    )
    title = forms.CharField(label="Title", max_length=80, required=False, help_text="Shown in lists.")
    kinds = forms.MultipleChoiceField(
        label="Events",
        choices=CHOOSABLE,
        widget=forms.CheckboxSelectMultiple,
        error_messages={"required": "Choose at least one event."},
    )
    is_internal = forms.BooleanField(
        label="Allow private addresses and http://",
        required=False,
        help_text="Only for a receiver that you run.",
    )

    def __init__(self, *args: Any, is_admin: bool, **options: Any) -> None:
        super().__init__(*args, **options)
        if not is_admin:
            del self.fields["is_internal"]


@require_safe
def webhooks(request: HttpRequest) -> HttpResponse:
    """List the webhooks of the portal and of all teams; for platform admins."""
    require_admin(user_of(request))
    return listed(request, None)


@require_safe
def team_webhooks(request: HttpRequest, slug: str) -> HttpResponse:
    """List the webhooks of a team, for its leads."""
    return listed(request, team_for(request.user, slug, at_least=Role.LEAD))


def listed(request: HttpRequest, team: Team | None) -> HttpResponse:
    rows = services.webhooks_of(user_of(request)).select_related("team").defer("sealed", "earlier")
    page = {"team": team, "webhooks": rows.filter(team=team) if team else rows}
    return render(request, "notify/webhooks.html", page)


@sensitive_variables()
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def webhook_new(request: HttpRequest) -> HttpResponse:
    """Add a webhook of the team in the query, or of the portal; then show its secret, once."""
    by, slug = user_of(request), request.GET.get("team", "")
    team = team_for(by, slug, at_least=Role.LEAD) if slug else None
    if team is None:
        require_admin(by)
    form = WebhookForm(posted(request), is_admin=is_platform_admin(by))
    with Attempt(form) as attempt:
        if form.is_valid():
            webhook, secret = services.create_webhook(by=by, team=team, **form.cleaned_data)
            return shown(request, webhook, secret=secret)
    return render(request, "notify/webhook_new.html", {"form": form, "team": team}, status=attempt.status)


def webhook_for(request: HttpRequest, webhook_id: UUID) -> Webhook:
    """Return a webhook that the reader manages; 404 for everybody else."""
    return get_object_or_404(services.webhooks_of(user_of(request)).select_related("team"), pk=webhook_id)


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def webhook(request: HttpRequest, webhook_id: UUID) -> HttpResponse:
    """Show a webhook with its log; POST changes it."""
    row, by = webhook_for(request, webhook_id), user_of(request)
    if request.method != "POST":
        return shown(request, row)
    form = WebhookForm(request.POST, is_admin=is_platform_admin(by))
    with Attempt(form) as attempt:
        if form.is_valid():
            services.change_webhook(by=by, webhook=row, **form.cleaned_data)
            messages.success(request, "The webhook is saved.")
            return redirect("notify:webhook", row.pk)
    return shown(request, row, form=form, status=attempt.status)


def shown(
    request: HttpRequest,
    row: Webhook,
    *,
    form: WebhookForm | None = None,
    secret: str = "",
    status: int = 200,
) -> HttpResponse:
    initial = {name: getattr(row, name) for name in WebhookForm.base_fields}
    log = row.deliveries.select_related("event")
    overlaps = row.earlier_until is not None and row.earlier_until > timezone.now()
    page = {
        "webhook": row,
        "team": row.team,
        "form": form or WebhookForm(initial=initial, is_admin=is_platform_admin(user_of(request))),
        "secret": secret,
        "earlier_until": row.earlier_until if overlaps else None,
        "deliveries": log[:SHOWN],
        "failed": log.filter(state=DeliveryState.FAILED).count(),
        "changes": recorded_changes(row)[:CHANGES],
    }
    return render(request, "notify/webhook.html", page, status=status)


@sensitive_variables()
@never_cache
@require_POST
def webhook_act(request: HttpRequest, webhook_id: UUID) -> HttpResponse:
    """Test it, replace its secret, switch it on or off, deliver again what failed, or remove it."""
    row, by = webhook_for(request, webhook_id), user_of(request)
    with refusal_as_message(request):
        match request.POST.get("do"):
            case "test":
                services.send_test(by=by, webhook=row)
                messages.success(request, "A test is being sent. Reload to see what it met.")
            case "rotate":
                secret = services.rotate_secret(by=by, webhook=row)
                return shown(request, webhook_for(request, row.pk), secret=secret)
            case "on" | "off" as switch:
                services.set_webhook_enabled(by=by, webhook=row, enabled=switch == "on")
                messages.success(request, f"The webhook is switched {switch}.")
            case "replay-failed":
                number = services.replay_failed(by=by, webhook=row)
                messages.success(
                    request, f"{counted(number, 'delivery', 'deliveries')} will be attempted again."
                )
            case "remove":
                services.remove_webhook(by=by, webhook=row)
                messages.success(request, "The webhook was removed.")
                return (
                    redirect("notify:team_webhooks", row.team.slug)
                    if row.team
                    else redirect("notify:webhooks")
                )
            case _:
                raise Invalid(
                    "Choose what to do: test, rotate, on, off, replay-failed or remove.", field="do"
                )
    return redirect("notify:webhook", row.pk)


@require_POST
def delivery_replay(request: HttpRequest, webhook_id: UUID, delivery_id: UUID) -> HttpResponse:
    row = webhook_for(request, webhook_id)
    delivery = get_object_or_404(row.deliveries.select_related("webhook__team", "event"), pk=delivery_id)
    services.replay(by=user_of(request), delivery=delivery)
    messages.success(request, "It is delivered again, with the same id.")
    return redirect("notify:webhook", row.pk)
