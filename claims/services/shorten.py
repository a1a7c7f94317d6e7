"""Ending earlier than granted. What was granted can be had back without asking (`claims.life.extensions`)."""

from datetime import datetime

from django.db import transaction
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _

from claims.access import own, require_running
from claims.models import Claim
from core.errors import Invalid
from core.templatetags.ui import moment, moment_with_zone
from core.times import duration as in_words
from core.times import require_date
from teams.models import User
from teams.notices import tell


@transaction.atomic(durable=True)
def shorten(*, claim: Claim, by: User, until: datetime) -> Claim:
    """
    Move the end of a claim forward to `until`. Twice is once.

    Raises Http404, PermissionDenied, Forbidden, Conflict for a claim that is over, and Invalid for an end
    that is past, which would be a release, or later than the one it has.
    """
    claim = own(claim, by)
    require_date(until)
    end = require_running(claim)
    if until == end:
        return claim
    values = {"claim": claim, "end": moment(end), "until": moment(until)}
    if until <= timezone.now():
        raise Invalid(_("%(until)s is in the past; to end %(claim)s now, release it.") % values)
    if until > end:
        raise Invalid(_("%(claim)s ends on %(end)s already; to keep it longer, extend it.") % values)
    kept = {"span": in_words(end - until), "until": moment_with_zone(until)}
    said = _("Shortened by %(span)s, until %(until)s.") % kept
    claim.remark(said, by=by, expires_at=until)
    if claim.requested_by != by:
        tell(
            [claim.requested_by],
            key=f"shortened:{claim.pk}:{until.isoformat()}",
            title=_("%(claim)s ends earlier") % values,
            body=lambda: (
                _("%(person)s has moved its end to %(until)s.")
                % {"person": by.label, "until": moment_with_zone(until)}
            ),
            url=reverse("claims:detail", args=[claim.pk]),
        )
    return claim
