"""What every page shows around itself: who is asking, their teams, counts, and the age of the data."""

from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from typing import Any, cast

from django.contrib.auth.models import AnonymousUser
from django.http import HttpRequest
from django.urls import reverse

from claims.inbox.inbox import pending_since
from claims.models import Claim
from inventory.freshness import OF_DEVICES, Age, ages
from notify.services import unread_count
from teams.models import Membership, Role, Team, User

TEAM_COOKIE = "team"
THEME_COOKIE = "theme"


@dataclass(frozen=True)
class NavItem:
    """A line of the sidebar."""

    label: str
    icon: str
    url: str
    is_current: bool = False
    count: int = 0
    due: bool = False  # the count is work that waits for the reader


@dataclass(frozen=True)
class Section:
    title: str
    items: list[NavItem]


@dataclass(frozen=True)
class Nav:
    main: list[NavItem]
    sections: list[Section]
    foot: list[NavItem]


class Shell:
    """Everything is read when a template asks for it and once: a fragment without a frame costs no query."""

    def __init__(self, request: HttpRequest) -> None:
        self.request = request
        self.user: User | AnonymousUser = cast(User, getattr(request, "user", None)) or AnonymousUser()

    @classmethod
    def of(cls, request: HttpRequest) -> "Shell":
        """Return the one of this request: view and templates read together what takes a while to find."""
        known: Shell | None = getattr(request, "shell", None)
        if known is None:
            known = cls(request)
            request.shell = known  # type: ignore[attr-defined]
        return known

    @property
    def frame(self) -> str:
        """The template around an error page, which strangers see too."""
        return "base.html" if self.user.is_authenticated else "plain.html"

    @property
    def is_admin(self) -> bool:
        return self.user.is_authenticated and self.user.is_superuser

    @cached_property
    def theme(self) -> str:
        """ "light", "dark" or "system"; the cookie of this browser goes before the choice of the person."""
        chosen = self.request.COOKIES.get(THEME_COOKIE, "")
        if chosen in User.Theme.values:
            return chosen
        return self.user.theme if isinstance(self.user, User) else User.Theme.SYSTEM

    @cached_property
    def roles(self) -> dict[Team, Role]:
        """Teams of the reader with the role in each; every team, as owner, for a platform admin."""
        if not self.user.is_authenticated:
            return {}
        if self.is_admin:
            return dict.fromkeys(Team.objects.all(), Role.OWNER)
        mine = Membership.objects.filter(user=self.user).select_related("team").order_by("team__slug")
        return {membership.team: Role(membership.role) for membership in mine}

    @property
    def teams(self) -> list[Team]:
        return list(self.roles)

    @cached_property
    def team(self) -> Team | None:
        """The current team: of the address, of the cookie, else the first; None is all teams."""
        asked = (self.request.GET.get("team"), self.request.COOKIES.get(TEAM_COOKIE))
        by_slug = {team.slug: team for team in self.roles}
        for slug in asked:
            if slug in by_slug:
                return by_slug[slug]
        return None if self.is_admin else next(iter(self.roles), None)

    @property
    def team_label(self) -> str:
        return self.team.title if self.team else "All teams"

    @property
    def role_label(self) -> str:
        if self.is_admin:
            return "platform admin"
        if self.team is None:
            return "in no team"
        role = self.roles[self.team].label
        return f"{self.team.slug} · {role}"

    @cached_property
    def freshness(self) -> list[Age]:
        """Per cluster the age of what devices are read from: what it refuses besides makes nothing stale."""
        return ages(OF_DEVICES)

    @property
    def is_stale(self) -> bool:
        return any(age.is_stale for age in self.freshness)

    @cached_property
    def nav(self) -> Nav:
        return navigation(self)

    @cached_property
    def unread(self) -> int:
        """How many notices the reader has not read."""
        return unread_count(self.user) if isinstance(self.user, User) else 0

    def live_claims(self) -> int:
        """How many claims that are not over the reader has in sight: their own, all of them for an admin."""
        live = Claim.objects.live()
        return (live if self.is_admin else live.filter(requested_by=self.user.pk)).count()

    @cached_property
    def undecided(self) -> list[datetime]:
        """Since when each request waits that the reader has to decide on, oldest first: their inbox."""
        return pending_since(self.user) if isinstance(self.user, User) else []


def navigation(shell: Shell) -> Nav:
    """Return the sidebar of the reader's role, with the open page marked."""
    if not shell.user.is_authenticated:
        return Nav([], [], [])
    sections = []
    if shell.team:
        sections.append(Section(shell.team.title, of_team(shell.team)))
    if shell.is_admin:
        sections.append(Section("Platform", platform(has_team=shell.team is not None)))
    else:
        sections.append(Section("Infrastructure", fleet()[:1]))
    foot = [NavItem("API tokens", "key", reverse("teams:tokens")), NavItem("Help", "help", reverse("help"))]
    nav = Nav(main(shell), sections, foot)
    every = [*nav.main, *(item for section in sections for item in section.items), *nav.foot]
    current = current_url(every, shell.request.path)

    def shown(items: list[NavItem]) -> list[NavItem]:
        return [replace(item, is_current=item.url == current) for item in items]

    marked = [Section(section.title, shown(section.items)) for section in sections]
    return Nav(shown(nav.main), marked, shown(nav.foot))


def main(shell: Shell) -> list[NavItem]:
    items = [
        NavItem("Home", "home", reverse("home")),
        NavItem("Claims", "stack-2", reverse("claims:list"), count=shell.live_claims()),
        NavItem("Catalogue", "layout-grid", reverse("claims:catalogue")),
    ]
    waiting = len(shell.undecided)  # a member decides too while they stand in for a lead
    if waiting or shell.is_admin or any(role.rank >= Role.LEAD.rank for role in shell.roles.values()):
        items.append(NavItem("Approvals", "checks", reverse("claims:approvals"), count=waiting, due=True))
    return items


def of_team(team: Team) -> list[NavItem]:
    return [
        NavItem("Quota", "gauge", reverse("claims:quotas")),
        NavItem("Cost", "coin-euro", reverse("usage:team", args=[team.slug])),
        NavItem("People", "users", reverse("teams:people", args=[team.slug])),
    ]


def fleet() -> list[NavItem]:
    return [
        NavItem("Fleet", "server-2", reverse("inventory:fleet")),
        NavItem("Clusters", "sitemap", reverse("inventory:clusters")),
        NavItem("Devices", "cpu", reverse("inventory:devices")),
        NavItem("Nodes", "server", reverse("inventory:nodes")),
    ]


def platform(*, has_team: bool) -> list[NavItem]:
    quota = [] if has_team else [NavItem("Quota", "gauge", reverse("claims:quotas"))]
    return [
        *fleet(),
        *quota,
        NavItem("Profiles", "template", reverse("claims:profiles")),
        NavItem("Rates", "receipt-euro", reverse("usage:rates")),
        NavItem("Teams", "users-group", reverse("teams:list")),
        NavItem("Admin", "shield", reverse("admin:index")),
    ]


def current_url(items: list[NavItem], path: str) -> str:
    """Return the address of the item that `path` lies below; the longest one wins, "/" is only itself."""
    above = [
        item.url for item in items if path == item.url or (item.url != "/" and path.startswith(item.url))
    ]
    return max(above, key=len, default="")


def shell(request: HttpRequest) -> dict[str, Any]:
    return {"shell": Shell.of(request)}
