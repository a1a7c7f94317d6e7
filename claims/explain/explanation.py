"""All that is known of why a claim is where it is, put together."""

from dataclasses import dataclass

from django.db.models import F

from claims.explain.answer import Answer, find_answer
from claims.explain.chain import Step, chain
from claims.explain.fit import Fit, fit_now
from claims.explain.groups import PodGroup, grouped
from claims.explain.pods import PodView, lost, views
from claims.explain.stages import WAITING, Stage
from claims.models import Claim, Delivery
from claims.observed.sightings import Sighting, look
from claims.states import FINAL, WRITTEN
from inventory.freshness import OF_DEVICES, Age, ages

SHOWN = 3  # groups of pods, on a page
GROUPS = 20  # in the API
CALM = (Stage.RUNNING, Stage.ENDING)


@dataclass(frozen=True, slots=True)
class Explanation:
    """
    `answer` says who acts next, `steps` is the whole way, `pods` are those that use the claim or want to.

    `lost` are pods that others have ended of late. `fit` is what the picture says while a pod waits for the
    scheduler, else None. `hears_events` is False where the cluster does not let the portal read Events.
    """

    answer: Answer
    steps: tuple[Step, ...]
    pods: tuple[PodView, ...]
    lost: tuple[PodView, ...]
    fit: Fit | None
    problem: str
    hears_events: bool

    @property
    def groups(self) -> list[PodGroup]:
        return grouped(self.pods)[:GROUPS]

    @property
    def lost_groups(self) -> list[PodGroup]:
        return grouped(self.lost)

    @property
    def troubled(self) -> list[PodGroup]:
        """Return pods that do not run, or that run and have something to be done about; then those lost."""
        pods = [view for view in self.pods if view.stage not in CALM or view.told.text]
        return [*grouped(pods)[:SHOWN], *self.lost_groups]

    @property
    def more(self) -> int:
        """How many pods wait that `troubled` leaves out."""
        shown = sum(group.count for group in self.troubled if group.first.stage in WAITING)
        return sum(view.stage in WAITING for view in self.pods) - shown

    @property
    def trouble(self) -> PodView | None:
        """Return the pod to tell of first, if one does not run."""
        return next((view for view in self.pods if view.stage not in CALM), None)

    @property
    def shown_steps(self) -> list[Step]:
        """Return the steps without what was skipped, and without an end that is not in sight."""
        return [
            step
            for step in self.steps
            if step.status != "skipped" and (step.key, step.status) != ("released", "ahead")
        ]


def explain(claim: Claim, seen: Sighting | None = None, age: Age | None = None) -> Explanation:
    """Explain a claim from its history, from what the mirror shows of it, and from the picture of now."""
    seen = look([claim])[claim.pk] if seen is None else seen
    over = claim.state in FINAL
    if age is None and not over:
        age = ages((*OF_DEVICES, "pods"), cluster=claim.cluster)[0]
    history = list(claim.history.exclude(old=F("new")).select_related("by"))  # steps, without remarks
    pods = views(claim, [] if over else seen.users)
    queued = next((view for view in pods if view.stage == Stage.SCHEDULER), None)
    open_claim = claim.state in WRITTEN and (claim.delivery == Delivery.TEMPLATE or not seen.held)
    fit = fit_now(claim, queued.said, age) if queued and open_claim else None
    ended = lost(claim) if claim.state in WRITTEN else []
    said = find_answer(claim, seen, pods, ended, fit, history)
    return Explanation(
        answer=said,
        steps=chain(claim, seen, pods, history, said),
        pods=tuple(pods),
        lost=tuple(ended),
        fit=fit,
        problem=claim.problem,
        hears_events="list events" not in claim.cluster.missing,
    )
