"""What waits for the reader, most urgent first: each a fact with its numbers, and what to do about it."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from django.urls import reverse

from claims.catalogue.lint import catalogue_report
from claims.states import USABLE, ClaimState
from core.text import counted
from core.times import duration
from dra.lint import Severity
from portal.context import Shell
from portal.home.parts import ClaimRow, Mine
from usage.cost import cost_text

SOON = timedelta(hours=24)  # a claim that ends within a day
MINUTE = timedelta(minutes=1)  # how old the check of the catalogue may be on a page that polls
PATIENCE = timedelta(hours=4)  # a request that is undecided for longer is worth a look


@dataclass(frozen=True, slots=True)
class NeedAction:
    label: str
    url: str
    is_main: bool = True


@dataclass(frozen=True, slots=True)
class Need:
    """`family` is the colour of who acts (claims.states); `key` tells needs apart in an entity tag."""

    key: str
    icon: str
    family: str
    title: str
    sentence: str
    url: str
    actions: tuple[NeedAction, ...]


def needs(shell: Shell, held: Mine, *, now: datetime) -> list[Need]:
    """Return requests to decide on first, then the reader's own claims; one query beside those of `held`."""
    found = [*to_decide(shell, now=now), *to_mend(shell)]
    told: set[UUID] = set()  # one need per claim, its most urgent
    for of_row in (in_trouble, ends_soon, waits_for_pod, is_idle, is_undecided):
        for row in held.rows:
            if row.claim.pk not in told and (need := of_row(row, now)) is not None:
                told.add(row.claim.pk)
                found.append(need)
    return found


def to_decide(shell: Shell, *, now: datetime) -> Iterator[Need]:
    """Yield the inbox as one need: how many, and the age of the oldest."""
    if not (waiting := shell.undecided):
        return
    oldest = waiting[0]
    age = duration(now - oldest)
    url = reverse("claims:approvals")
    yield Need(
        f"inbox {len(waiting)} {oldest}",
        "checks",
        "wait",
        f"{counted(len(waiting), 'request waits', 'requests wait')} for your decision",
        f"The oldest has waited for {age}. It keeps its quota reserved until it is decided.",
        url,
        (NeedAction("Decide", url),),
    )


def to_mend(shell: Shell) -> Iterator[Need]:
    """Yield what the check of the catalogue found, as one need of platform admins."""
    if not shell.is_admin:
        return
    found = catalogue_report(no_older_than=MINUTE).due
    if not found:
        return
    names = list(dict.fromkeys(finding.name for finding in found))
    first = found[0]
    url = reverse("claims:lint")
    yield Need(
        f"lint {' '.join(finding.key for finding in found)}",
        "alert-circle" if first.severity is Severity.ERROR else "alert-triangle",
        "bad" if first.severity is Severity.ERROR else "wait",
        f"{counted(len(names), 'profile needs', 'profiles need')} fixing",
        f"{first.name}: {first.messages[0].message}",
        url,
        (NeedAction("Look", url),),
    )


def page_of(row: ClaimRow) -> str:
    return reverse("claims:detail", args=[row.claim.pk])


def release(row: ClaimRow) -> NeedAction:
    return NeedAction("Release…", reverse("claims:release", args=[row.claim.pk]))


def in_trouble(row: ClaimRow, now: datetime) -> Need | None:
    """The cluster or the reconciliation says something about the claim that somebody should read."""
    if not row.claim.problem or row.claim.is_final:
        return None
    title = f"{row.claim.name} has a problem"
    url = page_of(row)
    open_it = (NeedAction("Open", url),)
    return Need(f"problem {row.claim.pk}", "alert-triangle", "bad", title, row.claim.problem, url, open_it)


def ends_soon(row: ClaimRow, now: datetime) -> Need | None:
    claim = row.claim
    if claim.state not in USABLE or claim.expires_at is None:
        return None
    left = claim.expires_at - now
    if left > SOON:
        return None
    title = (
        f"{claim.name} ends in {duration(left)}"
        if left > timedelta(0)
        else f"{claim.name} ended {duration(left)} ago"
    )
    sentence = (
        "The claim is deleted then; running pods keep their devices until they finish. "
        "Save your work or extend."
    )
    if left <= timedelta(0):
        sentence = (
            f"Grace period ends in {duration(max(left + claim.profile_version.grace, timedelta(0)))}; "
            "then the portal deletes the claim, and a running pod keeps its devices until it "
            "ends."
        )
    url = page_of(row)
    actions = (NeedAction("Open", url), release(row))
    return Need(f"ends {claim.pk}", "calendar-clock", "wait", title, sentence, url, actions)


def waits_for_pod(row: ClaimRow, now: datetime) -> Need | None:
    claim = row.claim
    if claim.state != ClaimState.PROVISIONED:
        return None
    url = page_of(row)
    return Need(
        f"pod {claim.pk}",
        "cube-plus",
        "you",
        f"{claim.name} waits for a pod",
        (
            f"Written to {claim.cluster.name} {duration(now - claim.state_since)} ago. Start a "
            "pod that uses it; until then nothing is billed."
        ),
        url,
        (NeedAction("Get the manifest", f"{url}#snippets"), release(row)),
    )


def is_idle(row: ClaimRow, now: datetime) -> Need | None:
    seen = row.observation
    if not seen.is_idle or seen.idle_since is None:
        return None
    title = f"{row.claim.name} has been idle for {duration(now - seen.idle_since)}"
    price = row.statement.per_hour
    said = f"Its devices did next to nothing since then (activity now {seen.percent or 0} %)."
    if price.exact:
        said = f"{said} It costs {cost_text(price)} an hour."
    url = page_of(row)
    return Need(
        f"idle {row.claim.pk}", "zzz", "wait", title, said, url, (NeedAction("Open", url), release(row))
    )


def is_undecided(row: ClaimRow, now: datetime) -> Need | None:
    claim = row.claim
    if claim.state != ClaimState.REQUESTED or now - claim.created_at < PATIENCE:
        return None
    title = f"{claim.name} has been waiting for approval for {duration(now - claim.created_at)}"
    sentence = f"Ask a lead of {claim.team.slug}, or withdraw it to free the quota that it reserves."
    if claim.decide_by is not None and claim.decide_by > now:
        left = duration(claim.decide_by - now)
        sentence = f"{sentence} It expires if nobody decides in {left}."
    url = page_of(row)
    withdraw = NeedAction("Withdraw…", reverse("claims:withdraw", args=[claim.pk]))
    return Need(
        f"undecided {claim.pk}",
        "hourglass-high",
        "wait",
        title,
        sentence,
        url,
        (NeedAction("Open", url), withdraw),
    )
