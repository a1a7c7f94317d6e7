"""What needs the reader, most urgent first: a fact with its numbers, and the actions for it."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from django.urls import reverse
from django.utils.text import Truncator

from claims.catalogue.lint import catalogue_report
from claims.delivery.eviction import pods_after_end
from claims.models import Claim
from claims.states import USABLE, ClaimState
from cluster.checkup import RENEWAL
from core.text import counted
from core.times import duration, relative
from dra.lint import Severity
from inventory.states import DeviceUse, EndPolicy
from portal.context import Shell
from portal.home.admin import Platform
from portal.home.parts import MyClaims, OwnClaim
from usage import overstay
from usage.cost import cost_text

EXPIRES_SOON = timedelta(hours=24)  # a claim of four days or longer that expires within a day
SOON_SHARE = 4  # a shorter claim, within a quarter of its duration
LONG_WAIT = timedelta(hours=4)  # a request that waits for longer is shown


@dataclass(frozen=True, slots=True)
class NeedAction:
    label: str
    url: str
    posts: bool = False  # a button that acts at once


@dataclass(frozen=True, slots=True)
class Need:
    """
    `family` is the color family of claims.states; `key` identifies the need in an entity tag. `left` is the
    time left relative to the whole, by which needs are sorted: negative if the time is over.
    """

    key: str
    icon: str
    family: str
    title: str
    sentence: str
    url: str
    actions: tuple[NeedAction, ...]
    left: float = 1.0


def needs(shell: Shell, held: MyClaims, platform: Platform | None, *, now: datetime) -> list[Need]:
    """
    Return the inbox, or for platform admins stale clusters, credentials that expire soon, the catalogue check
    and idle devices; then one need per claim of the reader: problems, then the least time left relative to
    the duration.

    Platform admins see the requests of all teams beside their needs.
    """
    shown: dict[UUID, Need] = {}  # one need per claim, the most urgent
    for need_for in (
        problem_need,
        overstay_need,
        expiry_need,
        question_need,
        pod_need,
        idle_need,
        pending_need,
    ):
        for row in held.rows:
            if row.claim.pk not in shown and (need := need_for(row, now)) is not None:
                shown[row.claim.pk] = need
    by_urgency = sorted(shown.values(), key=lambda need: need.left)
    if platform is not None:
        of_clusters = (*stale_needs(shell), *credential_needs(shell, now))
        return [*of_clusters, *catalogue_needs(), *idle_needs(platform), *by_urgency]
    return [*inbox_needs(shell, now=now), *by_urgency]


def expires_soon(duration: timedelta) -> timedelta:
    """Return how long before its expiry a claim of this duration is shown."""
    return min(EXPIRES_SOON, duration / SOON_SHARE)


def time_left(claim: Claim, now: datetime) -> float:
    """Return the time that a claim, or a request for it, has left, relative to the whole."""
    if claim.state == ClaimState.REQUESTED:
        end, whole = claim.decide_by, claim.decide_by and claim.decide_by - claim.created_at
    else:
        end, whole = claim.expires_at, claim.duration
    return (end - now) / whole if end and whole else 1.0


def inbox_needs(shell: Shell, *, now: datetime) -> Iterator[Need]:
    """Yield the inbox as one need: the number of requests and the age of the oldest."""
    undecided = shell.undecided
    if undecided.oldest is None:
        return
    age = duration(now - undecided.oldest)
    url = reverse("claims:approvals")
    yield Need(
        f"inbox {undecided.count} {undecided.oldest}",
        "checks",
        "wait",
        f"{counted(undecided.count, 'request waits', 'requests wait')} for your decision",
        f"The oldest has waited for {age}. It keeps its quota reserved until it is decided.",
        url,
        (NeedAction("Decide", url),),
    )


def stale_needs(shell: Shell) -> Iterator[Need]:
    """Yield each stale cluster, with the age of its mirror."""
    for age in shell.freshness:
        if not age.is_stale:
            continue
        name = age.cluster.name
        url = reverse("inventory:cluster", args=[name])
        title, sentence = f"{name} has not been read yet", "Its devices are not counted."
        if age.seen_at is not None:
            title = f"{name} was last synced {relative(age.seen_at)}"
            sentence = "Its devices and claims are shown as of then."
        yield Need(
            f"stale {name} {age.seen_at}",
            "clock-exclamation",
            "wait",
            title,
            f"{age.why} {sentence}".strip(),
            url,
            (NeedAction("Check cluster", url),),
        )


def credential_needs(shell: Shell, now: datetime) -> Iterator[Need]:
    """Yield each cluster whose credentials expire soon."""
    for age in shell.freshness:
        name, expires_at = age.cluster.name, age.cluster.credentials_expire_at
        if expires_at is None or expires_at > now + RENEWAL:
            continue
        url = reverse("setup:cluster_credentials", args=[name])
        title = f"The credentials of {name} expire {relative(expires_at)}"
        if expires_at <= now:
            title = f"The credentials of {name} expired {relative(expires_at)}"
        sentence = "Without new ones its devices and claims are shown as of then, and no request reaches it."
        key, action = f"credentials {name} {expires_at}", NeedAction("Replace credentials", url)
        yield Need(key, "key", "wait", title, sentence, url, (action,))


def idle_needs(platform: Platform) -> Iterator[Need]:
    """Yield the idle devices of all teams as one need, with what they cost per hour."""
    if not platform.idle:
        return
    cost = platform.idle_cost
    url = f"{reverse('inventory:devices')}?state={DeviceUse.IDLE}"
    title = f"{counted(platform.idle, 'device is idle', 'devices are idle')}"
    if cost.exact:
        title += f" and {'costs' if platform.idle == 1 else 'cost'} {cost_text(cost)} per hour"
    sentence = "Held, and below the idle limits of their profiles."
    if cost.unpriced_held:
        sentence += f" {cost.unpriced.normalize():f} of them have no rate."
    action = NeedAction("Show idle devices", url)
    yield Need(f"idle {platform.idle} {cost.amounts}", "zzz", "wait", title, sentence, url, (action,))


def catalogue_needs() -> Iterator[Need]:
    """Yield the findings of the catalogue check as one need of a platform admin."""
    findings = catalogue_report().due
    if not findings:
        return
    names = list(dict.fromkeys(finding.name for finding in findings))
    first = findings[0]
    url = reverse("claims:lint")
    yield Need(
        f"lint {' '.join(finding.key for finding in findings)}",
        "alert-circle" if first.severity is Severity.ERROR else "alert-triangle",
        "bad" if first.severity is Severity.ERROR else "wait",
        f"{counted(len(names), 'profile needs', 'profiles need')} fixing",
        f"{first.name}: {first.messages[0].message}",
        url,
        (NeedAction("Show findings", url),),
    )


def claim_url(row: OwnClaim) -> str:
    return reverse("claims:detail", args=[row.claim.pk])


def release_action(row: OwnClaim) -> NeedAction:
    return NeedAction("Release…", reverse("claims:release", args=[row.claim.pk]))


def problem_need(row: OwnClaim, now: datetime) -> Need | None:
    """Return a problem that the cluster or the reconciliation reports about the claim."""
    if not row.claim.problem or row.claim.is_final:
        return None
    head, _, rest = row.claim.problem.partition(". ")
    named = row.claim.name in head and rest
    title, text = (head, rest) if named else (f"{row.claim.name} has a problem", row.claim.problem)
    url = claim_url(row)
    open_it = (NeedAction("Open", url),)
    return Need(
        f"problem {row.claim.pk}",
        "alert-triangle",
        "bad",
        title,
        text,
        url,
        open_it,
        left=float("-inf"),
    )


def overstay_need(row: OwnClaim, now: datetime) -> Need | None:
    """Return an ended claim whose pods still hold devices."""
    claim, held = row.claim, sum(allocation.ended_at is None for allocation in row.held)
    if claim.state != ClaimState.RELEASING or not held or now - claim.state_since < overstay.AFTER:
        return None
    policy, url = claim.end_policy, claim_url(row)
    actions = [NeedAction("Open", url)]
    if policy == EndPolicy.ASK:
        actions.insert(0, NeedAction("Evict…", reverse("claims:evict", args=[claim.pk])))
    evicts = claim.evict_at is not None and policy != EndPolicy.RUN
    then = "The portal evicts its pods." if evicts else "End its pods when their work is done."
    return Need(
        f"overstay {claim.pk} {claim.evict_at}",
        "clock-exclamation",
        "wait",
        f"{claim.name} ended {duration(now - claim.state_since)} ago and still holds "
        f"{counted(held, 'device')}",
        f"{counted(held, 'device is', 'devices are')} billed until its pods have ended. {then}",
        url,
        tuple(actions),
        left=-1.0,
    )


def expiry_need(row: OwnClaim, now: datetime) -> Need | None:
    claim = row.claim
    if claim.state not in USABLE or claim.expires_at is None:
        return None
    left = claim.expires_at - now
    if left > expires_soon(claim.duration):
        return None
    title = (
        f"{claim.name} expires in {duration(left)}"
        if left > timedelta(0)
        else f"{claim.name} expired {duration(left)} ago"
    )
    pods = pods_after_end(claim.end_policy)
    sentence = f"The claim is deleted then; {pods}"
    if left <= timedelta(0):
        grace = duration(max(left + claim.profile_version.grace, timedelta(0)))
        sentence = f"The claim is deleted in {grace}, at the end of its grace period; {pods}"
    url = claim_url(row)
    extend = NeedAction("Extend…", reverse("claims:extend", args=[claim.pk]))
    return Need(
        f"ends {claim.pk}",
        "calendar-clock",
        "wait",
        title,
        sentence,
        url,
        (extend, release_action(row)),
        time_left(claim, now),
    )


def question_need(row: OwnClaim, now: datetime) -> Need | None:
    """Return the question of an approver that waits for the reader's answer."""
    claim = row.claim
    if not row.question or claim.state != ClaimState.REQUESTED:
        return None
    url = claim_url(row)
    return Need(
        f"question {claim.pk} {row.question}",
        "message",
        "you",
        f"{claim.name}: an approver has a question",
        Truncator(row.question).chars(200),
        url,
        (NeedAction("Answer", f"{url}#thread"),),
        min(0.0, time_left(claim, now)),
    )


def pod_need(row: OwnClaim, now: datetime) -> Need | None:
    claim = row.claim
    if claim.state != ClaimState.PROVISIONED:
        return None
    url = claim_url(row)
    if row.pod is not None:
        since = row.pod.created_at
        return Need(
            f"pending {claim.pk} {row.pod.name}",
            "hourglass-high",
            "wait",
            f"{claim.name} waits for a device",
            f"Its pod {row.pod.name} has been pending{f' for {duration(now - since)}' if since else ''}; "
            "the page says what it waits for. Nothing is billed until it runs.",
            url,
            (NeedAction("Open", url), release_action(row)),
            time_left(claim, now),
        )
    return Need(
        f"pod {claim.pk}",
        "cube-plus",
        "you",
        f"{claim.name} waits for a pod",
        (
            f"Created in {claim.cluster.name} {duration(now - claim.state_since)} ago. Start a "
            "pod that uses it; nothing is billed until then."
        ),
        url,
        (NeedAction("Get the manifest", f"{url}#snippets"), release_action(row)),
        time_left(claim, now),
    )


def idle_need(row: OwnClaim, now: datetime) -> Need | None:
    utilization = row.utilization
    if not utilization.is_idle or utilization.idle_since is None or row.is_snoozed:
        return None
    title = f"{row.claim.name} has been idle for {duration(now - utilization.idle_since)}"
    price = row.cost.per_hour
    sentence = (
        f"Its devices have done almost nothing since then (utilization now {utilization.percent or 0} %)."
    )
    if price.exact:
        sentence = f"{sentence} It costs {cost_text(price)} per hour."
    actions = [release_action(row)]
    if row.snooze_for is not None:
        snooze = reverse("usage:snooze", args=[row.claim.pk])
        actions.append(NeedAction(f"Snooze for {duration(row.snooze_for)}", snooze, posts=True))
    return Need(
        f"idle {row.claim.pk}",
        "zzz",
        "wait",
        title,
        sentence,
        claim_url(row),
        tuple(actions),
        time_left(row.claim, now),
    )


def pending_need(row: OwnClaim, now: datetime) -> Need | None:
    claim = row.claim
    if claim.state != ClaimState.REQUESTED or now - claim.created_at < LONG_WAIT:
        return None
    title = f"{claim.name} has been waiting for approval for {duration(now - claim.created_at)}"
    sentence = f"It reserves quota until a lead of {claim.team.slug} decides."
    if claim.decide_by is not None and claim.decide_by > now:
        sentence = f"{sentence} It expires in {duration(claim.decide_by - now)}."
    url = claim_url(row)
    withdraw = NeedAction("Withdraw…", reverse("claims:withdraw", args=[claim.pk]))
    return Need(
        f"undecided {claim.pk}",
        "hourglass-high",
        "wait",
        title,
        sentence,
        url,
        (NeedAction("Open", url), withdraw),
        time_left(claim, now),
    )
