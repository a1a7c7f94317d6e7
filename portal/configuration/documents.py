"""What each kind of document changes, compared with what is stored."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal, InvalidOperation
from functools import partial
from typing import Any, ClassVar

from django.core.exceptions import ValidationError
from django.utils import timezone

from claims.approvals.services import save_rule
from claims.budgets.services import change_budget, end_budget, set_budget
from claims.models import Approval, ApprovalRule, AtLimit, Budget, Profile, Quota, TeamNamespace
from claims.quotas.classes import unknown_class, unknown_namespace
from claims.quotas.namespaces import set_namespace
from claims.quotas.services import remove_quota, set_quota
from core.errors import Invalid
from core.models import Installation
from core.times import spell_duration, utc_moment
from core.yaml_documents import YamlDocument
from inventory.clusters import change_cluster, write_quotas
from inventory.models import Cluster, TelemetryAccess
from inventory.states import EndPolicy
from inventory.telemetry_access import change_telemetry, described
from portal.configuration.export import (
    CLUSTER,
    INSTALLATION,
    RATE,
    RULE,
    TEAM,
    budget_terms,
    configured_clusters,
    filled,
    quota_key,
    quota_limits,
)
from portal.setup.installation import InstallationForm, save_installation
from teams.identity.models import IdentityProvider
from teams.models import Membership, Role, Team, User
from teams.services import (
    add_member,
    change_role,
    change_team,
    create_team,
    remove_member,
)
from usage.models import Rate
from usage.rate_matches import require_expression
from usage.rate_preview import matches_nothing
from usage.services import retire_rate, save_rate

type Step = Callable[..., object]  # with `by`


@dataclass(slots=True)
class Change:
    """
    What a document, or its absence, changes: a line per difference, and the services to call for it.

    `notes` are what cannot be done now, with the reason, or may be mistyped; they do not stop the rest.
    """

    kind: str
    name: str
    lines: list[str] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    is_new_team: bool = False  # its first step creates the team

    def add(self, line: str, step: Step) -> None:
        self.lines.append(line)
        self.steps.append(step)

    def note(self, sentence: str) -> None:
        if sentence:
            self.notes.append(sentence)


@dataclass(frozen=True, slots=True)
class Known:
    """Everything that documents name, read once."""

    clusters: Mapping[str, Cluster]
    profiles: Mapping[str, Profile | None]  # None: of the file
    teams: Mapping[str, Team | None]
    people: Mapping[str, User]  # active
    providers: frozenset[str]  # of identity, by slug

    def with_new(self, *, teams: Iterable[str], profiles: Iterable[str], providers: Iterable[str]) -> Known:
        """Return this with the teams, profiles and identity providers that the file adds."""
        return replace(
            self,
            providers=self.providers | frozenset(providers),
            teams=dict.fromkeys(teams) | dict(self.teams),
            profiles=dict.fromkeys(profiles) | dict(self.profiles),
        )

    @classmethod
    def read(cls) -> Known:
        return cls(
            {cluster.name: cluster for cluster in configured_clusters()},
            {profile.slug: profile for profile in Profile.objects.all()},
            {team.slug: team for team in Team.objects.all()},
            {user.username: user for user in User.objects.filter(is_active=True)},
            frozenset(IdentityProvider.objects.values_list("slug", flat=True)),
        )


@dataclass(slots=True)
class ConfigDocument(YamlDocument):
    """A document of one kind; `change` compares it with what is stored."""

    kind: ClassVar[str]
    keys: ClassVar[frozenset[str]]

    def identity(self) -> str:
        """Return what no two documents of this kind may share, in words."""
        raise NotImplementedError

    def change(self, known: Known) -> Change:
        raise NotImplementedError


@dataclass(slots=True)
class InstallationDocument(ConfigDocument):
    """The settings of the portal as a whole, without its logo."""

    kind, subject = INSTALLATION, "installation"
    keys = frozenset(("name", "currency", "timeZone"))
    COLUMNS: ClassVar = {"name": "name", "currency": "currency", "timeZone": "timezone"}

    def identity(self) -> str:
        return "the settings"

    def change(self, known: Known) -> Change:
        change, installation = Change(self.kind, self.identity()), Installation.load()
        before = {column: getattr(installation, column) for column in self.COLUMNS.values()}
        given = {
            column: self.text((key,), self.content[key])
            for key, column in self.COLUMNS.items()
            if key in self.content
        }
        form = InstallationForm(before | given, instance=installation)
        for key, column in self.COLUMNS.items():
            for error in form.errors.get(column, [])[:1]:
                self.refuse(f"{key}: {error}", (key,))
        wanted = {column: form.cleaned_data.get(column, "") for column in before}
        for number, column in enumerate(column for column in before if before[column] != wanted[column]):
            change.lines.append(f"{column}: {shown(before[column])} → {shown(wanted[column])}")
            if not number:
                change.steps.append(lambda by: save_installation(by=by, logo=None, **wanted))
        return change


@dataclass(slots=True)
class ClusterDocument(ConfigDocument):
    """A connected cluster, without its credentials."""

    kind, subject = CLUSTER, "cluster"
    keys = frozenset(
        (
            *("name", "title", "readOnly", "writeQuotas", "endPolicy", "prometheus", "exporter"),
            "gramsPerKwh",
            *("telemetryAuthority", "telemetryTenant", "telemetryMatchers", "telemetryTimeout"),
        )
    )

    def identity(self) -> str:
        return self.text(("name",), self.content.get("name", ""), required=True)

    def change(self, known: Known) -> Change:
        values, name = self.content, self.identity()
        change = Change(self.kind, name)
        cluster = known.clusters.get(name)
        if cluster is None:
            change.notes.append(
                "not connected: connect it on the page Clusters or with “manage.py cluster add”, then apply "
                "again"
            )
            return change
        wanted: dict[str, str | bool | int | None] = {}
        for key, column in (
            ("title", "title"),
            ("prometheus", "prometheus_url"),
            ("exporter", "metrics_url"),
        ):
            if key in values:
                wanted[column] = self.text((key,), values[key])
        if "readOnly" in values:
            wanted["read_only"] = self.flag(("readOnly",), values["readOnly"])
        if "endPolicy" in values:
            named = self.choices(("endPolicy",), [values["endPolicy"]], EndPolicy.values)
            wanted["end_policy"] = next(iter(named), cluster.end_policy)
        wanted |= self._grams()
        different = {column: value for column, value in wanted.items() if getattr(cluster, column) != value}
        if "writeQuotas" in values:
            write = self.flag(("writeQuotas",), values["writeQuotas"])
            if write != cluster.write_quotas:
                step = partial(write_quotas, name=name, write=write)
                change.add(f"writeQuotas: {yes(cluster.write_quotas)} → {yes(write)}", step)
        for number, (column, value) in enumerate(different.items()):
            line = f"{column}: {shown(getattr(cluster, column))} → {shown(value)}"
            change.lines.append(line)
            if not number:
                change.steps.append(lambda by: change_cluster(name=name, by=by, **different))
        self._telemetry(change, cluster)
        return change

    def _grams(self) -> dict[str, int | None]:
        """Return the grams of CO₂ per kWh, null to show none; nothing if the file does not say it."""
        grams = self.content.get("gramsPerKwh")
        if grams is not None:
            return {"grams_per_kwh": self.number(("gramsPerKwh",), grams, 1, 5000)}
        return {"grams_per_kwh": None} if "gramsPerKwh" in self.content else {}

    def _telemetry(self, change: Change, cluster: Cluster) -> None:
        """How the source is read. Its secret is no part of the file, and stays."""
        access = getattr(cluster, "telemetry_access", None) or TelemetryAccess(cluster=cluster)
        wanted: dict[str, str | int] = {}
        for column in ("authority", "tenant", "matchers"):
            key = f"telemetry{column.title()}"
            if key in self.content:
                wanted[column] = self.text((key,), self.content[key])
        if "telemetryTimeout" in self.content:
            seconds = self.number(("telemetryTimeout",), self.content["telemetryTimeout"], 1, 60)
            wanted["timeout_seconds"] = seconds
        tried = TelemetryAccess(
            authority=str(wanted.get("authority", "")),
            tenant=str(wanted.get("tenant", "")),
            matchers=str(wanted.get("matchers", "")),
        )
        try:
            tried.clean_fields(exclude=["cluster", "sealed"])
        except ValidationError as refusal:
            for column, problems in refusal.message_dict.items():
                key = f"telemetry{column.title()}"
                self.refuse(f"{key}: {' '.join(problems)}", (key,))
        different = {column: value for column, value in wanted.items() if getattr(access, column) != value}
        for number, (column, value) in enumerate(different.items()):
            change.lines.append(described(column, getattr(access, column), value))
            if not number:
                change.steps.append(partial(change_telemetry, name=cluster.name, fields=different))


def _set_goal(by: User, *, slug: str, percent: int | None) -> None:
    change_team(by=by, team=Team.objects.get(slug=slug), efficiency_goal=percent)


@dataclass(slots=True)
class TeamDocument(ConfigDocument):
    """A team with its members, namespaces, quotas and budgets."""

    kind, subject = TEAM, "team"
    keys = frozenset(("slug", "title", "efficiencyGoal", "members", "namespaces", "quotas", "budgets"))

    def identity(self) -> str:
        return self.text(("slug",), self.content.get("slug", ""), required=True)

    def change(self, known: Known) -> Change:
        slug = self.identity()
        title = self.text(("title",), self.content.get("title", slug), required=True)
        team = known.teams.get(slug)
        change = Change(self.kind, slug)
        if team is None:
            change.add(f"new: {title}", lambda by: create_team(by=by, slug=slug, title=title))
            change.is_new_team = True
        elif team.archived_at:
            change.notes.append("archived: restore it on its page, then apply again")
            return change
        elif "title" in self.content and team.title != title:
            change.add(
                f"title: {team.title} → {title}", lambda by: change_team(by=by, team=team, title=title)
            )
        if "efficiencyGoal" in self.content:
            self._goal(change, team)
        if "members" in self.content:
            self._members(change, team, known)
        if "namespaces" in self.content:
            self._namespaces(change, team, known)
        if "quotas" in self.content:
            self._quotas(change, team, known)
        if "budgets" in self.content:
            self._budgets(change, team)
        return change

    def _goal(self, change: Change, team: Team | None) -> None:
        """Set the efficiency goal in percent; 0 is none."""
        goal = self.number(("efficiencyGoal",), self.content["efficiencyGoal"], 0, 100) or None
        have = team.efficiency_goal if team else None
        if goal != have:
            old, new = ("none" if one is None else f"{one} %" for one in (have, goal))
            change.add(f"efficiency goal: {old} → {new}", partial(_set_goal, slug=change.name, percent=goal))

    def _members(self, change: Change, team: Team | None, known: Known) -> None:
        raw = self.content["members"] or {}
        if not isinstance(raw, dict):
            self.refuse("members has a role for each user name, such as mira: lead.", ("members",))
            return
        wanted = {
            str(name): Role(role)
            for name, given in raw.items()
            for role in self.choices(("members", str(name)), [given], Role.values)
        }
        people = Membership.objects.by_hand().filter(team=team)
        rows = people.select_related("user", "team") if team else Membership.objects.none()
        have = {row.user.username: row for row in rows}
        for name, role in sorted(wanted.items(), key=lambda item: (-item[1].rank, item[0])):  # owners first
            if name not in have and name not in known.people:
                change.notes.append(f"{name} has no account yet: apply again after their first sign-in")
            elif name not in have:
                change.add(
                    f"members: + {name}: {role.value}", partial(_add, slug=change.name, name=name, role=role)
                )
            elif have[name].role_by_hand != role:
                line = f"members: {name}: {have[name].role_by_hand} → {role.value}"
                row = have[name]
                change.add(line, partial(change_role, team=row.team, member=row, role=role))
        for name in sorted(set(have) - set(wanted)):
            change.add(f"members: - {name}", partial(remove_member, team=have[name].team, member=have[name]))

    def _namespaces(self, change: Change, team: Team | None, known: Known) -> None:
        raw = self.content["namespaces"] or {}
        if not isinstance(raw, dict):
            self.refuse(
                "namespaces has a namespace for each cluster, such as fra-1: vision.", ("namespaces",)
            )
            return
        rows = TeamNamespace.objects.filter(team=team).select_related("cluster") if team else ()
        have = {row.cluster.name: row.namespace for row in rows}
        for name in dict.fromkeys((*raw, *have)):
            cluster = known.clusters.get(name)
            namespace = self.text(("namespaces", name), raw.get(name, ""))
            if cluster is None:
                change.notes.append(f"cluster {name} is not connected: its namespace is set when it is")
            elif namespace != have.get(name, ""):
                change.note(unknown_namespace(namespace, cluster))
                line = f"namespaces: {name}: {shown(have.get(name, ''))} → {shown(namespace)}"
                step = partial(_set_namespace, slug=change.name, cluster=cluster, namespace=namespace)
                change.add(line, step)

    def _quotas(self, change: Change, team: Team | None, known: Known) -> None:
        raw = self.content["quotas"] or []
        if not isinstance(raw, list):
            self.refuse("quotas is a list, such as - deviceClass: gpu.nvidia.com.", ("quotas",))
            return
        rows = Quota.objects.filter(team=team).select_related("profile") if team else ()
        have = {_quota_name(quota_key(row)): row for row in rows}
        named: set[str] = set()
        for number, entry in enumerate(raw):
            quota = self._quota(number, entry, known)
            if quota is None:
                continue
            name, limits, fields = quota
            if name in named:
                self.refuse(f"{name} is listed twice.", ("quotas", number))
            named.add(name)
            before = quota_limits(have[name]) if name in have else {}
            if before != limits:
                change.note(unknown_class(fields.get("device_class", ""), team))
                words = f"quotas: {name}: {_limits(before)} → {_limits(limits)}"
                change.add(words, partial(_set_quota, slug=change.name, fields=fields))
        for name in sorted(set(have) - named):
            line = f"quotas: - {name}, was {_limits(quota_limits(have[name]))}"
            change.add(line, partial(remove_quota, quota=have[name]))

    def _quota(
        self, number: int, entry: Any, known: Known
    ) -> tuple[str, dict[str, int], dict[str, Any]] | None:
        """Return name, limits, and the arguments of `set_quota`; None for an entry that is refused."""
        path = ("quotas", number)
        keys = frozenset(("deviceClass", "profile", "claims", "devices", "guaranteed"))
        entry = self.mapping(path, entry, keys)
        counted = [key for key in ("deviceClass", "profile", "claims") if key in entry]
        if len(counted) != 1:
            self.refuse("a quota has one of deviceClass, profile and claims.", path)
            return None
        number_key = "claims" if counted == ["claims"] else "devices"
        devices = self.number((*path, number_key), entry.get(number_key), 0, Quota.MOST)
        if number_key == "claims":
            return "claims", {"claims": devices}, {"counts": Quota.Counts.CLAIMS, "devices": devices}
        guaranteed = self.number((*path, "guaranteed"), entry.get("guaranteed", 0), 0, Quota.MOST)
        limits = {"devices": devices, **filled(guaranteed=guaranteed)}
        fields: dict[str, Any] = {"devices": devices, "guaranteed": guaranteed}
        name = self.text((*path, counted[0]), entry[counted[0]], required=True)
        if counted == ["profile"]:
            return name, limits, fields | {"profile": name}
        return name, limits, fields | {"device_class": name}

    def _budgets(self, change: Change, team: Team | None) -> None:
        raw = self.content["budgets"] or []
        if not isinstance(raw, list):
            self.refuse('budgets is a list, such as - amount: "2000.00".', ("budgets",))
            return
        have = {row.title: row for row in Budget.objects.open().filter(team=team)} if team else {}
        named: set[str] = set()
        for number, entry in enumerate(raw):
            title, fields = self._budget(("budgets", number), entry, have)
            if title in named:
                self.refuse(f"{title or 'the monthly budget'} is listed twice.", ("budgets", number))
            named.add(title)
            wanted = budget_terms(Budget(**fields))
            before = budget_terms(have[title]) if title in have else {}
            if before == wanted:
                continue
            line = f"budgets: {title or 'monthly'}: {_terms(before)} → {_terms(wanted)}"
            if title in have:
                change.add(line, partial(change_budget, budget=have[title], **fields))
            else:
                change.add(line, partial(_set_budget, slug=change.name, title=title, fields=fields))
        for title in sorted(set(have) - named):
            line = f"budgets: - {title or 'monthly'}, was {_terms(budget_terms(have[title]))}"
            change.add(line, partial(end_budget, budget=have[title]))

    def _budget(
        self, path: tuple[str | int, ...], entry: Any, have: Mapping[str, Budget]
    ) -> tuple[str, dict[str, Any]]:
        """Return title and terms; by default the begin of the budget that exists, else the current month."""
        keys = frozenset(("title", "from", "until", "amount", "gpuHours", "atLimit"))
        entry = self.mapping(path, entry, keys)
        title = self.text((*path, "title"), entry.get("title", ""))
        default = have[title].first if title in have else timezone.now().astimezone(UTC).date()
        first = self._day((*path, "from"), entry["from"]) if "from" in entry else default
        last = self._day((*path, "until"), entry["until"]) if "until" in entry else None
        choices = self.choices((*path, "atLimit"), [entry.get("atLimit", AtLimit.NOTIFY)], AtLimit.values)
        amount = self._above_zero((*path, "amount"), entry["amount"]) if "amount" in entry else None
        hours = self._above_zero((*path, "gpuHours"), entry["gpuHours"]) if "gpuHours" in entry else None
        if amount is None and hours is None:
            self.refuse("a budget has an amount, gpuHours, or both.", path)
        if bool(title) != (last is not None):
            self.refuse("a budget has a title and until, or neither: then it is that of each month.", path)
        if last is not None and last < first:
            self.refuse("until is before from.", (*path, "until"))
        return title, {
            "first": first if last is not None else first.replace(day=1),
            "last": last,
            "amount": amount,
            "hours": hours,
            "at_limit": next(iter(choices), AtLimit.NOTIFY),
        }

    def _day(self, path: tuple[str | int, ...], raw: Any) -> date:
        try:
            return raw if isinstance(raw, date) else date.fromisoformat(str(raw))
        except ValueError:
            self.refuse(f"{path[-1]} is a day such as 2026-11-01.", path)
            return timezone.now().astimezone(UTC).date()

    def _above_zero(self, path: tuple[str | int, ...], raw: Any) -> Decimal | None:
        try:
            value = Decimal(raw) if isinstance(raw, str) else Decimal(0)
        except InvalidOperation:
            value = Decimal(0)
        if not value.is_finite() or value <= 0:
            self.refuse(f'{path[-1]} is a number above 0 in quotes, such as "2000.00".', path)
            return None
        return value


def _quota_name(key: Mapping[str, str]) -> str:
    return next(iter(key.values()), "claims")


def _limits(limits: Mapping[str, int]) -> str:
    return ", ".join(f"{value} {key}" for key, value in limits.items()) or "none"


def _team(slug: str) -> Team:
    return Team.objects.get(slug=slug)


def _add(by: User, *, slug: str, name: str, role: Role) -> None:
    add_member(by=by, team=_team(slug), username=name, role=role)


def _set_namespace(by: User, *, slug: str, cluster: Cluster, namespace: str) -> None:
    set_namespace(by=by, team=_team(slug), cluster=cluster, namespace=namespace)


def _set_quota(by: User, *, slug: str, fields: dict[str, Any]) -> None:
    profile = Profile.objects.get(slug=fields["profile"]) if "profile" in fields else None
    set_quota(by=by, team=_team(slug), **{**fields, "profile": profile})


def _terms(terms: Mapping[str, str]) -> str:
    return ", ".join(f"{key} {value}" for key, value in terms.items()) or "none"


def _set_budget(by: User, *, slug: str, title: str, fields: dict[str, Any]) -> None:
    set_budget(by=by, team=_team(slug), title=title, **fields)


@dataclass(slots=True)
class RuleDocument(ConfigDocument):
    """An approval rule. It is complete: a key that is left out has its default."""

    kind, subject = RULE, "rule"
    keys = frozenset(
        (
            "team",
            "profile",
            "approval",
            "automaticDevices",
            "automaticDuration",
            "selfApproval",
            "escalateAfter",
        )
    )

    def identity(self) -> str:
        team, profile = (str(self.content.get(key, "")) for key in ("team", "profile"))
        if not team and not profile:
            self.refuse("an approval rule needs a team, a profile, or both.", ())
        return f"{team or 'every team'}, {profile or 'every profile'}"

    def change(self, known: Known) -> Change:
        change = Change(self.kind, self.identity())
        slugs = {key: self.text((key,), self.content.get(key, "")) for key in ("team", "profile")}
        for key, names in (("team", known.teams), ("profile", known.profiles)):
            if slugs[key] and slugs[key] not in names:
                self.refuse(f"there is no {key} {slugs[key]}.", (key,))
        values = self._values()
        row = ApprovalRule.objects.filter(
            team__slug=slugs["team"] or None, profile__slug=slugs["profile"] or None
        ).first()
        if row is None:
            change.add(f"new: {_settings(values)}", partial(_save_rule, slugs=slugs, values=values))
            return change
        before = {column: getattr(row, column) for column in values}
        if before != values:
            line = f"{_settings(before)} → {_settings(values)}"
            change.add(line, partial(_save_rule, slugs=slugs, values=values))
        return change

    def _values(self) -> dict[str, Any]:
        get = self.content.get
        return {
            "approval": next(
                iter(self.choices(("approval",), [get("approval", "")], ["", *Approval.values])), ""
            ),
            "automatic_devices": self.number(
                ("automaticDevices",), get("automaticDevices", 0), 0, ApprovalRule.MOST
            ),
            "automatic_duration": self._duration("automaticDuration"),
            "self_approval": self.flag(("selfApproval",), get("selfApproval", False)),
            "escalate_after": self._duration("escalateAfter"),
        }

    def _duration(self, key: str) -> timedelta | None:
        return self.duration((key,), self.content[key], None) if key in self.content else None


def _settings(values: Mapping[str, Any]) -> str:
    """Return "lead, automatic devices 2, escalate after 12h"."""
    words = [
        value if column == "approval" else f"{column.replace('_', ' ')} {shown(value)}"
        for column, value in values.items()
        if value
    ]
    return ", ".join(words) or "as the profile says"


def _save_rule(by: User, *, slugs: Mapping[str, str], values: dict[str, Any]) -> None:
    team = _team(slugs["team"]) if slugs["team"] else None
    profile = Profile.objects.get(slug=slugs["profile"]) if slugs["profile"] else None
    save_rule(by=by, team=team, profile=profile, **values)


@dataclass(slots=True)
class RateDocument(ConfigDocument):
    """A rate, identified by what it prices and from when. A rate that applies already cannot change."""

    kind, subject = RATE, "rate"
    keys = frozenset(
        (
            *("title", "product", "driver", "cluster", "expression"),
            *("perHour", "currency", "validFrom", "validUntil"),
        )
    )

    def identity(self) -> str:
        named = [str(self.content.get(key, "")) or f"every {key}" for key in ("product", "driver", "cluster")]
        if expression := str(self.content.get("expression", "")).strip():
            named.append(expression)
        return f"{', '.join(named)}, from {self.content.get('validFrom', '')}"

    def change(self, known: Known) -> Change:
        get = self.content.get
        change = Change(self.kind, self.identity())
        cluster = None
        if name := self.text(("cluster",), get("cluster", "")):
            cluster = known.clusters.get(name)
            if cluster is None:
                self.refuse(f"there is no cluster {name}.", ("cluster",))
        key: dict[str, Any] = {
            "product": self.text(("product",), get("product", "")),
            "driver": self.text(("driver",), get("driver", "")),
            "cluster": cluster,
            "expression": self._expression(get("expression", "")),
            "valid_from": self._instant(get("validFrom")),
        }
        values: dict[str, Any] = {
            "title": self.text(("title",), get("title", ""), required=True),
            "per_hour": self._price(get("perHour")),
            "currency": self.text(("currency",), get("currency", ""), required=True).upper(),
        }
        until = self._instant(get("validUntil"), "validUntil") if get("validUntil") else None
        row = Rate.objects.filter(**key).first()
        if row is None:
            values["valid_until"] = until
            change.note(matches_nothing(Rate(**key, **values)))
            line = f"new: {values['per_hour']} {values['currency']} per hour"
            change.add(line, lambda by: save_rate(by=by, **key, **values))
            return change
        before = {column: getattr(row, column) for column in values}
        if before == values and until and until != row.valid_until:
            change.add(f"ends: {utc_moment(until)}", lambda by: retire_rate(by=by, rate=row, until=until))
        if before == values:
            return change
        values["valid_until"] = before["valid_until"] = row.valid_until
        if row.valid_from <= timezone.now():
            self.refuse(
                f"“{row.title}” applies and has been billed. Add a rate with a later validFrom instead.",
                (),
            )
        for column, value in values.items():
            if before[column] != value:
                change.lines.append(f"{column}: {shown(before[column])} → {shown(value)}")
        change.steps.append(lambda by: save_rate(by=by, rate=row, **key, **values))
        return change

    def _expression(self, raw: Any) -> str:
        text = self.text(("expression",), raw).strip()
        if text:
            try:
                require_expression(text)
            except Invalid as refusal:
                self.refuse(refusal.message, ("expression",))
                return ""
        return text

    def _price(self, raw: Any) -> Decimal:
        try:
            price = Decimal(raw) if isinstance(raw, str) else Decimal(-1)
        except InvalidOperation:
            price = Decimal(-1)
        if not price.is_finite() or price < 0:
            self.refuse('perHour must be a price in quotes, such as "2.90".', ("perHour",))
            return Decimal(0)
        return price

    def _instant(self, raw: Any, key: str = "validFrom") -> datetime:
        # YAML reads an unquoted time as one: 2026-11-01T00:00:00Z.
        try:
            instant = raw if isinstance(raw, datetime) else datetime.fromisoformat(str(raw))
        except ValueError:
            self.refuse(f"{key} must be a time such as 2026-11-01T00:00:00+00:00.", (key,))
            return timezone.now()
        return instant if instant.tzinfo else instant.replace(tzinfo=UTC)


DOCUMENTS: dict[str, type[ConfigDocument]] = {
    document.kind: document
    for document in (InstallationDocument, ClusterDocument, TeamDocument, RuleDocument, RateDocument)
}


def yes(value: bool) -> str:  # noqa: FBT001
    return "yes" if value else "no"


def shown(value: object) -> str:
    if isinstance(value, bool):
        return yes(value)
    if isinstance(value, timedelta):
        return spell_duration(value)
    return str(value) if value not in ("", None) else "–"
