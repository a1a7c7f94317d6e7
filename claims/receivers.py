"""Reactions of `claims` to changes of the mirror, of claims, requests and teams."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from django.db.models.signals import post_delete, post_save
from django.dispatch import receiver

from claims import webhook_events
from claims.approvals import notices, pending
from claims.approvals.authority import LEADS
from claims.catalogue.tasks import mirror_has_changed, refresh_availability
from claims.delivery.tasks import reconcile_cluster
from claims.lifecycle import leaving
from claims.models import Claim, Extension, QuotaRequest
from claims.notices import UNTIL_DECIDED, UNTIL_ENDED, UNTIL_OVER, UNTIL_USED, resolve_of_leaver
from claims.observation import ownership
from claims.quotas.tasks import queue_team
from claims.signals import claim_state_changed, pending_request_decided, request_returned
from claims.states import FINAL, ClaimState
from core.transactions import after_commit
from inventory.models import Cluster
from inventory.signals import mirror_changed, secrets_resealed
from notify.services import resolve
from notify.webhooks.services import reseal_webhooks
from teams.identity.rules import access_lost
from teams.identity.services import reseal_secrets
from teams.models import Membership, Team, User
from teams.passkeys import reseal_second_factors
from teams.services import account_ended, role_changed

WATCHED = ("ResourceClaim", "ResourceClaimTemplate", "Pod")


@receiver(mirror_changed, dispatch_uid="claims.delivery.reconcile")
def queue_reconcile(*, cluster_id: UUID, kind: str, **_: Any) -> None:
    """Reconcile the claims that own or use what changed. The next sweep repairs a lost message."""
    if kind in WATCHED:
        reconcile_cluster.delay(str(cluster_id))


@receiver(mirror_changed, dispatch_uid="claims.catalogue.availability")
def queue_availability(*, cluster_id: UUID, kind: str, **_: Any) -> None:
    """Compute availability again. `claims.tasks.repair_availability` repairs a lost message."""
    mirror_has_changed(cluster_id, kind)


@receiver(post_save, sender=Cluster, dispatch_uid="claims.catalogue.availability.cluster")
def queue_availability_of_cluster(*, instance: Cluster, **_: Any) -> None:
    """Compute the availability of a new or enabled cluster."""
    after_commit(refresh_availability, str(instance.pk))


@receiver(claim_state_changed, dispatch_uid="claims.quotas.write")
def queue_quota_sync(*, claim: Claim, **_: Any) -> None:
    """
    Write the ResourceQuotas of the team after the commit. `claims.tasks.maintain_quotas` repairs a lost
    message.
    """
    queue_team(claim.team_id)


@receiver(claim_state_changed, dispatch_uid="claims.webhook_events.claim")
def tell_webhooks_of_state(*, claim: Claim, old: str, new: str, **_: Any) -> None:
    webhook_events.tell_of_state(claim, old, new)


@receiver(claim_state_changed, dispatch_uid="claims.resolve_notices")
def resolve_notices(*, claim: Claim, old: str, new: str, **_: Any) -> None:
    """What a person was asked to do about the claim is done, or too late."""
    kinds: list[str] = []
    if old == ClaimState.REQUESTED:
        kinds += UNTIL_DECIDED
        _resolve_questions(claim)
    if old == ClaimState.PROVISIONED:
        kinds += UNTIL_USED
    if new in FINAL:
        kinds += UNTIL_OVER
        resolve_of_leaver(claim, claim.requested_by_id)
    elif new == ClaimState.RELEASING:
        kinds += UNTIL_ENDED
    if kinds:
        resolve(*(f"{kind}:{claim.pk}" for kind in kinds))


def _resolve_questions(subject: Claim | QuotaRequest) -> None:
    questions = subject.comments.filter(question=True).values_list("pk", flat=True)
    resolve(*(f"comment:{pk}" for pk in questions))


@receiver(pending_request_decided, dispatch_uid="claims.resolve_notices.decided")
def resolve_notices_of_request(*, request: Extension | QuotaRequest, **_: Any) -> None:
    resolve(f"extension:{request.pk}", f"remind:{request.pk}", f"quota-request-{request.pk}")
    if isinstance(request, QuotaRequest):
        _resolve_questions(request)


@receiver(pending_request_decided, dispatch_uid="claims.webhook_events.decided")
def tell_webhooks_of_decision(*, request: Extension | QuotaRequest, **_: Any) -> None:
    webhook_events.tell_of_request(request, decided=True)


@receiver(post_save, sender=Extension, dispatch_uid="claims.webhook_events.extension")
@receiver(post_save, sender=QuotaRequest, dispatch_uid="claims.webhook_events.quota_request")
def tell_webhooks_of_request(*, instance: Extension | QuotaRequest, created: bool, **_: Any) -> None:
    if created:
        webhook_events.tell_of_request(instance, decided=False)


@receiver(secrets_resealed, dispatch_uid="notify.webhooks")
def reseal_secrets_of_webhooks(**_: Any) -> int:
    """`notify` and `inventory`, which sends it, do not import each other."""
    return reseal_webhooks()


@receiver(secrets_resealed, dispatch_uid="teams.identity")
def reseal_secrets_of_teams(**_: Any) -> int:
    """`teams` does not import `inventory`, which sends it."""
    return reseal_secrets() + reseal_second_factors()


@receiver(access_lost, dispatch_uid="claims.access_lost")
def notify_of_lost_access(*, people: Sequence[User], team: Team, **_: Any) -> None:
    leaving.notify_of_lost_access(people, team)


@receiver(account_ended, dispatch_uid="claims.account_ended")
def notify_of_ended_account(*, person: User, who: User | None, reason: str, **_: Any) -> None:
    leaving.notify_of_ended_account(person, by=f"by {who.label}" if who else reason)


@receiver(claim_state_changed, dispatch_uid="claims.observation.ownership")
def refresh_ownership(*, claim: Claim, old: str, new: str, **_: Any) -> None:
    """The object of an adopted claim is managed at once; that of a claim that is over may be left over."""
    if new in FINAL or (not old and claim.object_uid):
        ownership.refresh_claim(claim)


@receiver(request_returned, dispatch_uid="claims.approvals.asked")
def notify_approvers(*, claim: Claim, **_: Any) -> None:
    """Notify the approvers that a request waits for them again."""
    notices.notify_deciders(claim)


# Pending decisions follow these changes in the same transaction. Services of approvals, which change rules,
# approvals and escalation, call `pending.refresh` themselves.


@receiver(claim_state_changed, dispatch_uid="claims.approvals.pending.claim")
def refresh_claim(*, claim: Claim, old: str, new: str, **_: Any) -> None:
    """`claims.requests.services` adds the row of a new request."""
    if old == ClaimState.REQUESTED:
        pending.remove(claim)
    elif old and new == ClaimState.REQUESTED:
        pending.refresh(claims=[claim.pk])


@receiver(pending_request_decided, dispatch_uid="claims.approvals.pending.decided")
def refresh_decided_request(*, request: Extension | QuotaRequest, **_: Any) -> None:
    pending.refresh(request=request)


@receiver(post_save, sender=Extension, dispatch_uid="claims.approvals.pending.extension")
@receiver(post_save, sender=QuotaRequest, dispatch_uid="claims.approvals.pending.quota_request")
def refresh_saved_request(*, instance: Extension | QuotaRequest, **_: Any) -> None:
    pending.refresh(request=instance)


@receiver(post_save, sender=Membership, dispatch_uid="claims.approvals.pending.member")
@receiver(post_delete, sender=Membership, dispatch_uid="claims.approvals.pending.member_removed")
def refresh_team(*, instance: Membership, created: bool = False, **_: Any) -> None:
    """Whether a team has a lead is stored. `teams` does not import `claims`, so its models signal it."""
    if not (created and instance.role not in LEADS):
        pending.refresh(teams=[instance.team_id])


@receiver(role_changed, dispatch_uid="claims.approvals.pending.role")
def refresh_team_of_role(*, team_id: UUID, **_: Any) -> None:
    pending.refresh(teams=[team_id])


@receiver(post_save, sender=User, dispatch_uid="claims.approvals.pending.user")
def refresh_teams_of_user(
    *, instance: User, created: bool, update_fields: frozenset[str] | None = None, **_: Any
) -> None:
    """A lead who cannot sign in decides nothing. The role of platform admin is read, not stored."""
    if created or (update_fields is not None and "is_active" not in update_fields):
        return
    led = Membership.objects.filter(user=instance, role__in=LEADS).values_list("team", flat=True)
    if teams := list(led):
        pending.refresh(teams=teams)
