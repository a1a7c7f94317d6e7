"""
The search over what a reader may see: the page /search/, and the palette of each page (Ctrl K or "/").

Each kind of result has one function, which reads at most one row more than it counts (`MAX_COUNT`), and makes
results of those that are shown. "#" before the words restricts the search to claims, "@" to people and
teams, ">" to actions.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import islice
from operator import and_
from typing import Any, NamedTuple

from django.db.models import OuterRef, Prefetch, Q, QuerySet, Subquery, Sum, prefetch_related_objects
from django.db.models.functions import Coalesce, Now
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.http import urlencode
from django.views.decorators.http import require_safe

from claims.access import may_request
from claims.models import Claim, ClaimQuerySet, Profile, ProfileAvailability
from claims.states import LOOK, RUNNING, ClaimState
from core.filters import TRIGRAM, has_text_by_index
from core.text import counted
from dra.devices import model_name
from inventory.counts import device_groups, fleet_counts
from inventory.device_search import device_has_text
from inventory.models import Cluster, Device, Node
from inventory.states import DeviceState
from portal.context import Shell
from portal.help.pages import contents
from teams.access import user_of
from teams.models import Membership, Role, Team, User

SHOWN, SHOWN_OF_KIND = 4, 30  # results per kind, with all kinds and with one of them
MAX_COUNT = 99  # results of a kind that are counted: of more, it says "99+"
MAX_WORDS, MAX_TEXT = 5, 100
CLAIM_TEXTS = ("name", "reason")
NEWEST = 2000  # claims of all teams that are compared first; only there are one or two characters found
PREFIXES = {"#": "claims", "@": "people", ">": "actions"}
UUID_PART = re.compile(r"(gpu|mig)-[0-9a-f]{4,}", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class SearchResult:
    """A link; `state` is that of a claim, `aside` stands at the end of the line."""

    title: str
    detail: str
    icon: str
    url: str
    aside: str = ""
    state: ClaimState | None = None

    @property
    def badge(self) -> tuple[str, str, str] | None:
        """Color family, icon and label of the state."""
        return (*LOOK[self.state], self.state.label) if self.state else None


@dataclass(frozen=True, slots=True)
class Found:
    """The first results of a kind, and how many there are; `is_least` if not all were looked at."""

    rows: list[SearchResult]
    number: int
    is_least: bool = False

    @classmethod
    def of[T](
        cls, found: Iterable[T], limit: int, result: Callable[[T], SearchResult], *, is_least: bool = False
    ) -> Found:
        """Count at most one more than MAX_COUNT, and make results of the first `limit`."""
        counted = list(islice(found, MAX_COUNT + 1))
        return cls([result(one) for one in counted[:limit]], len(counted), is_least)

    @property
    def count(self) -> str:
        if self.number > MAX_COUNT:
            return f"{MAX_COUNT}+"
        return f"{self.number}+" if self.is_least else str(self.number)

    @property
    def has_more(self) -> bool:
        return self.is_least or self.number > len(self.rows)


@dataclass(frozen=True, slots=True)
class ResultGroup:
    """The shown results of a kind of `count`; `more` is the address of all if there are more, else ""."""

    key: str
    label: str
    rows: list[SearchResult]
    count: str
    more: str = ""


@dataclass(frozen=True, slots=True)
class SearchText:
    """What was typed: words in lower case, and the kind that a prefix restricts it to, "" for all."""

    words: tuple[str, ...]
    kind: str = ""

    @classmethod
    def parse(cls, text: str) -> SearchText:
        text = text.strip()[:MAX_TEXT]
        kind = PREFIXES.get(text[:1], "")
        words = (text[1:] if kind else text).lower().split()
        return cls(tuple(words[:MAX_WORDS]), kind)

    def matches(self, *texts: str) -> bool:
        """Return whether each word is in one of the texts."""
        whole = "\n".join(texts).lower()
        return all(word in whole for word in self.words)

    def condition(self, *fields: str) -> Q:
        """Return the condition that each word is in one of these fields."""
        contains = (
            reduce(lambda left, right: left | right, (Q((f"{field}__icontains", word)) for field in fields))
            for word in self.words
        )
        return reduce(and_, contains, Q())


# One function per kind: it counts all results, and returns the first `limit`.


def find_claims(shell: Shell, text: SearchText, limit: int) -> Found:
    """
    Return claims whose name or reason contains the words, the newest first; without words the live ones of
    the reader.
    """
    user = user_of(shell.request)
    claims = Claim.objects.visible_to(user)
    if not text.words:
        return _claims(claims.live().filter(requested_by=user).order_by("-created_at"), limit)
    matching = claims.filter(text.condition(*CLAIM_TEXTS))
    if user.is_superuser:
        # Of all teams the newest claims are compared first: if few of them match, an index finds the rest.
        newest = claims.order_by("-created_at").values_list("created_at", flat=True)
        since = next(iter(newest[NEWEST : NEWEST + 1]), None)
        recent = matching.filter(Q(created_at__gte=since) if since else Q()).order_by("-created_at")
        found = _claims(recent, limit, is_least=since is not None)
        longest = max(text.words, key=len)
        if since is None or found.number > limit or len(longest) < TRIGRAM:
            return found
        matching = matching.filter(has_text_by_index(longest, *CLAIM_TEXTS))
    # This order keeps the planner from the index of the newest claims, of which few may match.
    return _claims(matching.order_by(Coalesce("created_at", Now()).desc()), limit)


def _claims(claims: ClaimQuerySet, limit: int, *, is_least: bool = False) -> Found:
    counted = claims.values("pk")[: MAX_COUNT + 1]  # before what each shows is looked up
    rows = (
        Claim.objects.filter(pk__in=counted)
        .order_by("-created_at")
        .values_list(
            *("pk", "name", "state", "devices", "parallel", "team__slug", "profile_version__profile__title"),
            *(f"requested_by__{name}" for name in ("username", "first_name", "last_name")),
        )
    )
    return Found.of(rows, limit, _claim, is_least=is_least)


def _claim(row: Sequence[Any]) -> SearchResult:
    pk, name, state, devices, parallel, team, profile, username, first, last = row
    return SearchResult(
        name,
        f"{team}, {f'{first} {last}'.strip() or username} · {devices * parallel} × {profile}",
        "stack-2",
        reverse("claims:detail", args=[pk]),
        state=ClaimState(state),
    )


def find_devices(shell: Shell, text: SearchText, limit: int) -> Found:
    """Return products with their numbers of devices, nodes, and devices by a part of their UUID."""
    if not text.words:
        return Found([], 0)
    parts = (*_products(text), *_nodes(text), *_devices(text))
    return Found.of(parts, limit, lambda result: result)


def _products(text: SearchText) -> Iterator[SearchResult]:
    groups = [row for row in device_groups(fleet_counts().values()) if text.matches(row[1].product)]
    if not groups:
        return
    names = dict(Cluster.objects.filter(enabled=True).values_list("pk", "name"))
    numbers: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0])
    for cluster, group in groups:
        if cluster in names:
            number = numbers[group.product, names[cluster]]
            number[0] += group.devices
            number[1] += group.devices if group.state == DeviceState.FREE else 0
    for (product, place), (devices, free) in sorted(numbers.items()):
        url = f"{reverse('inventory:devices')}?{urlencode({'product': product, 'cluster': place})}"
        detail = f"{counted(devices, 'device')} in {place}, {free} free"
        yield SearchResult(product, detail, "cpu", url, "Devices, filtered")


def _nodes(text: SearchText) -> Iterator[SearchResult]:
    rows = Node.objects.filter(text.condition("name"), gone_at=None, cluster__enabled=True)
    columns = ("name", "cluster__name", "count__devices", "count__free")
    for name, cluster, devices, free in rows.order_by("name").values_list(*columns)[: MAX_COUNT + 1]:
        detail = f"{counted(devices, 'device')}, {free} free" if devices else ""
        address = reverse("inventory:node", args=[cluster, name])
        yield SearchResult(name, detail, "server", address, f"node in {cluster}")


def _devices(text: SearchText) -> Iterator[SearchResult]:
    """Yield devices by their UUID alone: their names, such as gpu-0, are the same on all nodes."""
    if not all(map(UUID_PART.search, text.words)):
        return
    rows = Device.objects.present().filter(reduce(and_, map(device_has_text, text.words)))
    columns = ("pk", "uuid", "product", "node_name", "name")
    for pk, uuid, product, node, name in rows.order_by("pk").values_list(*columns)[: MAX_COUNT + 1]:
        place = f"{model_name(product)}, {node}/{name}"
        yield SearchResult(uuid, place, "cpu", reverse("inventory:device", args=[pk]), "device")


def find_profiles(shell: Shell, text: SearchText, limit: int) -> Found:
    """Return profiles with their free devices in all clusters."""
    if not text.words:
        return Found([], 0)
    return Found.of(_matching_profiles(shell, text, MAX_COUNT + 1), limit, _profile)


def _profile(row: Sequence[Any]) -> SearchResult:
    slug, title, use, free, matching = row
    known = "" if free is None or matching is None else f"{free} of {matching} free"
    return SearchResult(title, use or slug, "template", reverse("claims:profile", args=[slug]), known)


def _matching_profiles(shell: Shell, text: SearchText, limit: int) -> QuerySet[Profile, Any]:
    """Return (slug, title, use, free and matching devices in all clusters, None if unknown) of profiles."""
    available = ProfileAvailability.objects.filter(
        version=OuterRef("current"), computation__cluster__enabled=True
    )
    sums = {
        name: Subquery(available.order_by().values("version").annotate(sum=Sum(name)).values("sum"))
        for name in ("free", "matching")
    }
    profiles = Profile.objects.visible_to(shell.user).filter(retired_at=None, current__isnull=False)
    found = profiles.filter(text.condition("title", "slug", "use")).annotate(**sums)
    return found.order_by("title").values_list("slug", "title", "use", *sums)[:limit]


def find_people(shell: Shell, text: SearchText, limit: int) -> Found:
    """Return teams of the reader and their members; all of them for a platform admin."""
    teams = Team.objects.visible_to(shell.user).filter(archived_at=None)
    named = teams.filter(text.condition("title", "slug")).order_by("title").values_list("title", "slug")
    of_teams = Found.of(named[: MAX_COUNT + 1], limit, _team)
    if not text.words:
        return of_teams
    people = User.objects.filter(
        text.condition("username", "first_name", "last_name", "email"), is_active=True, service_of=None
    )
    if not shell.is_admin:
        people = people.filter(memberships__team__in=teams)
    matching = list(people.distinct().order_by("username")[: MAX_COUNT + 1])
    shown = matching[: max(limit - len(of_teams.rows), 0)]
    prefetch_related_objects(shown, Prefetch("memberships", Membership.objects.select_related("team")))
    rows = of_teams.rows + [_person(shell, person) for person in shown]
    return Found(rows, of_teams.number + len(matching))


def _team(row: Sequence[str]) -> SearchResult:
    title, slug = row
    return SearchResult(title, slug, "users", reverse("team", args=[slug]), "team")


def _person(shell: Shell, person: User) -> SearchResult:
    memberships: list[Membership] = [
        row for row in person.memberships.all() if shell.is_admin or row.team in shell.roles
    ]
    detail = ", ".join(f"{row.team.slug} · {row.get_role_display()}" for row in memberships[:3])
    if shell.is_admin:
        url = reverse("setup:person", args=[person.pk])
    else:
        url = reverse("teams:people", args=[memberships[0].team.slug])
    return SearchResult(person.label, detail, "user", url, person.email or person.username)


class NamedPage(NamedTuple):
    """A page or an action that has an address of its own; `words` are other words for it."""

    label: str
    where: str
    icon: str
    url: str
    words: str = ""


def find_pages(shell: Shell, text: SearchText, limit: int) -> Found:
    """Return the pages of the sidebar and those below them that the reader may open."""
    nav = shell.nav
    pages = [NamedPage(item.label, "", item.icon, item.url) for item in (*nav.main, *nav.foot)]
    for section in nav.sections:
        pages += [NamedPage(item.label, section.title, item.icon, item.url) for item in section.items]
    return Found.of(_entries([*pages, *_more_pages(shell)], text), limit, _entry)


def _more_pages(shell: Shell) -> Iterator[NamedPage]:
    yield NamedPage("Notices", "Inbox of messages to you", "bell", reverse("notify:list"), "notifications")
    yield NamedPage(
        "Account and preferences", "Theme, time zone, email", "user", reverse("teams:profile"), "account"
    )
    yield NamedPage("Compare profiles", "Catalogue", "layout-grid", reverse("claims:catalogue_compare"))
    yield NamedPage(
        "Unmanaged claims", "Claims", "stack-2", reverse("claims:unmanaged_claims"), "adopt kubectl"
    )
    yield NamedPage("Quota requests", "Quota", "gauge", reverse("claims:quota_requests"))
    if shell.has_role(Role.LEAD):
        yield NamedPage("Delegations", "Approvals", "checks", reverse("claims:delegations"), "away vacation")
        yield NamedPage("Saved reasons", "Approvals", "checks", reverse("claims:reasons"))
    if shell.is_admin:
        yield NamedPage("Approval rules", "Approvals", "checks", reverse("claims:approval_rules"))
        yield NamedPage("Catalogue check", "Profiles", "template", reverse("claims:lint"), "lint findings")
        yield NamedPage("Included profiles", "Profiles", "template", reverse("claims:presets"), "presets")
        yield NamedPage("Setup", "Settings", "settings", reverse("setup:setup"), "first steps")


def find_actions(shell: Shell, text: SearchText, limit: int) -> Found:
    """Return what the reader can begin; what changes something asks before it does."""
    rows = [_entry(entry) for entry in _entries(_actions(shell), text)]
    if text.words and may_request(shell.request):
        rows += [
            SearchResult(
                f"Request {title}…",
                "opens the form",
                "plus",
                f"{reverse('claims:request')}?{urlencode({'profile': slug})}",
            )
            for slug, title, *_more in _matching_profiles(shell, text, 2)
        ]
    if text.words:
        rows += _releases(shell, text)
    return Found.of(rows, limit, lambda result: result)


def _releases(shell: Shell, text: SearchText) -> list[SearchResult]:
    user = user_of(shell.request)
    running = Claim.objects.visible_to(user).filter(requested_by=user, state__in=RUNNING)
    rows = running.filter(text.condition("name")).order_by("-created_at").values_list("pk", "name")[:2]
    return [
        SearchResult(f"Release {name}…", "asks first", "player-eject", reverse("claims:release", args=[pk]))
        for pk, name in rows
    ]


def _actions(shell: Shell) -> Iterator[NamedPage]:
    if may_request(shell.request):
        yield NamedPage("New request…", "Claims", "plus", reverse("claims:request"), "claim gpu")
        yield NamedPage(
            "Request from a manifest…",
            "Claims",
            "file-import",
            reverse("claims:request_import"),
            "import yaml",
        )
        yield NamedPage("Request more quota…", "Quota", "gauge", reverse("claims:quota_request_new"), "limit")
    yield NamedPage("New API token…", "API tokens", "key", reverse("teams:tokens"), "create")
    if shell.is_admin:
        yield NamedPage("Add a cluster…", "Clusters", "sitemap", reverse("setup:cluster_add"), "kubeconfig")
        yield NamedPage("New team…", "Teams", "users-group", reverse("setup:team_new"), "add")
        yield NamedPage("Invite a person…", "People", "user-cog", reverse("setup:person_invite"), "add user")
        yield NamedPage("New profile…", "Profiles", "template", reverse("claims:profile_new"), "add")
        yield NamedPage("New budget…", "Budgets", "target", reverse("claims:budget_new"), "money limit add")
        yield NamedPage("New rate…", "Rates", "receipt-euro", reverse("usage:rate_new"), "price add")
        yield NamedPage(
            "New approval rule…", "Approvals", "checks", reverse("claims:approval_rule_new"), "add"
        )


def _entries(entries: Iterable[NamedPage], text: SearchText) -> list[NamedPage]:
    return [entry for entry in entries if text.matches(entry.label, entry.where, entry.words)]


def _entry(entry: NamedPage) -> SearchResult:
    return SearchResult(entry.label, entry.where, entry.icon, entry.url)


def find_help(shell: Shell, text: SearchText, limit: int) -> Found:
    """Return help pages by their title, and sections by their heading; those whose title matches first."""
    if not text.words:
        return Found([], 0)
    pages = [page for chapter in contents() for page in chapter.pages]
    rows = [
        SearchResult(page.title, "", "help", page.url, "Help") for page in pages if text.matches(page.title)
    ]
    for page in pages:
        rows += [
            SearchResult(heading.title, page.title, "help", f"{page.url}#{heading.anchor}", "Help")
            for heading in page.headings
            if text.matches(heading.title, page.title) and not text.matches(page.title)
        ]
    return Found.of(rows, limit, lambda result: result)


class ResultKind(NamedTuple):
    label: str
    find: Callable[[Shell, SearchText, int], Found]
    whole_list: str = ""  # the name of the page that lists all, with the same words


KINDS = {
    "claims": ResultKind("Claims", find_claims, "claims:list"),
    "devices": ResultKind("Devices and nodes", find_devices),
    "profiles": ResultKind("Profiles", find_profiles),
    "people": ResultKind("People and teams", find_people),
    "pages": ResultKind("Pages", find_pages),
    "actions": ResultKind("Actions", find_actions),
    "help": ResultKind("Help", find_help),
}


def search(shell: Shell, text: SearchText, kind: str = "") -> tuple[list[ResultGroup], dict[str, str]]:
    """
    Return the groups that have results, in the order of KINDS, and how many each kind has; only the group of
    `kind`, one of the keys, "" for all.
    """
    groups, counts = [], {}
    for key in KINDS:
        limit = SHOWN_OF_KIND if kind == key else SHOWN
        found = KINDS[key].find(shell, text, limit)
        if found.number:
            counts[key] = found.count
        more = ""
        if found.has_more:
            whole_list = KINDS[key].whole_list
            page = reverse(whole_list) if whole_list else reverse("search")
            query = {"q": " ".join(text.words), **({} if whole_list else {"kind": key})}
            more = f"{page}?{urlencode(query)}" if whole_list or not kind else ""
        if found.rows and kind in ("", key):
            groups.append(ResultGroup(key, KINDS[key].label, found.rows, found.count, more))
    return groups, counts


@require_safe
def search_page(request: HttpRequest) -> HttpResponse:
    """Show what matches `q`, of one `kind` or of all; htmx gets the results alone, for the palette."""
    typed = request.GET.get("q", "")
    text = SearchText.parse(typed)
    kind = text.kind or (request.GET.get("kind", "") if request.GET.get("kind") in KINDS else "")
    groups, counts = search(Shell.of(request), text, kind)
    context = {
        "q": typed[:MAX_TEXT],
        "text": text,
        "words": " ".join(text.words),
        "kind": kind,
        "kept": "" if text.kind else kind,  # what a prefix said ends with it
        "kinds": [(key, KINDS[key].label, counts.get(key)) for key in KINDS if key in counts or key == kind],
        "groups": groups,
        "count": sum(len(group.rows) for group in groups),
    }
    in_palette = "HX-Request" in request.headers
    template = "search/_results.html" if in_palette else "search/search.html"
    return render(request, template, context | {"in_palette": in_palette})
