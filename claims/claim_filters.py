"""Filters and search of claims, on the page and in the API."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, partial
from typing import Any
from uuid import UUID

from django import forms
from django.contrib.auth.models import AnonymousUser
from django.db.models import BooleanField, Func, Q, QuerySet
from django.db.models.sql.compiler import SQLCompiler
from django.http import HttpRequest, QueryDict
from django_filters import CharFilter, ChoiceFilter, FilterSet, IsoDateTimeFilter, MultipleChoiceFilter

from claims.models import Alternative, Claim, ClaimQuerySet, Profile, ProfileVersion, TeamNamespace
from claims.states import FINAL, ClaimState
from claims.states import LIVE as LIVE_STATES
from core.errors import unknown
from core.filters import TRIGRAM, RowFilter, Titled, estimated_rows, has_text_by_index, like_pattern
from core.inputs import BooleanFilter
from core.limits import limiting_team
from core.listing import WordFilter
from core.prepared import Prepared
from inventory.filters import any_cluster
from inventory.models import Cluster
from teams.access import reader_roles, user_of
from teams.models import Team, User

TEXTS = "name", "reason"  # of a claim, which are searched
LIVE, OVER, ME = "live", "over", "me"
STATE_CHOICES = [(LIVE, "Open"), (OVER, "Closed"), *ClaimState.choices]


TEAMS = Prepared(lambda: Team.objects.order_by("slug").values_list("slug", "pk"))


@cache
def _clusters(*, is_admin: bool) -> Prepared:
    def rows(person: UUID) -> QuerySet[Cluster, Any]:
        teams = Team.objects.visible_to(User(pk=person, is_superuser=is_admin))
        namespaces = TeamNamespace.objects.filter(team__in=teams) if not is_admin else TeamNamespace.objects
        clusters = Cluster.objects.filter(pk__in=namespaces.values("cluster"))
        return clusters.order_by("name").values_list("name", "pk")

    return Prepared(rows, UUID)


@cache
def _profiles(*, is_admin: bool) -> Prepared:
    def rows(person: UUID) -> QuerySet[Profile, Any]:
        profiles = Profile.objects.visible_to(User(pk=person, is_superuser=is_admin))
        return profiles.order_by("title").values_list("slug", "pk", "title")

    return Prepared(rows, UUID)


def teams_of_reader(request: HttpRequest) -> dict[str, UUID]:
    everywhere, only = request.user.is_superuser, limiting_team()
    teams = dict(TEAMS.rows()) if everywhere else {team.slug: team.pk for team in reader_roles(request)}
    return teams if only is None else {slug: pk for slug, pk in teams.items() if pk == only}


def clusters_of_reader(request: HttpRequest) -> dict[str, UUID]:
    """Return the clusters in which a team of the reader has a namespace."""
    user = user_of(request)
    return dict(_clusters(is_admin=user.is_superuser).rows(user.pk))


def profiles_of_reader(request: HttpRequest) -> dict[str, Titled]:
    user = user_of(request)
    rows = _profiles(is_admin=user.is_superuser).rows(user.pk)
    return {slug: Titled(pk, title) for slug, pk, title in rows}


# Filters of lists by what their reader may see, by slug or name.
team_filter = partial(
    RowFilter, Team, teams_of_reader, label="Team", to_field_name="slug", empty_label="Any team"
)
cluster_filter = partial(
    RowFilter, Cluster, clusters_of_reader, label="Cluster", to_field_name="name", empty_label="Any cluster"
)
profile_filter = partial(
    RowFilter, Profile, profiles_of_reader, label="Profile", to_field_name="slug", empty_label="Any profile"
)


class ClaimFilter(FilterSet):
    state = ChoiceFilter(label="State", choices=STATE_CHOICES, method="by_state", empty_label="Any state")
    team, cluster, profile = team_filter(), cluster_filter(), profile_filter(method="by_profile")
    who = ChoiceFilter(label="Requested by", choices=[(ME, "Me")], method="by_person", empty_label="Anyone")

    class Meta:
        model = Claim
        fields: tuple[str, ...] = ()
        form = forms.Form

    def __init__(self, data: QueryDict, *args: Any, **options: Any) -> None:
        """Links name any person; the form offers that one then."""
        super().__init__(data, *args, **options)
        name = data.get("who", "")
        if name not in ("", ME) and "\0" not in name:
            self.filters["who"].extra["choices"] = [(ME, "Me"), (name, name)]

    def by_state(self, claims: ClaimQuerySet, name: str, value: str) -> ClaimQuerySet:
        if value == LIVE:
            return claims.live()
        return claims.filter(state__in=FINAL) if value == OVER else claims.filter(state=value)

    def by_profile(self, claims: ClaimQuerySet, name: str, value: Profile) -> ClaimQuerySet:
        return claims.with_profile(value.slug)

    def by_person(self, claims: ClaimQuerySet, name: str, value: str) -> ClaimQuerySet:
        if value == ME:
            return claims.filter(requested_by=self.request.user)
        return claims.filter(requested_by__username=value)


FEW = 100  # people whose claims are found by an index
RARE = 3000  # claims that are found by indexes; of more, those of the reader are gone through


PEOPLE_WITH = f"SELECT id FROM {User._meta.db_table} WHERE UPPER(username) LIKE UPPER(%s)"  # noqa: S608
VERSIONS_WITH = f"""SELECT version.id FROM {ProfileVersion._meta.db_table} version
    JOIN {Profile._meta.db_table} profile ON profile.id = version.profile_id
    WHERE UPPER(profile.title) LIKE UPPER(%s)"""  # noqa: S608
OTHERS_WITH = f"""SELECT claim_id FROM {Alternative._meta.db_table}
    WHERE profile_version_id IN ({VERSIONS_WITH})"""  # noqa: S608
# People with a word, one more than a few of them, and the versions of profiles with it.
NAMED = Prepared(
    lambda name, title: (
        f"SELECT ARRAY({PEOPLE_WITH} LIMIT {FEW + 1}), ARRAY({VERSIONS_WITH})",
        (name, title),
    ),
    str,
    str,
)


class HasWord(Func):
    """
    Whether a claim's requester, profiles, name or reason contain a word in any case, for a scan of the rows.

    It is ready SQL: Django compiles these five conditions for a word more slowly than PostgreSQL compares all
    claims of a team. Requester and profile come first, as a key is faster looked up than a text compared.
    """

    output_field = BooleanField()
    sql = f"""({{}} IN ({PEOPLE_WITH}) OR {{}} IN ({VERSIONS_WITH})
        OR UPPER({{}}) LIKE UPPER(%s) OR UPPER({{}}) LIKE UPPER(%s) OR {{}} IN ({OTHERS_WITH}))"""

    def __init__(self, word: str) -> None:
        super().__init__("requested_by", "profile_version", *TEXTS, "pk")
        self.word = word

    def as_sql(self, compiler: SQLCompiler, *_more: Any, **_options: Any) -> tuple[str, tuple[str, ...]]:
        columns = [compiler.compile(column)[0] for column in self.get_source_expressions()]
        return self.sql.format(*columns), (like_pattern(self.word),) * self.sql.count("%s")


class ClaimSearch:
    """
    Match name, reason, requester and profiles of claims, word by word.

    For a reader of all claims, a word that few claims have is looked up in indexes; other words, and all
    words of a reader of some teams, are compared with the remaining claims.
    """

    def __init__(self, user: User | AnonymousUser) -> None:
        self.is_narrow = not user.is_superuser

    def __call__(self, word: str) -> Q:
        condition = None if self.is_narrow or len(word) < TRIGRAM else self.rare(word)
        if condition is None:
            return Q(HasWord(word))
        self.is_narrow = True
        return condition

    def rare(self, word: str) -> Q | None:
        """Return the condition of few claims, by index; None if there are too many."""
        ((people, versions),) = NAMED.rows(like_pattern(word), like_pattern(word))
        if len(people) > FEW:
            return None
        has_text = has_text_by_index(word, *TEXTS)
        claims = Claim.objects.order_by().values("pk")
        by_index = claims.filter(has_text)
        if people or versions:
            by_index = by_index.union(
                claims.filter(requested_by__in=people),
                claims.filter(profile_version__in=versions),
                Alternative.objects.filter(profile_version__in=versions).order_by().values("claim"),
            )
        if estimated_rows(by_index) > RARE:
            return None
        return Q(pk__in=by_index) if people or versions else has_text


class ClaimApiFilter(ClaimFilter):
    """Those of the page, with several states at once."""

    q, cluster = WordFilter(by=ClaimSearch), any_cluster()
    state = MultipleChoiceFilter(choices=STATE_CHOICES, method="by_states")
    who = CharFilter(method="by_known_person", label="User name of the requester; me: you")
    mine = BooleanFilter(method="by_owner")
    name = CharFilter(label="Name of the object, exactly")
    key = CharFilter(method="by_key", label="Idempotency-Key of your request")
    since = IsoDateTimeFilter(
        field_name="created_at", lookup_expr="gte", label="Requested not before this time"
    )
    until = IsoDateTimeFilter(field_name="created_at", lookup_expr="lt", label="Requested before this time")

    def __init__(self, *args: Any, **options: Any) -> None:
        super(ClaimFilter, self).__init__(*args, **options)  # any person may be named

    def by_states(self, claims: ClaimQuerySet, name: str, value: Sequence[str]) -> QuerySet[Claim]:
        states = {*value, *(LIVE_STATES if LIVE in value else ()), *(FINAL if OVER in value else ())}
        return claims.filter(state__in=states) if states else claims

    def by_known_person(self, claims: ClaimQuerySet, name: str, value: str) -> QuerySet[Claim]:
        reader = user_of(self.request)
        people = User.objects.all()
        if not reader.is_superuser:
            people = people.filter(
                Q(pk__in=Claim.objects.visible_to(reader).values("requested_by"))
                | Q(memberships__team__in=Team.objects.visible_to(reader))
            )
        if value != ME and not people.filter(username=value).exists():
            names = people.order_by("username").values_list("username", flat=True).distinct()
            raise unknown("who", value, (ME, *names[:21]))
        return self.by_person(claims, name, value)

    def by_key(self, claims: ClaimQuerySet, name: str, value: str) -> QuerySet[Claim]:
        return claims.filter(requested_by=self.request.user, key=value)

    def by_owner(self, claims: ClaimQuerySet, name: str, value: bool) -> QuerySet[Claim]:  # noqa: FBT001
        return claims.filter(requested_by=self.request.user) if value else claims
