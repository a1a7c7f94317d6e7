"""Who acts next on a claim, and why: one headline and one sentence."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from claims.approval import approvals
from claims.explain.fit import Fit
from claims.explain.groups import grouped, names_of
from claims.explain.pods import PodView
from claims.explain.stages import STARTED, WAITING, Stage
from claims.life.extensions import deleted_at
from claims.manifests import kind_of
from claims.models import Claim, Transition
from claims.observed.sightings import Sighting
from claims.states import ClaimState
from core.templatetags.ui import moment

type Actor = Literal["person", "you", "portal", "cluster", "admin", "nobody"]


@dataclass(frozen=True, slots=True)
class Answer:
    """`headline` names who acts ("You act next."), `sentence` says why and what."""

    actor: Actor
    who: str
    sentence: str

    @property
    def headline(self) -> str:
        headlines = {
            "person": _("%(who)s decides next."),
            "you": _("You act next."),
            "portal": _("The portal acts next."),
            "cluster": _("%(who)s acts next."),
            "admin": _("%(who)s acts next."),
            "nobody": _("Nobody has to act."),
        }
        return headlines[self.actor] % {"who": self.who}


def find_answer(
    claim: Claim,
    seen: Sighting,
    pods: Sequence[PodView],
    lost: Sequence[PodView],
    fit: Fit | None,
    history: Sequence[Transition],
) -> Answer:
    """`pods` come with those first about which something has to be done."""
    match claim.state:
        case ClaimState.REQUESTED:
            return _requested(claim)
        case ClaimState.APPROVED:
            return Answer("portal", _("The portal"), _written_next(claim))
        case ClaimState.PROVISIONED if pods:
            return _pod_first(claim, pods, fit)
        case ClaimState.PROVISIONED:
            return Answer("you", claim.requested_by.label, _start_a_pod(claim, lost))
        case ClaimState.ALLOCATED:
            return _allocated(claim, pods, lost, fit)
        case ClaimState.RELEASING:
            return _releasing(claim, seen, pods)
    return Answer("nobody", "", history[-1].why if history else "")


def _requested(claim: Claim) -> Answer:
    who = approvals.names_of(approvals.deciders_on(claim)) or _("A platform admin")
    if claim.decide_by is None:
        return Answer("person", who, _("Until then its devices are reserved in the quota of the team."))
    sentence = _("The request expires if nobody decides by %(when)s. Until then it reserves quota.")
    return Answer("person", who, sentence % {"when": moment(claim.decide_by)})


def _written_next(claim: Claim) -> str:
    return _("It writes the %(kind)s to %(cluster)s, which takes seconds.") % {
        "kind": kind_of(claim.delivery).kind,
        "cluster": claim.cluster,
    }


def _start_a_pod(claim: Claim, lost: Sequence[PodView]) -> str:
    values = {"name": claim.name, "kind": kind_of(claim.delivery).kind}
    sentence = _(
        "Start a pod that uses the %(kind)s %(name)s. No device is held and nothing is billed until then."
    )
    return " ".join(filter(None, (_ended(lost), sentence % values)))


def _ended(lost: Sequence[PodView]) -> str:
    if not lost:
        return ""
    values = {"pod": lost[0].pod.name, "why": lost[0].told.means}
    return _("The last pod, %(pod)s, was ended: %(why)s") % values


def _pod_first(claim: Claim, pods: Sequence[PodView], fit: Fit | None) -> Answer:
    """Tell of the pod about which something has to be done first."""
    first = pods[0]
    told = first.told
    parts = [_head(pods), told.means]
    if first.stage == Stage.SCHEDULER and fit is not None:
        parts.append(fit.sentence)
    if not (fit and fit.agrees is False):
        parts.append(told.then)
    sentence = " ".join(filter(None, parts))
    if told.actor == "you":
        return Answer("you", claim.requested_by.label, sentence)
    if told.actor == "admin":
        return Answer("admin", _("A platform admin"), sentence)
    return Answer("cluster", "Kubernetes", sentence)


def _head(pods: Sequence[PodView]) -> str:
    """Count the pods of which the same is to be told, unless it is one and its words name it."""
    group, *others = grouped(pods)
    first = group.first
    if group.count == 1 and first.pod.name in first.told.means:
        return ""
    waits = ngettext("The pod %(names)s waits.", "%(n)d pods wait: %(names)s.", group.count)
    stands = ngettext("The pod %(names)s is not ready.", "%(n)d pods are not ready: %(names)s.", group.count)
    words = waits if first.stage in WAITING else stands
    more = sum(other.count for other in others if other.first.stage in WAITING)
    also = ngettext(
        "%(n)d more pod waits for another reason.", "%(n)d more pods wait for other reasons.", more
    )
    return " ".join(
        [words % {"names": group.names, "n": group.count}, *([also % {"n": more}] if more else [])]
    )


def _allocated(claim: Claim, pods: Sequence[PodView], lost: Sequence[PodView], fit: Fit | None) -> Answer:
    """Pods in trouble come first, those that are on their way do not matter beside one that runs."""
    running = any(view.stage == Stage.RUNNING for view in pods)
    waiting = [view for view in pods if view.stage in WAITING]
    starting = [view for view in pods if view.stage in STARTED]
    if waiting:
        return _pod_first(claim, pods, fit)
    if starting and (not running or starting[0].told.actor != "cluster"):
        return _pod_first(claim, starting, fit)
    sentence = _("Release the claim when its work is done.")
    if (end := deleted_at(claim)) is not None:
        sentence = _(
            "Release the claim when its work is done. On %(when)s the portal deletes it; "
            "a pod that still runs keeps its devices until it ends."
        ) % {"when": moment(end)}
    return Answer("you", claim.requested_by.label, " ".join(filter(None, (_ended(lost), sentence))))


def _releasing(claim: Claim, seen: Sighting, pods: Sequence[PodView]) -> Answer:
    if not pods:
        others = sorted({str(one) for row in seen.holders for one in _reserved(row.raw)})
        if others:
            sentence = _("It is still reserved for %(who)s, which the portal does not see, and ends with it.")
            return Answer("cluster", "Kubernetes", sentence % {"who": ", ".join(others[:3])})
        return Answer("cluster", "Kubernetes", _("It removes the object; no pod uses it any more."))
    sentence = ngettext(
        "The pod %(pods)s still holds the devices; they are free when it ends.",
        "The pods %(pods)s still hold the devices; they are free when all of them have ended.",
        len(pods),
    )
    leaving = all(view.stage == Stage.ENDING for view in pods)
    who = Answer("cluster", "Kubernetes", "") if leaving else Answer("you", claim.requested_by.label, "")
    return Answer(who.actor, who.who, sentence % {"pods": names_of(pods)})


def _reserved(raw: dict[str, object]) -> list[str]:
    status = raw.get("status")
    reserved = status.get("reservedFor") if isinstance(status, dict) else None
    return [f"{one.get('resource', '')} {one.get('name', '')}".strip() for one in reserved or []]
