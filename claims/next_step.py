"""
Why a claim is where it is, who acts next, and the way from the request to its end: one answer for page and
API.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from claims import approvals
from claims.chain import Step, chain
from claims.manifests import kind_of
from claims.models import Claim, Transition
from claims.sightings import Sighting, look
from claims.states import ClaimState
from core.templatetags.ui import moment
from inventory.models import Pod

type Actor = Literal["person", "you", "portal", "cluster", "nobody"]

# What the scheduler of Kubernetes 1.35 to 1.37 says, and what it means to the one who waits.
MEANINGS = (
    (
        "cannot allocate all claims",
        gettext_lazy("Nothing that matches is free on any node that the pod may use."),
    ),
    (
        "CEL runtime error",
        gettext_lazy("A selector of the claim fails on a device; the profile has to be mended."),
    ),
    ("does not exist", gettext_lazy("The cluster lacks something that the claim names.")),
    (
        "exceeds the claim limit",
        gettext_lazy("The claim asks for more devices than Kubernetes gives to one claim."),
    ),
)


@dataclass(frozen=True, slots=True)
class NextStep:
    """`headline` names who acts ("You act next"), `sentence` says what and why, `steps` is the whole way."""

    actor: Actor
    who: str
    headline: str
    sentence: str
    problem: str
    steps: tuple[Step, ...]


def next_step(claim: Claim, seen: Sighting | None = None) -> NextStep:
    """Explain a claim from its history and from what the mirror shows of it."""
    seen = look([claim])[claim.pk] if seen is None else seen
    history = list(claim.history.select_related("by"))
    actor, who, sentence = _answer(claim, seen, history)
    headlines = {
        "person": _("%(who)s decides next."),
        "you": _("You act next."),
        "portal": _("The portal acts next."),
        "cluster": _("%(who)s acts next."),
        "nobody": _("Nobody has to act."),
    }
    return NextStep(
        actor=actor,
        who=who,
        headline=headlines[actor] % {"who": who},
        sentence=sentence,
        problem=claim.problem,
        steps=chain(claim, seen, history),
    )


def _answer(claim: Claim, seen: Sighting, history: Sequence[Transition]) -> tuple[Actor, str, str]:
    match claim.state:
        case ClaimState.REQUESTED:
            return _requested(claim)
        case ClaimState.APPROVED:
            return "portal", _("The portal"), _written_next(claim)
        case ClaimState.PROVISIONED:
            return _provisioned(claim, seen)
        case ClaimState.ALLOCATED:
            return "you", claim.requested_by.label, _allocated(claim)
        case ClaimState.RELEASING:
            return _releasing(claim, seen)
    return "nobody", "", history[-1].why if history else ""


def _requested(claim: Claim) -> tuple[Actor, str, str]:
    version = claim.profile_version
    people = approvals.deciders(claim.team, version.approval)
    if not approvals.allows_self_approval(claim):
        people = [person for person in people if person.pk != claim.requested_by_id]
    who = approvals.names_of(people) or _("A platform admin")
    if claim.decide_by is None:
        return "person", who, _("Until then its devices are reserved in the quota of the team.")
    sentence = _("The request expires if nobody decides by %(when)s. Until then it reserves quota.")
    return "person", who, sentence % {"when": moment(claim.decide_by)}


def _written_next(claim: Claim) -> str:
    return _("It writes the %(kind)s to %(cluster)s, which takes seconds.") % {
        "kind": kind_of(claim.delivery).kind,
        "cluster": claim.cluster,
    }


def _provisioned(claim: Claim, seen: Sighting) -> tuple[Actor, str, str]:
    waiting = [pod for pod in seen.users if pod.phase in ("", "Pending")]
    if waiting:
        return "cluster", "Kubernetes", _pod_waits(waiting[0])
    values = {"name": claim.name, "kind": kind_of(claim.delivery).kind}
    sentence = _(
        "Start a pod that uses the %(kind)s %(name)s. No device is held and nothing is billed until then."
    )
    return "you", claim.requested_by.label, sentence % values


def _pod_waits(pod: Pod) -> str:
    if not pod.message:
        return _("The pod %(pod)s waits for the scheduler.") % {"pod": pod.name}
    meaning = next((str(said) for sign, said in MEANINGS if sign in pod.message), "")
    sentence = _("The pod %(pod)s waits. %(meaning)s The scheduler says: %(message)s")
    return sentence % {"pod": pod.name, "meaning": meaning, "message": pod.message}


def _allocated(claim: Claim) -> str:
    if claim.expires_at is None:
        return _("Release the claim when its work is done.")
    return _(
        "Release the claim when its work is done. On %(when)s the portal deletes it; "
        "a pod that still runs keeps its devices until it ends."
    ) % {"when": moment(claim.expires_at)}


def _releasing(claim: Claim, seen: Sighting) -> tuple[Actor, str, str]:
    names = [pod.name for pod in seen.users]
    if not names:
        return "cluster", "Kubernetes", _("It removes the object; no pod uses it any more.")
    values = {"pods": ", ".join(names[:3]) + (" …" if len(names) > 3 else "")}
    sentence = ngettext(
        "The pod %(pods)s still holds the devices; they are free when it ends.",
        "The pods %(pods)s still hold the devices; they are free when all of them have ended.",
        len(names),
    )
    return "you", claim.requested_by.label, sentence % values
