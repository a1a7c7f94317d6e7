"""Who decides on a request: nobody, where a rule says so; else leads of its team, or platform admins."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

from django.db.models import Exists, OuterRef, Q
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from claims.models import Approval, Claim, ClaimQuerySet, ProfileVersion, Quota, Transition
from claims.states import ClaimState
from core.times import duration as in_words
from teams.access import people_in, role_in, teams_where
from teams.models import Role, Team, User

type Tab = Literal["mine", "team", "decided"]
DECISIONS = (ClaimState.APPROVED, ClaimState.DENIED)


@dataclass(frozen=True, slots=True)
class Route:
    """The way of a request to its approval: by a rule at once, or by one of `who`."""

    automatic: bool
    sentence: str
    who: tuple[User, ...] = ()


def rule_for(version: ProfileVersion, *, devices: int, duration: timedelta) -> str:
    """
    Return the sentence of the rule that approves so many devices for so long at once, "" if a person decides.
    """
    if version.approval == Approval.AUTOMATIC:
        return _("%(profile)s v%(number)d needs no approval.") % {
            "profile": version.profile,
            "number": version.number,
        }
    most, longest = version.automatic_devices, version.automatic_duration
    if devices > most or (longest is not None and duration > longest):
        return ""
    values = {"profile": version.profile, "most": most, "number": version.number}
    if longest is None:
        return (
            ngettext(
                "%(profile)s v%(number)d needs no approval for up to %(most)d device.",
                "%(profile)s v%(number)d needs no approval for up to %(most)d devices.",
                most,
            )
            % values
        )
    return ngettext(
        "%(profile)s v%(number)d needs no approval for up to %(most)d device and up to %(longest)s.",
        "%(profile)s v%(number)d needs no approval for up to %(most)d devices and up to %(longest)s.",
        most,
    ) % {**values, "longest": in_words(longest)}


def rule_for_all(asked: Iterable[tuple[ProfileVersion, int]], *, duration: timedelta) -> str:
    """
    Return the rule of the first of several alternatives, each with its devices; "" unless every one has a
    rule.
    """
    rules = [rule_for(version, devices=devices, duration=duration) for version, devices in asked]
    return rules[0] if all(rules) else ""


def route_for(
    *,
    by: User,
    team: Team,
    asked: Sequence[tuple[ProfileVersion, int]],
    duration: timedelta,
    quotas: Iterable[Quota],
) -> Route:
    """Return how a request of `by` would be decided, and by whom; `asked` as in `rule_for_all`."""
    version = asked[0][0]
    rule = rule_for_all(asked, duration=duration)
    if rule:
        return Route(automatic=True, sentence=rule)
    self_approval = any(row.self_approval for row in quotas)
    who = tuple(person for person in deciders(team, version.approval) if self_approval or person != by)
    names = {"names": names_of(who)}
    if version.approval == Approval.ADMIN:
        sentence = (
            _("A platform admin decides: %(names)s.") if who else _("No platform admin can decide on this.")
        )
    else:
        names["team"] = str(team)
        sentence = (
            _("A lead of %(team)s decides: %(names)s.")
            if who
            else _("No lead of %(team)s can decide on this.")
        )
    return Route(automatic=False, sentence=sentence % names, who=who)


def deciders(team: Team, approval: str) -> list[User]:
    """
    Return the people who decide on requests of `team` under this rule; leads stand in for an automatic one.
    """
    if approval == Approval.ADMIN:
        return list(User.objects.filter(is_active=True, is_superuser=True).order_by("username"))
    return people_in(team, at_least=Role.LEAD)


def names_of(people: Iterable[User]) -> str:
    """Return "Aylin or Noor"; of many the first three and how many more."""
    labels = [person.label for person in people]
    if len(labels) > 3:
        return _("%(names)s or %(count)d more") % {"names": ", ".join(labels[:3]), "count": len(labels) - 3}
    return _(" or ").join(labels)


def reason_not_to_decide(user: User, claim: Claim) -> str:
    """
    Return why `user` may not decide on `claim`, "" if they may. What state it is in does not matter here.
    """
    version = claim.profile_version
    if version.approval == Approval.ADMIN and not user.is_superuser:
        return _("Only a platform admin decides on requests for %(profile)s.") % {"profile": version.profile}
    role = role_in(user, claim.team)
    if role is None or role.rank < Role.LEAD.rank:
        return _("Only a lead of %(team)s decides on its requests; you are %(role)s.") % {
            "team": claim.team,
            "role": role.label if role else _("not a member"),
        }
    if user.pk == claim.requested_by_id and not allows_self_approval(claim):
        return _("This is your own request; somebody else has to decide on it.")
    return ""


def may_decide(user: User, claim: Claim) -> bool:
    return not reason_not_to_decide(user, claim)


def allows_self_approval(claim: Claim) -> bool:
    """Tell whether a quota that the claim counts against lets a lead approve their own requests."""
    classes = claim.charges.values_list("device_class", flat=True)
    profiles = [claim.profile_version.profile]
    rows = Quota.objects.charged(team=claim.team, classes=classes, profiles=profiles)
    return rows.filter(self_approval=True).exists()


def decision_on(claim: Claim) -> Transition | None:
    """Return the step by which the claim last stopped waiting, None if it has always waited."""
    left = claim.history.filter(old=ClaimState.REQUESTED).select_related("by")
    return left.order_by("-at", "-pk").first()


def inbox(user: User, tab: Tab = "mine") -> ClaimQuerySet:
    """
    Return the requests of a tab: `mine` waits for this person, `team` for anybody, `decided` is over; oldest
    first.

    Somebody who may decide on nothing finds their own teams' requests under `team`.
    """
    visible = Claim.objects.visible_to(user)
    if tab == "decided":
        return visible.filter(decided_at__isnull=False).order_by("-decided_at")
    waiting = visible.filter(state=ClaimState.REQUESTED).order_by("created_at", "id")
    return waiting.filter(_decided_by(user)) if tab == "mine" else waiting


def waiting_count(user: User) -> int:
    """Return how many requests wait for this person: the number beside Approvals."""
    return inbox(user, "mine").count()


def _decided_by(user: User) -> Q:
    led = Q() if user.is_superuser else Q(team__in=teams_where(user, at_least=Role.LEAD))
    rule = Q() if user.is_superuser else ~Q(profile_version__approval=Approval.ADMIN)
    return led & rule & (~Q(requested_by=user) | Q(pk__in=_under_self_approval()))


def _under_self_approval() -> ClaimQuerySet:
    """Ids of waiting claims that count against a quota with self-approval."""
    classes = Quota.objects.filter(
        self_approval=True, team=OuterRef("team"), device_class=OuterRef("charges__device_class")
    )
    profile = Quota.objects.filter(
        self_approval=True, team=OuterRef("team"), profile=OuterRef("profile_version__profile")
    )
    waiting = Claim.objects.filter(state=ClaimState.REQUESTED)
    return waiting.filter(Exists(classes) | Exists(profile))
