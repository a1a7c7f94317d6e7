"""One claim: what it holds, why it waits, and its end."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from types import TracebackType
from typing import TYPE_CHECKING

from dragoman.display import Display, DisplayName, Waiting, display_for
from dragoman.errors import (
    ClaimEnded,
    Conflict,
    DragomanError,
    NotFound,
    TooManyRequests,
    Unavailable,
    WaitTimeout,
)
from dragoman.keepalive import KeepAlive, end_on_sigterm, note, renewal, tell
from dragoman.remember import Remembered
from dragoman.request import ClaimRequest, Until
from dragoman.results import (
    ALLOCATED,
    REQUESTED,
    ClaimCost,
    ClaimInfo,
    Device,
    Explanation,
    Extension,
    Manifest,
    Snippet,
    Usage,
)
from dragoman.text import now, span, state_label

if TYPE_CHECKING:
    from dragoman._async.client import AsyncClient

LONG_POLL = 10  # seconds: the portal answers earlier if the claim changes; why it waits is read in between
SHORT_POLL = 1.0  # seconds, where the portal has no slot for long polling
AWAY_PAUSE = 5.0  # seconds between tries while the portal is away, beside the pauses of each try
RELEASE_PATIENCE = 180.0  # seconds in which a block tries to release its claim
LOOKS = 3  # until claim and explanation are of one version
AGAIN = (Unavailable, TooManyRequests)


class AsyncClaim:
    """
    A claim. `info` is what was read last; `refresh` reads it again.

    With `async with`, it is released at the end.
    """

    def __init__(self, client: AsyncClient, info: ClaimInfo) -> None:
        self._client, self.info = client, info
        self._keeper: KeepAlive | None = None

    @property
    def id(self) -> str:
        return self.info.id

    @property
    def name(self) -> str:
        """Name of the object in the cluster."""
        return self.info.name

    @property
    def state(self) -> str:
        return self.info.state

    @property
    def devices(self) -> tuple[Device, ...]:
        """The devices that it holds; none until a pod uses it."""
        return self.info.allocations

    @property
    def expires_at(self) -> datetime | None:
        return self.info.expires_at

    @property
    def environment(self) -> dict[str, str]:
        """
        Variables for programs that use the devices: `os.environ.update(claim.environment)`.

        Runs of MLflow and Weights & Biases that have them are shown on the page of the claim with their cost.
        """
        return {
            "CLAIM_ID": self.id,
            "CLAIM_NAME": self.name,
            "MLFLOW_RUN_CONTEXT": json.dumps({"dragoman.claim": self.id}),
            "WANDB_TAGS": f"dragoman.claim={self.id}",
            **visible_devices(self.devices),
        }

    async def refresh(self) -> ClaimInfo:
        """Read the claim again."""
        self.info = await self._client.info(self.id)
        return self.info

    async def why(self) -> Explanation:
        """Return who acts next, and why."""
        return await self._client.why(self.id)

    async def manifest(self, **options: str | int | list[str]) -> Manifest:
        """Return its object and the snippets; `options` are those of the page, such as `image="…"`."""
        return await self._client.manifest(self.id, **options)

    async def snippet(self, kind: str = "pod", **options: str | int | list[str]) -> Snippet:
        """
        Return the text of a Pod, Job, Deployment, … that uses the claim.

        Raises NotFound for a kind that is not offered for it.
        """
        manifest = await self.manifest(**options)
        found = {snippet.key: snippet for snippet in manifest.snippets}
        if kind not in found:
            raise NotFound(f"There is no snippet “{kind}” for {self.name}. There are: {', '.join(found)}.")
        return found[kind]

    async def usage(self, range: str = "24h") -> Usage:
        """Return its utilization over time; `.frame()` is a DataFrame."""
        return await self._client.usage(self.id, range=range)

    async def cost(self) -> ClaimCost:
        return await self._client.cost(self.id)

    async def extend(
        self,
        hours: float | None = None,
        *,
        by: timedelta | None = None,
        until: datetime | None = None,
        reason: str = "",
        key: str = "",
    ) -> Extension:
        """
        Ask for a later end: `hours` or `by` after the present one, or `until` a moment.

        It applies at once if `status` of the result is `approved`, else somebody decides. Raises ValueError
        unless exactly one of the three is given.
        """
        if sum(value is not None for value in (hours, by, until)) != 1:
            raise ValueError("Say by how many hours, by which timedelta, or until when.")
        if until is None:
            span = by if by is not None else timedelta(hours=hours or 0)
            info = await self.refresh()
            until = (info.expires_at or now() + timedelta(seconds=info.duration)) + span
        extension = await self._client.extend(self.id, until=until, reason=reason, key=key)
        await self.refresh()
        return extension

    async def wait(
        self,
        until: Until = "usable",
        *,
        timeout: float | None = None,
        display: DisplayName | Display = "auto",
    ) -> ClaimInfo:
        """
        Wait until pods may use the claim, or until one does (`allocated`), and show why it waits.

        A portal that does not answer is asked again until `timeout`. Raises ClaimEnded if the claim is denied
        or ends otherwise, WaitTimeout after `timeout` seconds.
        """
        shown, began = display_for(display), time.monotonic()
        last: tuple[int, str] | None = None
        wanted = 0  # seconds of a long poll; the first look is at once
        try:
            while True:
                try:
                    why = await self._look(wanted)
                except AGAIN as failure:
                    why = Explanation(headline=f"The portal does not answer, trying again: {failure}")
                    is_over, wanted = False, 0
                else:
                    is_over = is_reached(self.info, until) or not self.info.is_live
                    wanted = LONG_POLL
                now = (self.info.version, str(why))
                if now != last or is_over:
                    shown.show(Waiting(self.info, why, began, is_over))
                    last = now
                if is_over:
                    break
                left = LONG_POLL if timeout is None else began + timeout - time.monotonic()
                if left <= 0:
                    raise WaitTimeout(f"{self.name} is not ready after {timeout:.0f} s. {why}")
                if not wanted:
                    await asyncio.sleep(min(AWAY_PAUSE, left))
                wanted = min(wanted, max(1, round(left)))
        finally:
            shown.close()
        if not self.info.is_live:
            denied = self.info.state == "denied" and self.info.decision_note
            reason = denied or self.info.problem or why.sentence
            label = state_label(self.info.state).lower()
            again = "" if denied else "For another claim request it again, with a new key if you name one."
            raise ClaimEnded(f"{self.name} is {label}. {reason} {again}".strip(), state=self.info.state)
        return self.info

    async def _look(self, wait: int) -> Explanation:
        """Read the claim, if it changes within `wait` seconds, and why it is so: both of the same version."""
        if wait:
            started, before = time.monotonic(), self.info.version
            self.info = await self._client.info(self.id, wait=wait, version=before)
            if self.info.version == before and time.monotonic() - started < SHORT_POLL:
                await asyncio.sleep(SHORT_POLL)
        why = await self.why()
        for _try in range(LOOKS):  # it may change between the two answers
            if why.version in (None, self.info.version):
                break
            await self.refresh()
            why = await self.why()
        return why

    async def release(self, reason: str = "") -> ClaimInfo:
        """
        End the claim: withdraw the request, or release the devices. Harmless if it has ended.

        Raises Conflict if the portal refuses it.
        """
        return await self._release(reason)

    async def _release(self, reason: str = "", *, unless_kept: bool = False) -> ClaimInfo:
        for is_last in (False, True):
            info = await self.refresh()
            if unless_kept and info.is_live and info.raw.get("keep_alive", 0) is None:
                tell(f"{self.name} was kept on its page, so it is not released: dragoman release {self.name}")
                break
            if not info.is_live:
                break
            action = "withdraw" if info.state == REQUESTED else "release"
            try:
                self.info = await self._client.act(self.id, action, {"reason": reason})
                break
            except Conflict:  # it was decided, or ended, since it was read
                if is_last:
                    raise
        self._stop_renewing()
        return self.info

    def renew(self, beat: Callable[[], None] = lambda: None) -> None:
        """Keep a claim with `keep_alive` alive from now on, until it is released or this process ends."""
        if self.info.keep_alive and self._keeper is None:
            path = f"claims/{self.id}/keep-alive/"
            send, close = renewal(self._client._transport, path)
            self._keeper = KeepAlive(self.name, self.info.keep_alive, renew=send, close=close, beat=beat)

    def _stop_renewing(self) -> None:
        if self._keeper is not None:
            self._keeper.stop()

    @property
    def ended(self) -> str:
        """Why a claim that this process keeps alive has ended meanwhile, "" while it lives."""
        return self._keeper.ended if self._keeper else ""

    async def _end(self, error: BaseException | None) -> None:
        """
        Release it at the end of a block: with patience, and without hiding the exception of the block.

        Raises what the portal answers if nothing else is raised.
        """
        if self.ended and error is not None:
            note(error, self.ended)
        gives_up_at, said = time.monotonic() + RELEASE_PATIENCE, False
        while True:
            try:
                await self._release(unless_kept=self._keeper is not None)
                return
            except DragomanError as refusal:
                failure = refusal
                if not isinstance(refusal, AGAIN) or time.monotonic() > gives_up_at:
                    break
            except BaseException:  # interrupted once more: one more try, if the portal answers
                with suppress(DragomanError):
                    await self._release(unless_kept=self._keeper is not None)
                    raise
                tell(self._left_sentence())
                raise
            if not said:
                said = True
                tell(f"{self.name} is not released yet: {failure} Trying again for {span(RELEASE_PATIENCE)}.")
            try:
                await asyncio.sleep(AWAY_PAUSE)
            except BaseException:
                tell(self._left_sentence())
                raise
        self._stop_renewing()
        sentence = f"{failure} {self._left_sentence()}"
        if error is not None:
            note(error, sentence)
            return
        failure.args = (sentence,)
        raise failure

    def _left_sentence(self) -> str:
        seconds = self._keeper and self._keeper.seconds
        end = f"It ends by itself within {span(seconds)}" if seconds else "It lives until its end"
        return f"{self.name} is not released. {end}; to end it now: dragoman release {self.name}"

    async def __aenter__(self) -> AsyncClaim:
        self._undo = end_on_sigterm()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self._end(error)
        finally:
            self._undo()

    def __repr__(self) -> str:
        held = "".join(f"\n  {device}" for device in self.devices)
        return f"<{type(self).__name__} {self.name} in {self.info.cluster}: {self.state}>{held}"


class AsyncPendingClaim:
    """
    A claim for the time of a block: requested and waited for at its beginning, released at its end.

    It is released also after an exception, an interrupt and SIGTERM. The block keeps it alive: if the process
    is killed, the portal ends the claim soon after; until then the same cell of a notebook finds it again.
    """

    def __init__(
        self,
        client: AsyncClient,
        request: ClaimRequest,
        *,
        key: str = "",
        until: Until = "usable",
        timeout: float | None = None,
        keep: bool = False,
        display: DisplayName | Display = "auto",
    ) -> None:
        self._client, self._request = client, request
        self._key, self._until, self._timeout, self._keep = key, until, timeout, keep
        self._display = display
        self._claim: AsyncClaim | None = None
        self._remembered = Remembered("")
        self._undo: Callable[[], None] = lambda: None

    async def __aenter__(self) -> AsyncClaim:
        self._undo = end_on_sigterm()
        try:
            self._remembered = Remembered(self._key) if self._key else self._client._remember(self._request)
            self._claim = await self._client.request_remembered(self._request, self._remembered)
            await self._claim.wait(self._until, timeout=self._timeout, display=self._display)
        except BaseException as error:
            await self._end(error)
            raise
        return self._claim

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._end(error)

    async def _end(self, error: BaseException | None) -> None:
        try:
            if self._claim is None and self._remembered.key and may_have_arrived(error):
                self._claim = await self._sent_claim(error)
            if self._claim is not None and not self._keep:
                await self._claim._end(error)
                self._remembered.forget()
        finally:
            self._remembered.leave()
            self._undo()

    async def _sent_claim(self, error: BaseException | None) -> AsyncClaim | None:
        """Return the claim of a request whose answer did not come."""
        try:
            return await self._client.find(self._remembered.key)
        except DragomanError as failure:
            if error is not None:
                left = "" if not self._request.keep_alive else " If so, it ends by itself."
                note(error, f"The request may have arrived: {failure}{left} dragoman claims shows it.")
            return None


def may_have_arrived(error: BaseException | None) -> bool:
    """Return whether a request that failed so may have made a claim all the same."""
    return isinstance(error, Unavailable) or not isinstance(error, Exception)


def is_reached(info: ClaimInfo, until: Until) -> bool:
    return info.state == ALLOCATED if until == "allocated" else info.is_usable


def visible_devices(devices: tuple[Device, ...]) -> Mapping[str, str]:
    """Return the variables by which CUDA and ROCm choose devices."""
    names = {"gpu.nvidia.com": "CUDA_VISIBLE_DEVICES", "gpu.amd.com": "ROCR_VISIBLE_DEVICES"}
    chosen: dict[str, list[str]] = {}
    for device in devices:
        if device.uuid and device.driver in names:
            chosen.setdefault(names[device.driver], []).append(device.uuid)
    return {name: ",".join(dict.fromkeys(uuids)) for name, uuids in chosen.items()}
