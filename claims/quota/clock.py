"""What ends by the clock: raises of a quota, and requests for more that nobody decides on."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from functools import partial

from django.db import transaction
from django.urls import reverse
from django.utils.translation import gettext as _

from claims.models import Answer, QuotaRaise, QuotaRequest
from claims.quota.quotas import label_of
from core.templatetags.ui import moment_with_zone
from teams.access import people_in
from teams.models import Role, User
from teams.notices import tell

BEFORE = timedelta(days=1)
AFTER = timedelta(days=2)  # a raise that ended longer ago is not told of any more


def end_overdue(now: datetime) -> None:
    """Let requests expire that nobody decided on in time."""
    overdue = QuotaRequest.objects.filter(answer=Answer.WAITING, decide_by__lte=now)
    for asked in overdue.select_related("team", "asked_by"):
        with transaction.atomic():  # nobody is left untold
            if asked.decide(Answer.EXPIRED, by=None, note=_("Nobody decided in time.")):
                _tell_of_silence(asked)


def _tell_of_silence(asked: QuotaRequest) -> None:
    tell(
        [asked.asked_by],
        key=f"quota-request-decided-{asked.pk}",
        title=_("Nobody decided on more quota for %(team)s") % {"team": asked.team},
        body=_("Ask again if it is still needed."),
        url=reverse("claims:quota_request_decision", args=[asked.pk]),
    )


def tell_of_ends(now: datetime) -> None:
    """Tell leads and whoever asked, a day before a raise ends and when it has. Told once each."""
    raises = QuotaRaise.objects.select_related("quota__team", "quota__profile", "request__asked_by")
    for one in raises.filter(ends_at__gt=now - AFTER, ends_at__lte=now + BEFORE, starts_at__lte=now):
        over = one.ends_at <= now
        quota = one.quota
        values = {
            "team": quota.team,
            "what": label_of(quota),
            "more": one.devices,
            "limit": quota.devices,
        }
        tell(
            _people(one),
            key=f"quota-raise-{'ended' if over else 'ends'}-{one.pk}",
            title=partial(_title, one, values, over=over),
            body=_("The limit is then %(limit)d. What is held beyond it stays, and is shown as over.")
            % values,
            url=reverse("claims:quota", args=[quota.pk]),
            important=not over,
        )


def _title(one: QuotaRaise, values: Mapping[str, object], *, over: bool) -> str:
    if over:
        return _("The %(more)d more %(what)s of %(team)s have ended") % values
    said = _("The %(more)d more %(what)s of %(team)s end on %(when)s")
    return said % {**values, "when": moment_with_zone(one.ends_at)}


def _people(one: QuotaRaise) -> list[User]:
    asker = [one.request.asked_by] if one.request else []
    return [*people_in(one.quota.team, at_least=Role.LEAD), *asker]
