"""The menu of a claim on Home: the actions that the page of the claim offers in its state."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple
from uuid import UUID

from django.urls import reverse

from claims.access import reason_not_to_release
from claims.models import Claim
from claims.states import RUNNING, USABLE, ClaimState
from portal.context import Shell
from portal.home.parts import MyClaims, OwnClaim
from teams.access import user_of
from teams.models import Role


class MenuAction(NamedTuple):
    label: str
    icon: str
    url: str


def claims_with_menus(shell: Shell, mine: MyClaims) -> list[tuple[OwnClaim, list[MenuAction]]]:
    """Return the shown claims, each with the actions of the reader; no query."""
    replaced = {row.claim.replaces_id for row in mine.rows if not row.claim.is_final}
    return [(row, claim_actions(shell, row.claim, replaced)) for row in mine.shown]


def claim_actions(shell: Shell, claim: Claim, replaced: Collection[UUID | None]) -> list[MenuAction]:
    """Return what the reader may do; a claim that is being `replaced` cannot be extended."""
    role = Role.OWNER if shell.is_admin else shell.roles.get(claim.team)
    if reason_not_to_release(user_of(shell.request), claim, role):
        return []
    if claim.state == ClaimState.REQUESTED:
        return [_action("Withdraw…", "arrow-back-up", "claims:withdraw", claim)]
    if claim.state not in RUNNING:
        return []
    actions = []
    if claim.state in USABLE:
        manifest = reverse("claims:detail", args=[claim.pk])
        actions.append(MenuAction("Get the manifest", "code", f"{manifest}#snippets"))
    if claim.expires_at and claim.pk not in replaced:
        actions.append(_action("Extend…", "calendar-plus", "claims:extend", claim))
    if claim.expires_at and not claim.is_in_grace:
        actions.append(_action("Shorten…", "clock-pause", "claims:shorten", claim))
    return [
        *actions,
        _action("Transfer…", "user-check", "claims:transfer", claim),
        _action("Release…", "player-eject", "claims:release", claim),
    ]


def _action(label: str, icon: str, name: str, claim: Claim) -> MenuAction:
    return MenuAction(label, icon, reverse(name, args=[claim.pk]))
