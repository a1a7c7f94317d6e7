"""The plan of a whole file, and carrying it out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from claims.approvals.services import remove_rule
from claims.catalogue import services as catalogue
from claims.catalogue.definition import ProfileDefinition
from claims.catalogue.yaml_export import KIND as PROFILE
from claims.catalogue.yaml_import import definitions_of
from claims.models import ApprovalRule
from core.yaml_documents import YamlDocument, read_documents, require_sound
from portal.configuration.documents import (
    DOCUMENTS,
    Change,
    ConfigDocument,
    Known,
    RuleDocument,
    TeamDocument,
    shown,
)
from portal.configuration.export import (
    CLUSTER,
    GROUP_RULE,
    INSTALLATION,
    PROVIDER,
    RATE,
    RULE,
    TEAM,
)
from portal.configuration.identity import IDENTITY_DOCUMENTS, ProviderDocument, removed_rules
from teams.access import require_admin
from teams.models import User

KINDS = (
    INSTALLATION,
    CLUSTER,
    PROFILE,
    TEAM,
    RULE,
    RATE,
    PROVIDER,
    GROUP_RULE,
)  # in the order in which they are applied


@dataclass(slots=True)
class Plan:
    """What each document changes, and what is removed."""

    changes: list[Change]

    @property
    def due(self) -> list[Change]:
        return [change for change in self.changes if change.lines]

    @property
    def notes(self) -> list[str]:
        return [f"{change.kind} {change.name}: {note}" for change in self.changes for note in change.notes]


def read_plan(text: str, name: str, *, by: User, prune: bool = False) -> Plan:
    """
    Return what the file called `name` changes; write nothing.

    With `prune`, approval rules that the file does not have are removed and profiles retired. Raises
    Invalid with all problems, each with file and line, and Forbidden.
    """
    require_admin(by)
    raw = read_documents(text, name, subject="document")
    by_kind: dict[str, list[YamlDocument]] = {kind: [] for kind in KINDS}
    for document in raw:
        kind = document.content.get("kind") if isinstance(document.content, dict) else None
        if kind in by_kind:
            by_kind[kind].append(document)
        else:
            document.refuse(f"kind must be one of {', '.join(KINDS)}.", ("kind",))
    require_sound(raw)
    documents = [
        (DOCUMENTS | IDENTITY_DOCUMENTS)[kind](document.name, document.node, document.content)
        for kind, rows in by_kind.items()
        if kind != PROFILE
        for document in rows
    ]
    for document in documents:
        document.keys_of(document.kind, document.keys)
    _refuse_duplicates(documents)
    require_sound(documents)
    definitions = definitions_of(by_kind[PROFILE])
    known = Known.read().with_new(
        teams=[row.identity() for row in documents if isinstance(row, TeamDocument)],
        profiles=[definition.slug for definition in definitions],
        providers=[row.identity() for row in documents if isinstance(row, ProviderDocument)],
    )
    unknown = [
        f"{definition.place('teams')}: there is no team {team}."
        for definition in definitions
        for team in definition.teams
        if team not in known.teams
    ]
    changes = [document.change(known) for document in documents]
    require_sound(documents, *unknown)
    profiles = _profile_changes(by, definitions, prune=prune)
    return Plan([*changes, *profiles, *(_removed(documents) if prune else ())])


def _refuse_duplicates(documents: Iterable[ConfigDocument]) -> None:
    seen: Counter[tuple[str, str]] = Counter()
    for document in documents:
        key = document.kind, document.identity()
        seen[key] += 1
        if seen[key] == 2:
            document.refuse(f"{document.kind} {key[1]} is there twice.", ())


def _profile_changes(by: User, definitions: Sequence[ProfileDefinition], *, prune: bool) -> list[Change]:
    """Return the changes of the catalogue; the first carries out all of them, in one transaction."""
    if not definitions and not prune:
        return []
    changes = []
    for row in catalogue.plan_import(by=by, definitions=definitions, prune=prune):
        change = Change(PROFILE, row.slug)
        if row.changes_something:
            change.lines.append(row.kind)
            change.lines += [
                f"{difference.key}: {shown(difference.before)} → {shown(difference.after)}"
                for difference in row.differences
            ]
            change.lines += row.spec
            change.steps.append(
                lambda by: catalogue.import_profiles(by=by, definitions=definitions, prune=prune)
            )
        changes.append(change)
    for later in [change for change in changes if change.steps][1:]:
        later.steps = []
    return changes


def _removed(documents: list[ConfigDocument]) -> Iterator[Change]:
    yield from _removed_rules(documents)
    yield from removed_rules(documents)


def _removed_rules(documents: Iterable[ConfigDocument]) -> Iterator[Change]:
    named = {document.identity() for document in documents if isinstance(document, RuleDocument)}
    for rule in ApprovalRule.objects.select_related("team", "profile"):
        name = f"{rule.team or 'every team'}, {rule.profile or 'every profile'}"
        if name not in named:
            change = Change(RuleDocument.kind, name)
            change.add("removed", partial(_remove_rule, rule=rule))
            yield change


def _remove_rule(by: User, *, rule: ApprovalRule) -> None:
    remove_rule(by=by, rule=rule)


def apply_plan(plan: Plan, *, by: User) -> Iterator[Change]:
    """
    Carry the plan out; yield each change once it is done.

    New teams come first, since profiles may be for them, and quotas and rules name profiles. Each service has
    its own transaction: what is done before an error stays, and a second run continues. Raises as they do.
    """
    for change in plan.changes:
        if change.is_new_team:
            change.steps.pop(0)(by=by)
    for change in sorted(plan.changes, key=lambda change: KINDS.index(change.kind)):
        for step in change.steps:
            step(by=by)
        if change.lines:
            yield change
