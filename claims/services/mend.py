"""Putting right what others did to the object of a claim."""

from django.db import transaction
from django.utils.translation import gettext as _

from claims import tasks
from claims.access import locked, reason_not_to_end
from claims.models import Claim
from claims.observed import behind
from claims.observed.sightings import look
from core.errors import Conflict, Forbidden
from core.queueing import after_commit
from teams.access import require_role
from teams.models import Role, User


@transaction.atomic(durable=True)
def accept_object(*, claim: Claim, by: User, reason: str = "") -> Claim:
    """
    Take the object that somebody made again under the claim's name for the claim's own.

    Only a platform admin may, and only while it asks for what was approved. Raises Forbidden, Conflict.
    """
    require_role(by, claim.team, at_least=Role.VIEWER)
    if not by.is_platform_admin:
        raise Forbidden(
            _("Only a platform admin may accept another object for %(claim)s.") % {"claim": claim}
        )
    claim = locked(claim)
    seen = look([claim])[claim.pk]
    trouble = behind.trouble_of(claim, seen)
    if trouble is None or trouble.code != behind.REPLACED or seen.written is None:
        raise Conflict(_("%(claim)s has no new object that asks for what was approved.") % {"claim": claim})
    why = reason.strip() or _("The object that somebody else made again was accepted.")
    claim.remark(why, by=by, object_uid=seen.written.uid, sighting="", problem="")
    _look_again(claim)
    return claim


@transaction.atomic(durable=True)
def label_again(*, claim: Claim, by: User) -> Claim:
    """
    Put the portal's labels back on the object of a claim. Doing it twice is doing it once.

    Raises Forbidden, Conflict for a claim that has no object.
    """
    role = require_role(by, claim.team, at_least=Role.MEMBER)
    claim = Claim.objects.select_related("team", "cluster", "requested_by").get(pk=claim.pk)
    if reason := reason_not_to_end(by, claim, role):
        raise Forbidden(reason)
    if not look([claim])[claim.pk].there():
        raise Conflict(
            _("%(claim)s has no object in %(cluster)s.") % {"claim": claim, "cluster": claim.cluster}
        )
    after_commit(tasks.label, str(claim.pk))
    return claim


def _look_again(claim: Claim) -> None:
    """Have the mirror believed anew; a lost message costs the seconds to the next sweep."""
    names = [f"{claim.namespace}/{claim.name}"]
    after_commit(tasks.reconcile_cluster, str(claim.cluster_id), names)
