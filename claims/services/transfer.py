"""Handing a claim over to somebody else of the team."""

from datetime import timedelta

from django.db import transaction
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _

from claims.access import locked, reason_not_to_end
from claims.models import Claim
from claims.states import RUNNING
from core.errors import Conflict, Forbidden, Invalid
from teams.access import people_in, require_role
from teams.models import Role, Team, User
from teams.notices import tell

TAKE_BACK = timedelta(minutes=10)  # so long whoever handed a claim over may take it back


@transaction.atomic(durable=True)
def transfer(*, claim: Claim, by: User, to: User) -> Claim:
    """
    Make `to` the owner of a claim. Twice is once.

    Its owner or a lead may do this, and whoever just did may take it back. A request that still waits stays
    with who asked: nobody may decide on their own. Raises Http404, PermissionDenied, Forbidden, Invalid for
    somebody who is no member of the team, and Conflict for a claim that is not running.
    """
    role = require_role(by, claim.team, at_least=Role.MEMBER)
    claim = locked(claim)
    if claim.requested_by == to:
        return claim
    reason = reason_not_to_end(by, claim, role)
    if reason and not (to == by and _just_gave(claim, by)):
        raise Forbidden(reason)
    values = {"claim": claim, "team": claim.team, "to": to.label, "old": claim.requested_by.label}
    if claim.state not in RUNNING:
        values["state"] = claim.get_state_display()
        raise Conflict(_("%(claim)s is “%(state)s”; only a claim that runs can be handed over.") % values)
    if to not in heirs(claim.team):
        raise Invalid(_("%(to)s is no member of %(team)s, so %(claim)s cannot be theirs.") % values)
    old = claim.requested_by
    # The key of a request is its asker's; somebody else may have used the same.
    taken = Claim.objects.filter(requested_by=to, key=claim.key).exists()
    key = f"handed-over-{claim.pk}" if taken else claim.key
    claim.remark(_("Handed over from %(old)s to %(to)s.") % values, by=by, requested_by=to, key=key)
    _tell(claim, by, old, to)
    return claim


def heirs(team: Team) -> list[User]:
    """Return who may own a claim of the team."""
    return people_in(team, at_least=Role.MEMBER)


def _just_gave(claim: Claim, by: User) -> bool:
    """
    Tell whether the last thing that happened to the claim was that `by` gave it away.

    Only its owner, besides leads, can have written a remark; and who is owner no more after it gave it away.
    """
    last = claim.history.order_by("-at", "-pk").first()
    if last is None or last.old != last.new or last.by_id != by.pk:
        return False
    return last.at > timezone.now() - TAKE_BACK


def _tell(claim: Claim, by: User, old: User, to: User) -> None:
    values = {"claim": claim, "person": by.label, "old": old.label, "to": to.label}
    said = _("%(person)s handed %(claim)s over from %(old)s to %(to)s.") % values
    line = claim.history.order_by("-at", "-pk").values_list("pk", flat=True).first()
    tell(
        [person for person in (to,) if person != by],
        key=f"handed-over:{line}",
        title=_("%(claim)s is yours now") % values,
        body=said,
        url=reverse("claims:detail", args=[claim.pk]),
    )
    tell(
        [person for person in (old,) if person != by],
        key=f"handed-over:{line}",
        title=_("%(claim)s is %(to)s's now") % values,
        body=said,
        url=reverse("claims:detail", args=[claim.pk]),
    )
