"""The stages of a pod that uses a claim, from being made to its end, and what each means: data."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from claims.explain.meaning import Actor, Told


class Stage(StrEnum):
    """Stable, for programs."""

    MISSING_CLAIM = "missing-claim"  # it names a ResourceClaim that is not there, of which nobody tells
    GOING_CLAIM = "going-claim"  # … one that is being deleted
    NO_TEMPLATE = "no-template"  # it names a ResourceClaimTemplate that is not there
    NO_CLAIM = "no-claim"  # its claim has not been made from the template yet
    GATED = "gated"
    SCHEDULER = "scheduler"
    PREPARING = "preparing"
    STARTING = "starting"
    ENDING = "ending"
    RUNNING = "running"
    LOST = "lost"  # it is gone, and not by its owner


ORDER = tuple(Stage)  # those first about which something has to be done
WAITING = ORDER[: ORDER.index(Stage.PREPARING)]  # no device is held for it
STARTED = (Stage.PREPARING, Stage.STARTING)


@dataclass(frozen=True, slots=True)
class StageLook:
    """`means` and `then` may name %(pod)s and %(missing)s; `family` and `icon` are those of states."""

    label: Promise
    family: str
    icon: str
    means: Promise
    actor: Actor
    then: Promise


NOTHING = _("Nothing has to be done.")
LOOKS = {
    Stage.MISSING_CLAIM: StageLook(
        _("Names a claim that is missing"),
        "you",
        "help",
        _(
            "The pod %(pod)s names the ResourceClaim %(missing)s, which is not in its namespace. "
            "Kubernetes does not queue such a pod, and says nothing."
        ),
        "you",
        _("Make that claim, or start the pod with one that exists."),
    ),
    Stage.GOING_CLAIM: StageLook(
        _("Names a claim that is going"),
        "you",
        "progress-down",
        _("The pod %(pod)s names the ResourceClaim %(missing)s, which is being deleted: it takes no pod."),
        "you",
        _("Start the pod with another claim."),
    ),
    Stage.NO_TEMPLATE: StageLook(
        _("Names a template that is missing"),
        "you",
        "help",
        _("The pod %(pod)s names the ResourceClaimTemplate %(missing)s, which is not in its namespace."),
        "you",
        _("Name a template that exists; the pod then goes on by itself."),
    ),
    Stage.NO_CLAIM: StageLook(
        _("Waits for its claim"),
        "work",
        "file-text",
        _("Kubernetes has not made the claim of the pod %(pod)s from the template yet."),
        "cluster",
        _("It takes about a second; if it cannot, an event of the pod says why."),
    ),
    Stage.GATED: StageLook(
        _("Held back by a gate"),
        "work",
        "player-pause",
        _("The pod %(pod)s has scheduling gates: somebody wants to be asked before it is scheduled."),
        "cluster",
        _("Whoever set the gate, often a queue such as Kueue, takes it away when it is the pod's turn."),
    ),
    Stage.SCHEDULER: StageLook(
        _("Waits for the scheduler"),
        "work",
        "hourglass-high",
        _("The scheduler has not said anything about the pod %(pod)s that the portal knows."),
        "cluster",
        _("The scheduler tries again when claims, devices or nodes change."),
    ),
    Stage.PREPARING: StageLook(
        _("Prepares devices"),
        "work",
        "tool",
        _("The pod %(pod)s has its node and its devices; the driver prepares them there."),
        "cluster",
        _("It takes seconds; if it fails, an event of the pod says why."),
    ),
    Stage.STARTING: StageLook(
        _("Starts containers"),
        "work",
        "package",
        _("The devices of the pod %(pod)s are prepared; its node fetches images and makes the containers."),
        "cluster",
        NOTHING,
    ),
    Stage.ENDING: StageLook(
        _("Ending"),
        "work",
        "progress-down",
        _("The pod %(pod)s is being deleted and holds its devices until it has ended."),
        "cluster",
        NOTHING,
    ),
    Stage.RUNNING: StageLook(
        _("Running"), "held", "cpu", _("The pod %(pod)s runs with its devices."), "you", NOTHING
    ),
    Stage.LOST: StageLook(
        _("Was ended"),
        "bad",
        "circle-x",
        _("The pod %(pod)s was ended by somebody other than its owner."),
        "you",
        _("Start the pod again."),
    ),
}


def evidence_of(stage: Stage, *, pod: str, missing: Sequence[str] = ()) -> Told:
    """Say what a stage means where nobody has said anything more."""
    look, named = LOOKS[stage], {"pod": pod, "missing": ", ".join(missing)}
    return Told("", str(look.means) % named, look.actor, str(look.then) % named)
