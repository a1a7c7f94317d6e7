"""The frame of every page: reader, teams, navigation, counts, and the age of the data."""

import re
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache, cached_property
from itertools import chain
from typing import Any, cast
from uuid import UUID

from django.contrib.auth.models import AnonymousUser
from django.core.validators import slug_re
from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone

from claims.approvals.pending import Backlog, waiting_for
from claims.models import Claim
from core.models import Installation
from core.prepared import Prepared, Statement
from inventory.freshness import Age, ages_for, ages_statement, keep_ages
from notify.services import unread_notices
from portal.help.places import HelpLink, help_of
from teams.access import reader_roles
from teams.models import Role, Team, User
from teams.sessions import installation_for

TEAM_COOKIE = "team"
THEME_COOKIE = "theme"
MAX_COUNT = 999  # counted for each page: of more, the sidebar says "999+"


@dataclass(frozen=True)
class NavItem:
    """A line of the sidebar."""

    label: str
    icon: str
    url: str
    is_current: bool = False
    count: int = 0
    due: bool = False  # the count is work for the reader
    elsewhere: str = ""  # a pattern of addresses of its pages that do not begin with `url`

    @property
    def count_text(self) -> str:
        return f"{MAX_COUNT}+" if self.count > MAX_COUNT else str(self.count)


@dataclass(frozen=True)
class Section:
    title: str
    items: list[NavItem]


@dataclass(frozen=True)
class Nav:
    main: list[NavItem]
    sections: list[Section]
    foot: list[NavItem]


ANY_TEAM = Prepared(lambda: Team.objects.order_by().values_list("pk")[:1])
NO_BACKLOG = Backlog()


@dataclass(frozen=True)
class Counts:
    """
    What the frame counts: live claims (the reader's own, all for a platform admin; one more than MAX_COUNT
    stands for any greater number), requests to decide on, and unread notices.
    """

    live: int = 0
    undecided: Backlog = NO_BACKLOG
    unread: int = 0


@cache
def counts_query(*, is_admin: bool) -> Prepared:
    """Return the query of `Counts`, for a person at a time."""

    return Prepared(lambda person, now: counts_statement(person, now, is_admin=is_admin), UUID, datetime)


def counts_statement(person: UUID, now: datetime, *, is_admin: bool) -> Statement:
    """Return the SQL of the fields of `Counts`, those of `undecided` last, and the ages, in one row."""
    reader = User(pk=person, is_superuser=is_admin)
    live = Claim.objects.live() if is_admin else Claim.objects.live().filter(requested_by=reader)
    undecided = waiting_for(reader, now=now).order_by().values("requested_at")
    parts = [
        live.order_by().values("pk")[: MAX_COUNT + 1].query.sql_with_params(),
        unread_notices(reader).order_by().values("pk").query.sql_with_params(),
        ages_statement(),
        undecided.query.sql_with_params(),
    ]
    sql = """SELECT (SELECT COUNT(*) FROM ({}) live), (SELECT COUNT(*) FROM ({}) unread), ({}),
             COUNT(*), MIN(requested_at) FROM ({}) undecided"""
    return sql.format(*(text for text, values in parts)), tuple(chain(*(values for text, values in parts)))


def counts_for(request: HttpRequest, user: User) -> Counts:
    """Return the counts of the frame, in one query, which reads the ages of devices too."""
    query = counts_query(is_admin=user.is_superuser)
    ((live, unread, read, count, oldest),) = query.rows(user.pk, timezone.now())
    keep_ages(request, read)
    return Counts(live, Backlog(count, oldest), unread)


class Shell:
    """The context of the frame. Each value is read once, when a template uses it; a fragment reads none."""

    def __init__(self, request: HttpRequest) -> None:
        self.request = request
        self.user: User | AnonymousUser = cast(User, getattr(request, "user", None)) or AnonymousUser()

    @classmethod
    def of(cls, request: HttpRequest) -> "Shell":
        """Return the shell of this request, which view and templates share."""
        shell: Shell | None = getattr(request, "shell", None)
        if shell is None:
            shell = cls(request)
            request.shell = shell  # type: ignore[attr-defined]
        return shell

    @property
    def frame(self) -> str:
        """Return the base template of an error page, which people who are not signed in see too."""
        return "base.html" if self.user.is_authenticated else "plain.html"

    @property
    def is_admin(self) -> bool:
        return self.user.is_authenticated and self.user.is_superuser

    @cached_property
    def theme(self) -> str:
        """Return "light", "dark" or "system": the cookie of this browser, else the user's setting."""
        chosen = self.request.COOKIES.get(THEME_COOKIE, "")
        if chosen in User.Theme.values:
            return chosen
        return self.user.theme if isinstance(self.user, User) else User.Theme.SYSTEM

    @cached_property
    def installation(self) -> Installation:
        """Return name and logo of the portal; for strangers at an unknown address the defaults, unread."""
        is_page = self.request.resolver_match is not None
        return installation_for(self.request) if is_page or self.user.is_authenticated else Installation()

    @property
    def roles(self) -> dict[Team, Role]:
        """Return the teams that the reader is a member of, with their role in each."""
        return reader_roles(self.request)

    def has_role(self, at_least: Role) -> bool:
        """Return whether the reader has at least this role in some team; a platform admin has it in each."""
        if self.is_admin:
            return bool(ANY_TEAM.rows())
        return any(role.rank >= at_least.rank for role in self.roles.values())

    @cached_property
    def team(self) -> Team | None:
        """
        Return the current team: from the cookie, else the first; None is all teams. A filter in the address
        changes no link of the frame.
        """
        slugs = [text for text in [self.request.COOKIES.get(TEAM_COOKIE, "")] if slug_re.match(text)]
        if self.is_admin:  # one or two of all teams, which may be many hundreds
            teams = list(Team.objects.filter(slug__in=slugs)) if slugs else []
        else:
            teams = list(self.roles)
        by_slug = {team.slug: team for team in teams}
        chosen = next((by_slug[slug] for slug in slugs if slug in by_slug), None)
        return chosen if chosen or self.is_admin else next(iter(teams), None)

    @property
    def team_label(self) -> str:
        return self.team.title if self.team else "All teams"

    @property
    def role_label(self) -> str:
        if self.is_admin:
            return "Platform admin"
        if self.team is None:
            return "In no team"
        role = self.roles[self.team].label
        return f"{self.team.slug} · {role}"

    @cached_property
    def freshness(self) -> list[Age]:
        """Return for each cluster the age of the resources from which devices are read."""
        return ages_for(self.request)

    @property
    def is_stale(self) -> bool:
        return any(age.is_stale for age in self.freshness)

    @property
    def help(self) -> HelpLink:
        """Return what the help says of this page."""
        return help_of(self.request)

    @cached_property
    def nav(self) -> Nav:
        return navigation(self)

    @cached_property
    def counts(self) -> Counts:
        return counts_for(self.request, self.user) if isinstance(self.user, User) else Counts()

    @property
    def undecided(self) -> Backlog:
        """The requests that the reader has to decide on: their number, and the time of the oldest."""
        return self.counts.undecided


def navigation(shell: Shell) -> Nav:
    """Return the sidebar of the reader's role, with the open page marked."""
    if not shell.user.is_authenticated:
        return Nav([], [], [])
    sections = []
    if shell.team:
        own = [] if shell.is_admin else [*money_items(shell), *watch_items()]
        sections.append(Section(shell.team.title, [*team_items(shell.team), *own]))
    if shell.is_admin:
        sections.append(Section("Platform", platform_items(has_team=shell.team is not None)))
        sections.append(Section("Money", money_items(shell)))
    else:
        sections.append(Section("Infrastructure", fleet_items()[:1]))
    foot = [NavItem("API tokens", "key", reverse("teams:tokens")), NavItem("Help", "help", reverse("help"))]
    nav = Nav(main_items(shell), sections, foot)
    all_items = [*nav.main, *(item for section in sections for item in section.items), *nav.foot]
    current = current_url(all_items, shell.request.path)

    def marked(items: list[NavItem]) -> list[NavItem]:
        return [replace(item, is_current=item.url == current) for item in items]

    sections = [Section(section.title, marked(section.items)) for section in sections]
    return Nav(marked(nav.main), sections, marked(nav.foot))


def main_items(shell: Shell) -> list[NavItem]:
    items = [
        NavItem("Home", "home", reverse("home")),
        NavItem("Claims", "stack-2", reverse("claims:list"), count=shell.counts.live),
        NavItem("Catalogue", "layout-grid", reverse("claims:catalogue")),
    ]
    waiting = shell.undecided.count  # a delegate decides too
    if waiting or shell.is_admin or shell.has_role(Role.LEAD):
        items.append(NavItem("Approvals", "checks", reverse("claims:approvals"), count=waiting, due=True))
    return items


def team_items(team: Team) -> list[NavItem]:
    return [
        NavItem("Team", "users", reverse("team", args=[team.slug])),
        NavItem("Quota", "gauge", reverse("claims:quotas")),
        NavItem("Cost", "coin-euro", reverse("usage:team", args=[team.slug])),
        NavItem("Activity", "history", reverse("activity:team", args=[team.slug])),
    ]


def watch_items() -> list[NavItem]:
    """Return what asks somebody to look."""
    return [NavItem("Alerts", "bell-ringing", reverse("usage:alerts"))]


def fleet_items() -> list[NavItem]:
    return [
        NavItem("Fleet", "server-2", reverse("inventory:fleet")),
        NavItem("Clusters", "sitemap", reverse("inventory:clusters")),
        NavItem("Devices", "cpu", reverse("inventory:devices")),
        NavItem("Nodes", "server", reverse("inventory:nodes"), elsewhere=r"/clusters/[^/]+/nodes/"),
    ]


def money_items(shell: Shell) -> list[NavItem]:
    """Return the pages of money over several teams that the reader may open."""
    waste = NavItem("Waste", "zzz", reverse("usage:waste"))
    report = NavItem("Report", "report-money", reverse("usage:report"))
    if not shell.is_admin:
        return [report, waste] if shell.has_role(Role.LEAD) else [waste]
    return [
        report,
        waste,
        NavItem("Budgets", "target", reverse("claims:budgets")),
        NavItem("Rates", "receipt-euro", reverse("usage:rates")),
    ]


def platform_items(*, has_team: bool) -> list[NavItem]:
    quota = [] if has_team else [NavItem("Quota", "gauge", reverse("claims:quotas"))]
    return [
        *fleet_items(),
        *quota,
        NavItem("Profiles", "template", reverse("claims:profiles")),
        NavItem("Approval rules", "route", reverse("claims:approval_rules")),
        *watch_items(),
        NavItem("Teams", "users-group", reverse("setup:teams")),
        NavItem("People", "user-cog", reverse("setup:people")),
        NavItem("Activity", "history", reverse("activity:platform")),
        NavItem("Audit log", "shield-check", reverse("audit:log")),
        NavItem("Settings", "settings", reverse("setup:settings")),
    ]


def current_url(items: list[NavItem], path: str) -> str:
    """Return the longest item address that is a prefix of `path`, or of an item whose pages it is among."""
    for item in items:
        if item.elsewhere and re.match(item.elsewhere, path):
            return item.url
    above = [
        item.url for item in items if path == item.url or (item.url != "/" and path.startswith(item.url))
    ]
    return max(above, key=len, default="")


def shell(request: HttpRequest) -> dict[str, Any]:
    return {"shell": Shell.of(request)}
