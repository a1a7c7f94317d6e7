"""The portal as one person sees it."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime, timedelta
from types import TracebackType
from typing import Any, Literal

import httpx

from dragoman._async.claim import AsyncClaim, AsyncPendingClaim
from dragoman._async.transport import AsyncTransport
from dragoman.config import Settings, find_settings
from dragoman.display import Display, DisplayName
from dragoman.errors import ConfigurationError, Invalid, NotFound
from dragoman.remember import Remembered, remember
from dragoman.request import ClaimRequest, Delivery, Until
from dragoman.results import (
    LIVE,
    ClaimCost,
    ClaimInfo,
    Cluster,
    Explanation,
    Extension,
    Import,
    Manifest,
    Match,
    Me,
    Pending,
    Profile,
    TeamCost,
    Usage,
)
from dragoman.text import duration_value

LARGE_PAGE = 500


class AsyncClient:
    """
    A client of the portal. Each write has an Idempotency-Key, so it may be sent again and acts once.

    Without arguments, DRAGOMAN_URL and DRAGOMAN_TOKEN or ~/.config/dragoman/config.toml say where and who.
    `ca` is a file with the authority of the portal's certificate, if it is none of the usual ones.
    """

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        context: str | None = None,
        timeout: float = 30.0,
        tries: int = 5,
        ca: str = "",
        http: httpx.AsyncClient | None = None,
    ) -> None:
        self.settings: Settings = find_settings(url, token, context)
        self._transport = AsyncTransport(self.settings, timeout=timeout, tries=tries, ca=ca, http=http)

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        await self._transport.aclose()

    # Who and what there is

    async def me(self) -> Me:
        return Me.of(await self._transport.get("me/"))

    async def clusters(self) -> list[Cluster]:
        return [Cluster.of(row) async for row in self._transport.pages("clusters/")]

    async def profiles(
        self,
        words: str = "",
        *,
        memory: int | None = None,
        model: str = "",
        sharing: str = "",
        price: float | None = None,
        free: bool = False,
        mine: bool = False,
        automatic: bool = False,
    ) -> list[Profile]:
        """
        Return the profiles of the catalogue that meet all conditions.

        `memory` is the least of each device in GB, `price` the highest per device and hour. `free`: a device
        is free now; `mine`: you may request it; `automatic`: some requests need no approval.
        """
        params: dict[str, Any] = {
            "q": words,
            "memory": memory,
            "model": model,
            "sharing": sharing,
            "price": price,
        }
        params |= {
            name: "true"
            for name, chosen in (("free", free), ("mine", mine), ("automatic", automatic))
            if chosen
        }
        return [Profile.of(row) async for row in self._transport.pages("profiles/", params=params)]

    async def profile(self, slug: str) -> Profile:
        return Profile.of(await self._transport.get(f"profiles/{part(slug)}/"))

    # Requests

    def claim(  # noqa: PLR0913 (a request, and how to wait for it)
        self,
        profile: str,
        *,
        team: str | None = None,
        cluster: str | None = None,
        hours: float | None = None,
        duration: str | timedelta | None = None,
        devices: int = 1,
        alternatives: Sequence[str] = (),
        together: Mapping[str, int] | None = None,
        parallel: int = 1,
        delivery: Delivery = "claim",
        name: str = "",
        reason: str = "",
        key: str = "",
        until: Until = "usable",
        timeout: float | None = None,
        keep: bool = False,
        keep_alive: str | timedelta | None = "15m",
        display: DisplayName | Display = "auto",
    ) -> AsyncPendingClaim:
        """
        Use a claim for the time of a block:

            async with client.claim("notebook-24g", hours=4, team="vision") as claim:
                print(claim.name, claim.devices)

        Requests it, waits until it is usable and says why it waits, releases it at the end, also after an
        exception. With `until="allocated"` it waits until a pod holds the devices. `keep` does not release
        it. `timeout` is the longest wait in seconds. The same `key` finds the same claim again.

        The block renews the claim while it lasts. If it cannot, because its process was killed or its machine
        sleeps, the portal ends the claim after `keep_alive`: 1m to 7d, None for never.
        """
        request = ClaimRequest(
            profile,
            team,
            cluster,
            hours,
            duration,
            devices,
            alternatives,
            together,
            parallel,
            delivery,
            name,
            reason,
            None if keep else keep_alive,
        )
        return AsyncPendingClaim(
            self, request, key=key, until=until, timeout=timeout, keep=keep, display=display
        )

    async def request(
        self,
        profile: str,
        *,
        team: str | None = None,
        cluster: str | None = None,
        hours: float | None = None,
        duration: str | timedelta | None = None,
        devices: int = 1,
        alternatives: Sequence[str] = (),
        together: Mapping[str, int] | None = None,
        parallel: int = 1,
        delivery: Delivery = "claim",
        name: str = "",
        reason: str = "",
        key: str = "",
        keep_alive: str | timedelta | None = None,
    ) -> AsyncClaim:
        """
        Request a claim and return it at once. It lives until it is released or expires.

        With `keep_alive`, such as "15m", it ends when this process has not renewed it for that long.
        """
        request = ClaimRequest(
            profile,
            team,
            cluster,
            hours,
            duration,
            devices,
            alternatives,
            together,
            parallel,
            delivery,
            name,
            reason,
            keep_alive,
        )
        return await self.request_claim(request, key=key)

    async def match(
        self,
        profile: str,
        *,
        team: str | None = None,
        cluster: str | None = None,
        hours: float | None = None,
        duration: str | timedelta | None = None,
        devices: int = 1,
        alternatives: Sequence[str] = (),
        together: Mapping[str, int] | None = None,
        parallel: int = 1,
        delivery: Delivery = "claim",
        help: bool = False,
    ) -> Match:
        """
        Preview a request: what matches and is free now, quota, who approves. Nothing is reserved.

        With `help`, what would help and other profiles are included also if it fits.
        """
        request = ClaimRequest(
            profile, team, cluster, hours, duration, devices, alternatives, together, parallel, delivery
        )
        team_slug = await self._team(team)
        clusters = await self._clusters_for(request, team_slug)
        if not clusters:
            raise ConfigurationError("The portal has no cluster that takes requests.")
        body = request.body(team=team_slug, cluster=clusters[0])
        return await self._match(body | {"help": True} if help else body)

    async def request_claim(
        self, request: ClaimRequest, *, key: str = "", beat: Callable[[], None] = lambda: None
    ) -> AsyncClaim:
        """
        Request a claim in its cluster, or in the one where it fits best now, and keep it alive if it says so.

        A request that was sent before with this key is found again where it went then. `beat` is called at
        least each 15 s while it is kept alive.
        """
        key, team = key or uuid.uuid4().hex, await self._team(request.team)
        first_refusal: Invalid | None = None
        for cluster in await self._clusters_for(request, team):
            body = request.body(team=team, cluster=cluster)
            if request.reason:
                body["reason"] = request.reason
            if request.keep_alive:
                body["keep_alive"] = duration_value(None, request.keep_alive)
            try:
                claim = AsyncClaim(self, ClaimInfo.of(await self._transport.post("claims/", body, key=key)))
                if claim.info.is_live:
                    claim.renew(beat)
                return claim
            except Invalid as refusal:
                if refusal.fields:
                    raise
                first_refusal = first_refusal or refusal  # of this cluster, or the key was sent to another
        raise first_refusal or ConfigurationError("The portal has no cluster that takes requests.")

    def _remember(self, request: ClaimRequest) -> Remembered:
        return remember(self.settings.url, vars(request))

    async def request_remembered(self, request: ClaimRequest, remembered: Remembered) -> AsyncClaim:
        """Request a claim, or find the one that this notebook requested and did not release."""
        claim = await self.request_claim(request, key=remembered.key, beat=remembered.beat)
        if remembered.file is not None and not claim.info.is_live:
            remembered.renew()  # the claim of the last time has ended meanwhile
            claim = await self.request_claim(request, key=remembered.key, beat=remembered.beat)
        return claim

    async def find(self, key: str) -> AsyncClaim | None:
        """Return the claim that you requested with this key, None if there is none."""
        async for row in self._transport.pages("claims/", params={"key": key}):
            return AsyncClaim(self, ClaimInfo.of(row))
        return None

    async def _team(self, team: str | None) -> str:
        return team or self.settings.team or await self._only_team()

    async def _only_team(self) -> str:
        me = await self.me()
        teams = [membership.team for membership in me.teams if membership.role != "viewer"]
        if len(teams) != 1:
            nobody = "You are a member of no team that may request. Ask an owner of your team."
            if me.platform_admin:
                nobody = "You are a member of no team; as platform admin you may request for each: name it."
            raise ConfigurationError(f"Which team? Name one of: {', '.join(teams)}." if teams else nobody)
        return teams[0]

    async def _clusters_for(self, request: ClaimRequest, team: str) -> list[str]:
        """Return the cluster of a request; if it names none, those that take requests, the best first."""
        if request.cluster:
            return [request.cluster]
        names = [
            cluster.name for cluster in await self.clusters() if cluster.enabled and not cluster.read_only
        ]
        if len(names) < 2:
            return names
        ranks = {}
        for name in names:
            try:
                match = await self._match(request.body(team=team, cluster=name))
            except Invalid:
                ranks[name] = (False, False, -1)  # a rule of this cluster does not allow it
            else:
                ranks[name] = (match.fits, match.match.fits, match.match.claims_that_fit or 0)
        return sorted(names, key=lambda name: ranks[name], reverse=True)

    async def import_manifests(self, text: str, *, name: str = "The text") -> Import:
        """Say what manifests, YAML or JSON, request, and which profiles give it. Nothing is created."""
        return Import.of(await self._transport.post("claims/import/", {"text": text, "name": name}))

    async def _match(self, body: Mapping[str, Any]) -> Match:
        return Match.of(await self._transport.post("match/", body))

    # Claims

    async def claims(
        self,
        *,
        state: Iterable[str] = (),
        team: str = "",
        cluster: str = "",
        profile: str = "",
        name: str = "",
        mine: bool = False,
    ) -> AsyncIterator[AsyncClaim]:
        """Yield the claims that you may see, newest first."""
        params: dict[str, Any] = {"state": list(state), "team": team, "cluster": cluster, "profile": profile}
        params |= {"name": name, "limit": LARGE_PAGE, "mine": "true" if mine else ""}
        async for row in self._transport.pages("claims/", params=params):
            yield AsyncClaim(self, ClaimInfo.of(row))

    async def get(self, claim: str, *, ended: bool = False) -> AsyncClaim:
        """
        Return a claim by its id, or a live one by its name: your own first. Raises NotFound.

        With `ended`, one of yours that is over is found by its name too.
        """
        if is_id(claim):
            return AsyncClaim(self, await self.info(claim))
        live = (*LIVE, "releasing")
        for states, mine in ((live, True), (live, False), *([((), True)] if ended else [])):
            async for found in self.claims(state=states, name=claim, mine=mine):
                if found.name == claim:
                    await found.refresh()
                    return found
        also = "" if ended else " An ended claim is found by its id."
        raise NotFound(
            f"There is no {'' if ended else 'live '}claim {claim} that you may see.{also}", status=404
        )

    async def info(self, claim: str, *, wait: int = 0, version: int | None = None) -> ClaimInfo:
        """Return a claim; with `wait` seconds and `version`, as soon as it is another version."""
        params = {"wait": wait, "version": version} if wait else None
        return ClaimInfo.of(await self._transport.get(f"claims/{part(claim)}/", params=params, wait=wait))

    async def why(self, claim: str | AsyncClaim) -> Explanation:
        """Return who acts next on a claim, and why."""
        return Explanation.of(await self._transport.get(await self._path(claim, "explain")))

    async def manifest(self, claim: str | AsyncClaim, **options: str | int | list[str]) -> Manifest:
        return Manifest.of(await self._transport.get(await self._path(claim, "manifest"), params=options))

    async def usage(self, claim: str | AsyncClaim, *, range: str = "24h") -> Usage:
        """Return the utilization of a claim over time; `.frame()` is a DataFrame."""
        return Usage.of(await self._transport.get(await self._path(claim, "usage"), params={"range": range}))

    async def cost(self, claim: str | AsyncClaim) -> ClaimCost:
        return ClaimCost.of(await self._transport.get(await self._path(claim, "cost")))

    async def costs(self, team: str | None = None, month: str = "") -> TeamCost:
        """Return GPU-hours and cost of a team in a month such as 2026-11 (UTC); this month by default."""
        params = {"team": await self._team(team), "month": month}
        return TeamCost.of(await self._transport.get("costs/", params=params))

    async def extend(
        self, claim: str | AsyncClaim, *, until: datetime, reason: str = "", key: str = ""
    ) -> Extension:
        """Ask for a later end of a claim. `until` needs a time zone: raises ValueError without one."""
        if until.tzinfo is None:
            raise ValueError("The end needs a time zone: datetime(…, tzinfo=timezone.utc).")
        body = {"until": until.isoformat(), "reason": reason}
        return Extension.of(await self._transport.post(await self._path(claim, "extend"), body, key=key))

    async def release(self, claim: str | AsyncClaim, reason: str = "") -> ClaimInfo:
        """End a claim. Harmless if it has ended; raises NotFound if you have never had one of this name."""
        found = claim if isinstance(claim, AsyncClaim) else await self.get(claim, ended=True)
        return await found.release(reason)

    async def approve(self, claim: str | AsyncClaim, *, note: str = "") -> ClaimInfo:
        """Approve what the claim requests now; a request that changes meanwhile is not approved."""
        info = await self.info(await self._id(claim))
        return await self.act(info.id, "approve", {"spec_hash": info.spec_hash, "note": note})

    async def deny(self, claim: str | AsyncClaim, reason: str) -> ClaimInfo:
        return await self.act(await self._id(claim), "deny", {"reason": reason})

    async def act(self, claim: str, action: str, body: Mapping[str, Any]) -> ClaimInfo:
        return ClaimInfo.of(await self._transport.post(f"claims/{part(claim)}/{action}/", body))

    async def approvals(
        self, tab: Literal["mine", "team", "all", "decided"] = "mine"
    ) -> AsyncIterator[Pending]:
        """Yield the requests of the inbox: `mine` wait for you."""
        async for row in self._transport.pages("approvals/", params={"tab": tab}):
            yield Pending.of(row)

    def focus(
        self,
        month: str = "",
        *,
        format: Literal["csv", "parquet"] = "csv",
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Read the cost of all claims in a month in the format of FOCUS, in pieces; for platform admins."""
        params = {"format": format} | ({"month": month} if month else {})
        return self._transport.stream("costs/focus/", params=params)

    async def _path(self, claim: str | AsyncClaim, part_of_it: str) -> str:
        claim_id = await self._id(claim)
        return f"claims/{claim_id}/{part_of_it}/"

    async def _id(self, claim: str | AsyncClaim) -> str:
        if isinstance(claim, AsyncClaim):
            return claim.id
        return claim if is_id(claim) else (await self.get(claim)).id


def is_id(text: str) -> bool:
    try:
        uuid.UUID(text)
    except ValueError:
        return False
    return True


def part(text: str) -> str:
    """Return a name for use in an address. Raises NotFound for a text that would lead elsewhere."""
    if not text or not all(letter.isalnum() or letter in "-_." for letter in text) or text.strip(".") == "":
        raise NotFound(f"There is nothing called “{text}”.", status=404, code="not-found")
    return text
