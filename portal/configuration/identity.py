"""Documents of sign-in: identity providers without their secrets, and group rules."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

from core.errors import Invalid
from portal.configuration.documents import Change, ConfigDocument, Known, shown
from portal.configuration.export import GROUP_RULE, PROVIDER
from teams.identity.discovery import require_address
from teams.identity.models import GroupRule, IdentityProvider
from teams.identity.services import add_provider, change_provider, remove_rule, save_rule, set_enabled
from teams.models import Role, Team, User

ADMINS = "platform admins"


@dataclass(slots=True)
class ProviderDocument(ConfigDocument):
    """An identity provider. Its client secret is given on its page; without one it cannot be enabled."""

    kind, subject = PROVIDER, "provider"
    TEXTS: ClassVar = {
        "title": "title",
        "issuer": "issuer",
        "clientId": "client_id",
        "scopes": "scopes",
        "groupsClaim": "groups_claim",
        "externalIdClaim": "external_id_claim",
        "acrValues": "acr_values",
    }
    FLAGS: ClassVar = {
        "trustsEmail": "trusts_email",
        "admitsEverybody": "admits_everybody",
        "suspendsTokens": "suspends_tokens",
        "signsOut": "signs_out",
    }
    keys = frozenset(("slug", *TEXTS, *FLAGS, "position", "enabled"))

    def identity(self) -> str:
        return self.text(("slug",), self.content.get("slug", ""), required=True)

    def change(self, known: Known) -> Change:
        slug = self.identity()
        change = Change(self.kind, slug)
        row = IdentityProvider.objects.defer("sealed").filter(slug=slug).first()
        wanted = self._wanted(is_new=row is None)
        if row is None:
            change.add(f"new: {wanted.get('title')}", lambda by: add_provider(by=by, slug=slug, **wanted))
            if self.content.get("enabled"):
                change.notes.append("has no client secret: give it one on its page, then apply again")
            return change
        different = {column: value for column, value in wanted.items() if getattr(row, column) != value}
        for number, (column, value) in enumerate(different.items()):
            change.lines.append(f"{column}: {shown(getattr(row, column))} → {shown(value)}")
            if not number:
                change.steps.append(lambda by: change_provider(by=by, provider=row, **different))
        self._enabled(change, row)
        return change

    def _wanted(self, *, is_new: bool) -> dict[str, Any]:
        wanted: dict[str, Any] = {}
        for key, column in self.TEXTS.items():
            if key in self.content or (is_new and key in ("title", "issuer", "clientId")):
                needed = key in ("title", "issuer", "clientId")
                wanted[column] = self.text((key,), self.content.get(key, ""), required=needed)
        for key, column in self.FLAGS.items():
            if key in self.content:
                wanted[column] = self.flag((key,), self.content[key])
        if "position" in self.content:
            wanted["position"] = self.number(("position",), self.content["position"], 0, 999)
        if wanted.get("issuer"):
            try:
                wanted["issuer"] = require_address(wanted["issuer"], field="issuer")
            except Invalid as refusal:
                self.refuse(f"issuer: {refusal.message}", ("issuer",))
        return wanted

    def _enabled(self, change: Change, row: IdentityProvider) -> None:
        if "enabled" not in self.content:
            return
        enabled = self.flag(("enabled",), self.content["enabled"])
        if enabled and row.secret_set_at is None:
            change.notes.append("has no client secret: give it one on its page, then apply again")
        elif enabled != row.enabled:
            step = partial(set_enabled, provider=row, enabled=enabled)
            change.add(f"enabled: {shown(row.enabled)} → {shown(enabled)}", step)


@dataclass(slots=True)
class GroupRuleDocument(ConfigDocument):
    """What the members of a group get: `role` in `team`, or `platformAdmin: true`."""

    kind, subject = GROUP_RULE, "group rule"
    keys = frozenset(("provider", "group", "team", "role", "platformAdmin"))

    def identity(self) -> str:
        provider, group = (
            self.text((key,), self.content.get(key, ""), required=True) for key in ("provider", "group")
        )
        return rule_name(provider, group, str(self.content.get("team", "")))

    def change(self, known: Known) -> Change:
        change = Change(self.kind, self.identity())
        slug, group = str(self.content.get("provider", "")), str(self.content.get("group", ""))
        team = self.text(("team",), self.content.get("team", ""))
        is_admin = self.flag(("platformAdmin",), self.content.get("platformAdmin", False))
        if bool(team) == is_admin:
            self.refuse("a group rule has a team with a role, or platformAdmin: true.", ())
        if team and team not in known.teams:
            self.refuse(f"there is no team {team}.", ("team",))
        if slug not in known.providers:
            self.refuse(f"there is no identity provider {slug}.", ("provider",))
        role = ""
        if team:
            role = next(iter(self.choices(("role",), [self.content.get("role", "")], Role.values)), "")
        row = GroupRule.objects.filter(provider__slug=slug, pattern=group, team__slug=team or None).first()
        step = partial(_save_rule, slug=slug, group=group, team=team, role=role)
        if row is None:
            change.add(f"new: {role or ADMINS}", step)
        elif row.role != role:
            change.add(f"role: {row.role} → {role}", step)
        return change


def rule_name(provider: str, group: str, team: str) -> str:
    return f"{provider}, {group}, {team or ADMINS}"


def _save_rule(by: User, *, slug: str, group: str, team: str, role: str) -> None:
    provider = IdentityProvider.objects.get(slug=slug)
    of = Team.objects.get(slug=team) if team else None
    row = GroupRule.objects.filter(provider=provider, pattern=group, team=of).first()
    save_rule(by=by, provider=provider, pattern=group, team=of, role=role, rule=row)


def removed_rules(documents: list[ConfigDocument]) -> list[Change]:
    """Return the removal of each rule that the documents do not name."""
    named = {document.identity() for document in documents if isinstance(document, GroupRuleDocument)}
    changes = []
    for rule in GroupRule.objects.select_related("provider", "team"):
        name = rule_name(rule.provider.slug, rule.pattern, rule.team.slug if rule.team else "")
        if name not in named:
            change = Change(GROUP_RULE, name)
            change.add("removed", partial(_remove_rule, rule=rule))
            changes.append(change)
    return changes


def _remove_rule(by: User, *, rule: GroupRule) -> None:
    remove_rule(by=by, rule=rule)


IDENTITY_DOCUMENTS: dict[str, type[ConfigDocument]] = {
    document.kind: document for document in (ProviderDocument, GroupRuleDocument)
}
