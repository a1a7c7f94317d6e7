"""
The list of teams for platform admins: people, namespaces, devices held of quota, and the cost of the month.

Every figure is read from stored rows: devices by namespace from `inventory.counts`, cost from the sums of
whole days (`usage.daily_sums`), budgets from their last computation. So 500 teams cost as many queries as
one, and the row "All" adds up to the fleet.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from decimal import Decimal
from functools import reduce
from operator import or_
from typing import Any, ClassVar
from uuid import UUID

from django.db.models import Count, Q, QuerySet
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.urls import reverse
from django.utils import timezone
from django.utils.safestring import SafeString, mark_safe
from django.views.decorators.http import require_safe
from django_filters import ChoiceFilter, FilterSet

from claims.models import Claim, TeamNamespace
from claims.quotas.counts import class_quotas
from core.listing import Column, Listing
from core.markup import joined, markup
from core.prepared import Prepared, Statement
from core.templatetags.ui import meter, state_badge
from core.text import DASH, counted, percent
from core.times import ago
from inventory.counts import fleet_counts
from inventory.filters import HELD
from inventory.models import FleetSpan
from inventory.states import DeviceState
from portal.setup.people import open_invitations
from teams.access import require_admin, user_of
from teams.models import Membership, Role, Team, label_of
from usage.cost import Cost, cost_text
from usage.reports import Month

NAMED = 3  # namespaces, and people who lead a team, that a cell names

type Place = tuple[UUID, str]  # cluster and namespace


@dataclass(frozen=True, slots=True)
class TeamSummary:
    """
    What a team has. `deciders` are its owners and leads, `places` its namespaces as (cluster, namespace).

    `held` are devices that any claim in its namespaces holds, unmanaged ones too, as they count against its
    quota; `limit` is the sum of its quotas for device classes, 0 without one. `cost` is that of its claims on
    the stored days of the month, `budget_share` the used part of its budget of the month, None without one.
    """

    people: int
    deciders: list[str]
    places: list[tuple[str, str]]
    held: int
    limit: int
    live_claims: int
    cost: Cost
    budget_share: float | None


MEMBERS = Prepared(
    lambda team: (
        Membership.objects.filter(team=team, user__service_of=None)
        .order_by("user__username")
        .values_list("team", label_of("user"), "role")
    ),
    UUID,
    any_of="team_id",
)
LIVE_CLAIMS = Prepared(
    lambda team: (
        Claim.objects.live().filter(team=team).order_by().values_list("team").annotate(total=Count("pk"))
    ),
    UUID,
    any_of="team_id",
)
PLACES = Prepared(
    lambda: TeamNamespace.objects.order_by("cluster__name").values_list(
        "team", "cluster", "cluster__name", "namespace"
    )
)


def _figures(teams: UUID, first: date, end: date) -> Statement:
    """
    Return (kind, key, text, held, without a rate, amount, share, day): what these teams, all claims and
    unmanaged claims cost on the stored days, with the currency as text; the used share of the teams' budgets
    of the month; how many people are in a team, and in several; how many teams are active; the names of
    clusters; and until which day days are stored.
    """
    sums = "SUM(held), SUM(unpriced), SUM(amount), NULL::float8, NULL::date FROM usage_dailysum"
    days = "day >= %s AND day < %s AND day < (SELECT until FROM usage_storeddays LIMIT 1)"
    text = f"""
        SELECT 'team', key, currency, {sums}
        WHERE dimension = 'team' AND {days} AND key = ANY(%s) GROUP BY key, currency
        UNION ALL SELECT 'all', NULL::uuid, currency, {sums}
        WHERE dimension = 'kind' AND {days} GROUP BY currency
        UNION ALL SELECT 'unmanaged', NULL, currency, {sums}
        WHERE dimension = 'fleet' AND {days} AND partition = '{FleetSpan.Use.UNMANAGED}' GROUP BY currency
        UNION ALL SELECT 'budget', team_id, '', 0, 0, 0, share, NULL
        FROM claims_budget budget JOIN claims_budgetuse use ON use.budget_id = budget.id
        WHERE team_id = ANY(%s) AND title = '' AND ended_at IS NULL AND use.first = %s
        UNION ALL SELECT 'people', NULL, '', COUNT(*), COUNT(*) FILTER (WHERE teams > 1), 0, NULL, NULL
        FROM (SELECT COUNT(*) AS teams FROM teams_membership member JOIN teams_user person
              ON person.id = user_id WHERE service_of_id IS NULL GROUP BY user_id) people
        UNION ALL SELECT 'active', NULL, '', COUNT(*), 0, 0, NULL, NULL
        FROM teams_team WHERE archived_at IS NULL
        UNION ALL SELECT 'cluster', id, name, 0, 0, 0, NULL, NULL FROM inventory_cluster
        UNION ALL SELECT 'stored', NULL, '', 0, 0, 0, NULL, until FROM usage_storeddays"""  # noqa: S608
    return text, (first, end, teams, first, end, first, end, teams, first)


FIGURES = Prepared(_figures, UUID, date, date)


def held_places() -> Counter[Place]:
    """Return the GPUs and parts of them that are held, by cluster and namespace of the holder; one query."""
    held: Counter[Place] = Counter()
    for cluster, counts in fleet_counts(with_places=True).items():
        for namespace, state, devices, *other in counts.namespaces:
            if state == DeviceState.IN_USE and not other:
                held[cluster, namespace or ""] += devices
    return held


@dataclass(slots=True)
class TeamFigures:
    """
    Of the teams of a page, and of all. `held` are devices by place, as last counted, `cost` that of the
    stored days of `month`, until before `until`.
    """

    month: Month
    held: Counter[Place]
    places: dict[UUID, list[tuple[UUID, str, str]]] = field(default_factory=lambda: defaultdict(list))
    costs: dict[UUID, Cost] = field(default_factory=lambda: defaultdict(Cost))
    shares: dict[UUID, float] = field(default_factory=dict)
    all_claims: Cost = field(default_factory=Cost)
    unmanaged: Cost = field(default_factory=Cost)
    active: int = 0
    people: int = 0
    in_several: int = 0
    clusters: dict[UUID, str] = field(default_factory=dict)
    until: date | None = None

    @classmethod
    def read(cls, teams: Iterable[UUID], *, now: datetime) -> TeamFigures:
        """Return the figures, in three queries."""
        figures = cls(Month.current(now), held_places())
        for team, cluster, name, namespace in PLACES.rows():
            figures.places[team].append((cluster, name, namespace))
        first, end = figures.month.first, figures.month.next.first
        for row in FIGURES.rows(list(teams), first, end):
            figures.add(*row)
        return figures

    def add(
        self,
        kind: str,
        key: UUID,
        text: str,
        number: Decimal,
        unpriced: Decimal,
        amount: Decimal,
        share: float | None,
        day: date | None,
    ) -> None:
        """Add a row of FIGURES."""
        cost = Cost(int(number), int(unpriced), {text: int(amount)} if text and amount else {})
        match kind:
            case "team":
                self.costs[key].add(cost)
            case "all":
                self.all_claims.add(cost)
            case "unmanaged":
                self.unmanaged.add(cost)
            case "budget":
                self.shares[key] = share or 0.0
            case "people":
                self.people, self.in_several = int(number), int(unpriced)
            case "active":
                self.active = int(number)
            case "cluster":
                self.clusters[key] = text
            case "stored":
                self.until = day

    def held_by(self, team: UUID) -> int:
        return sum(self.held[cluster, namespace] for cluster, _name, namespace in self.places[team])

    @property
    def held_by_all(self) -> int:
        return self.held.total()

    @property
    def held_elsewhere(self) -> Counter[Place]:
        """Return the devices that are held in namespaces of no team."""
        of_teams = {(cluster, name) for rows in self.places.values() for cluster, _title, name in rows}
        return Counter({place: devices for place, devices in self.held.items() if place not in of_teams})

    @property
    def cost_of_all(self) -> Cost:
        whole = Cost()
        whole.add(self.all_claims)
        whole.add(self.unmanaged)
        return whole

    @property
    def days(self) -> str:
        """Return "1–25 November 2026", the stored days of the month; "" without one."""
        last = min(self.until or self.month.first, self.month.next.first) - timedelta(days=1)
        if last < self.month.first:
            return ""
        days = str(last.day) if last.day == 1 else f"1–{last.day}"
        return f"{days} {last:%B %Y}"


def summarize(teams: list[Team], figures: TeamFigures) -> None:
    """Set `summary` of each team; the number of queries does not grow with them."""
    ids = [team.pk for team in teams]
    people: dict[UUID, list[tuple[str, str]]] = defaultdict(list)
    for team_id, label, role in MEMBERS.rows(ids):
        people[team_id].append((label, role))
    quotas, live = class_quotas(ids), dict(LIVE_CLAIMS.rows(ids))
    for team in teams:
        team.summary = TeamSummary(  # type: ignore[attr-defined]
            people=len(people[team.pk]),
            deciders=[name for name, role in people[team.pk] if role in (Role.OWNER, Role.LEAD)],
            places=[(cluster, namespace) for _pk, cluster, namespace in figures.places[team.pk]],
            held=figures.held_by(team.pk),
            limit=quotas[team.pk][1],
            live_claims=live.get(team.pk, 0),
            cost=figures.costs[team.pk],
            budget_share=figures.shares.get(team.pk),
        )


COLUMNS: list[Column[Any]] = [  # rows have the `summary` of `summarize`
    Column("title", "Team", lambda team: team.title, sort="title", fixed=True),
    Column("slug", "Name", lambda team: team.slug, sort="slug", shown=False),
    Column("people", "People and leads", lambda team: _people_text(team.summary)),
    Column("namespaces", "Namespaces", lambda team: ", ".join(map(" ".join, team.summary.places))),
    Column("claims", "Live claims", lambda team: team.summary.live_claims, numeric=True, shown=False),
    Column("held", "Held, of quota", lambda team: team.summary.held, numeric=True),
    Column("limit", "Device quota", lambda team: team.summary.limit, numeric=True, shown=False),
    Column("cost", "Cost this month", lambda team: cost_text(team.summary.cost), numeric=True),
    Column(
        "budget",
        "Budget used",
        lambda team: "" if team.summary.budget_share is None else round(team.summary.budget_share, 4),
        numeric=True,
        shown=False,
    ),
    Column("archived", "Archived", lambda team: team.archived_at, sort="archived_at", shown=False),
]


def _people_text(summary: TeamSummary) -> str:
    """Return "8 members: Aylin, Noor"."""
    leads = f": {', '.join(summary.deciders)}" if summary.deciders else ""
    return f"{counted(summary.people, 'member')}{leads}"


NO_SLUG, BREAK = "no-slug", mark_safe("<br>")


def _people(team: Any, to: Mapping[str, str]) -> SafeString:
    summary = team.summary
    first, rest = summary.deciders[:NAMED], summary.deciders[NAMED:]
    leads = ", ".join(first) + (f" and {len(rest)} more" if rest else "")
    return markup(
        '<td class="o3"><a class="dg-link" href="{}">{}</a><span class="sub">{}</span></td>',
        *(to["people"].replace(NO_SLUG, team.slug), counted(summary.people, "member")),
        leads or ("nobody leads it" if summary.people else "nobody is in it"),
    )


def _places(places: Iterable[tuple[str, str]]) -> SafeString:
    """Draw "fra-1 vision", a line for each cluster."""
    lines = [markup('<span class="dg-3">{}</span> <code>{}</code>', *place) for place in places]
    more = [markup('<span class="dg-3">and {} more</span>', len(lines) - NAMED)] if lines[NAMED:] else []
    return joined(BREAK, (*lines[:NAMED], *more))


def _held(team: Any, to: Mapping[str, str]) -> SafeString:
    summary = team.summary
    label = f"{summary.held} of {summary.limit} devices held"
    bar: SafeString | str = ""
    if summary.limit:
        over = max(summary.held - summary.limit, 0)
        bar = meter(summary.limit, label=label, size="thin", held=summary.held - over, over=over)
    return markup(
        '<td class="dg-n mr o4{}"><a class="dg-link" href="{}?team={}"><b>{}</b> {}</a>{}</td>',
        " dg-bad" if summary.held > summary.limit else "",
        *(to["quotas"], team.slug, summary.held),
        f"of {summary.limit}" if summary.limit else "held, no quota",
        bar,
    )


def _cost(team: Any, to: Mapping[str, str]) -> SafeString:
    share = team.summary.budget_share
    budget = (
        markup('<span class="dg-3">no budget</span>')
        if share is None
        else markup("{} of budget", percent(share))
    )
    return markup(
        '<td class="dg-n mr o2"><a class="dg-link" href="{}">{}</a><span class="sub{}">{}</span></td>',
        *(to["cost"].replace(NO_SLUG, team.slug), cost_text(team.summary.cost, digits=0)),
        *(" dg-bad" if share is not None and share >= 1 else "", budget),
    )


# The cells behind the title, by the names of their columns and in their order.
CELLS: dict[str, Callable[[Any, Mapping[str, str]], SafeString]] = {
    "slug": lambda team, _to: markup('<td class="o5 wide"><span class="dg-id">{}</span></td>', team.slug),
    "people": _people,
    "namespaces": lambda team, _to: markup(
        '<td class="dg-s o5 wide">{}</td>',
        _places(team.summary.places) or markup('<span class="dg-3">none: it cannot request</span>'),
    ),
    "claims": lambda team, to: markup(
        '<td class="dg-n o5" data-l="Live claims"><a href="{}?team={}&amp;state=live">{}</a></td>',
        *(to["claims"], team.slug, team.summary.live_claims),
    ),
    "held": _held,
    "limit": lambda team, to: markup(
        '<td class="dg-n o5" data-l="Device quota"><a href="{}?team={}">{}</a></td>',
        *(to["quotas"], team.slug, team.summary.limit),
    ),
    "cost": _cost,
    "budget": lambda team, _to: markup(
        '<td class="dg-n o5" data-l="Budget used">{}</td>', percent(team.summary.budget_share)
    ),
    "archived": lambda team, _to: markup(
        '<td class="mr o5" data-l="Archived">{}</td>', ago(team.archived_at) if team.archived_at else DASH
    ),
}


def addresses() -> dict[str, str]:
    """Return the addresses of a team's links; those by its name have NO_SLUG in its place."""
    return {
        "settings": reverse("setup:team", args=[NO_SLUG]),
        "people": reverse("teams:people", args=[NO_SLUG]),
        "cost": reverse("usage:team", args=[NO_SLUG]),
        "claims": reverse("claims:list"),
        "quotas": reverse("claims:quotas"),
    }


def table_rows(teams: Iterable[Team], shows: Mapping[str, bool]) -> SafeString:
    """Return a `<tr>` per team with its `summary`, and a cell for each shown column."""
    to = addresses()
    shown = [cell for column, cell in CELLS.items() if shows.get(column)]
    archived = state_badge("over", "circle-minus", "Archived")
    return joined(
        "\n",
        (
            markup(
                '<tr{}><td class="o1"><span class="dg-row dg-start"><span class="dg-key c{}"></span><span>'
                '<a class="dg-link" data-row href="{}">{}</a> {}'
                '<span class="sub">{}</span></span></span></td>{}</tr>',
                mark_safe(' class="soft"') if team.archived_at else "",
                *(team.series, to["settings"].replace(NO_SLUG, team.slug), team.title),
                *(archived if team.archived_at else "", team.slug),
                joined("", (cell(team, to) for cell in shown)),
            )
            for team in teams
        ),
    )


def sum_rows(figures: TeamFigures, shows: Mapping[str, bool]) -> SafeString:
    """Return the rows of unmanaged claims and of all: together with the teams they add up to the fleet."""
    elsewhere, report = figures.held_elsewhere, reverse("usage:report")
    unmanaged = {
        "people": markup(
            '<td class="o3"><a href="{}">Show and adopt</a></td>', reverse("claims:unmanaged_claims")
        ),
        "namespaces": markup(
            '<td class="dg-s o5 wide">{}</td>',
            _places((figures.clusters[cluster], name) for (cluster, name), _held in elsewhere.most_common()),
        ),
        "held": markup('<td class="dg-n mr o4">{} held</td>', elsewhere.total()),
        "cost": markup('<td class="dg-n mr o2">{}</td>', cost_text(figures.unmanaged, digits=0)),
    }
    several = figures.in_several
    everything = {
        "people": markup(
            '<td class="o3">{}<span class="sub">{}</span></td>',
            counted(figures.people, "person", "people"),
            f"{several} in two teams or more" if several else "",
        ),
        "held": markup(
            '<td class="dg-n mr o4"><a class="dg-link" href="{}?state={}">{} held</a></td>',
            *(reverse("inventory:devices"), HELD, figures.held_by_all),
        ),
        "cost": markup(
            '<td class="dg-n mr o2"><a class="dg-link" href="{}">{}</a></td>',
            *(report, cost_text(figures.cost_of_all, digits=0)),
        ),
    }
    empty = mark_safe('<td class="hide"></td>')
    rows = (
        ("soft", markup("Unmanaged claims<span class='sub'>in no team</span>"), unmanaged),
        ("sumrow dg-bb", markup("All"), everything),
    )
    return joined(
        "\n",
        (
            markup(
                '<tr class="{}"><td class="o1">{}</td>{}</tr>',
                *(look, title),
                joined("", (cells.get(column, empty) for column in CELLS if shows.get(column))),
            )
            for look, title, cells in rows
        ),
    )


class TeamFilter(FilterSet):
    """Active teams, unless others are chosen."""

    state = ChoiceFilter(
        label="State",
        choices=[("archived", "Archived"), ("all", "Active and archived")],
        empty_label="Active",
    )

    def filter_queryset(self, queryset: QuerySet[Team]) -> QuerySet[Team]:
        match self.form.cleaned_data.get("state"):
            case "all":
                return queryset
            case "archived":
                return queryset.exclude(archived_at=None)
        return queryset.filter(archived_at=None)

    class Meta:
        model = Team
        fields: ClassVar[list[str]] = []


def has_person(word: str) -> Q:
    """Return the condition of teams with somebody whose name or user name contains the word."""
    names = ("username", "first_name", "last_name")
    found = reduce(or_, (Q((f"user__{name}__icontains", word)) for name in names))
    return Q(pk__in=Membership.objects.filter(found).values("team"))


@require_safe
def team_list(request: HttpRequest) -> HttpResponseBase:
    """Show the teams, what is in no team, and their sum; the CSV has the teams."""
    require_admin(user_of(request))
    figures: list[TeamFigures] = []  # of the page that was prepared

    def prepare(teams: list[Team]) -> None:
        figures[:] = [TeamFigures.read([team.pk for team in teams], now=timezone.now())]
        summarize(teams, figures[0])

    listing = Listing(
        request,
        Team.objects.all(),
        columns=COLUMNS,
        title="Teams",
        filters=TeamFilter,
        search=("slug", "title", has_person),
        sort="title",
        prepare=prepare,
    )

    def prepared() -> list[TeamFigures]:
        _page = listing.page  # prepares them
        return figures

    def rows() -> SafeString:
        return table_rows(listing.page.object_list, listing.shows)

    context = {
        "rows": rows,
        "listing_foot": lambda: sum_rows(figures[0], listing.shows),
        "figures": prepared,
        "invitations": open_invitations,
        "empty_icon": "users-group",
        "empty_title": "No teams yet",
        "empty_text": "Claims, quotas and costs belong to teams.",
        "empty_url": reverse("setup:team_new"),
        "empty_action": "New team",
    }
    return listing.respond("setup/teams.html", context)
