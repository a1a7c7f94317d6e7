"""The panel of the account page in which a person chooses the channels of their notices."""

from typing import Any

from django import template
from django.conf import settings

from notify.forms import PreferencesForm
from notify.preferences import preferences_of
from teams.models import User

register = template.Library()


@register.inclusion_tag("notify/_preferences.html", takes_context=True)
def notice_preferences(context: dict[str, Any], user: User) -> dict[str, Any]:
    """Draw a row per kind of notice, with its channels."""
    return {
        "csrf_token": context["csrf_token"],
        "form": PreferencesForm(preferences_of(user)),
        "sends_mail": bool(settings.MAIL_URL),
        "address": user.email,
    }
