"""One claim: what it holds, why it waits, and its end."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping
from datetime import datetime, timedelta, timezone
from types import TracebackType
from typing import TYPE_CHECKING

from dragoman.display import Display, DisplayName, Waiting, display_for
from dragoman.errors import ClaimEnded, Conflict, NotFound, WaitTimeout
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
from dragoman.text import state_label

if TYPE_CHECKING:
    from dragoman._async.client import AsyncClient

LONG_POLL = 10  # seconds: the portal answers earlier if the claim changes; why it waits is read in between
SHORT_POLL = 1.0  # seconds, where the portal has no slot for long polling


class AsyncClaim:
    """
    A claim. `info` is what was read last; `refresh` reads it again.

    With `async with`, it is released at the end.
    """

    def __init__(self, client: AsyncClient, info: ClaimInfo) -> None:
        self._client, self.info = client, info

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
            until = (info.expires_at or datetime.now(timezone.utc) + timedelta(seconds=info.duration)) + span
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

        Raises ClaimEnded if it is denied or ends otherwise, WaitTimeout after `timeout` seconds.
        """
        shown, began = display_for(display), time.monotonic()
        last: tuple[int, str] | None = None
        try:
            while True:
                why = await self.why()
                is_over = is_reached(self.info, until) or not self.info.is_live
                now = (self.info.version, str(why))
                if now != last or is_over:
                    shown.show(Waiting(self.info, why, began, is_over))
                    last = now
                if is_over:
                    break
                await self._next_change(began, timeout, why)
        finally:
            shown.close()
        if not self.info.is_live:
            denied = self.info.state == "denied" and self.info.decision_note
            reason = denied or self.info.problem or why.sentence
            label = state_label(self.info.state).lower()
            raise ClaimEnded(f"{self.name} is {label}. {reason}".strip(), state=self.info.state)
        return self.info

    async def _next_change(self, began: float, limit: float | None, why: Explanation) -> None:
        left = LONG_POLL if limit is None else began + limit - time.monotonic()
        if left <= 0:
            raise WaitTimeout(f"{self.name} is not ready after {limit:.0f} s. {why}")
        started, before = time.monotonic(), self.info.version
        self.info = await self._client.info(self.id, wait=max(1, round(min(LONG_POLL, left))), version=before)
        if self.info.version == before and time.monotonic() - started < SHORT_POLL:
            await asyncio.sleep(SHORT_POLL)

    async def release(self, reason: str = "") -> ClaimInfo:
        """
        End the claim: withdraw the request, or release the devices. Harmless if it has ended.

        Raises Conflict if the portal refuses it.
        """
        for is_last in (False, True):
            info = await self.refresh()
            if not info.is_live:
                break
            action = "withdraw" if info.state == REQUESTED else "release"
            try:
                self.info = await self._client.act(self.id, action, {"reason": reason})
                break
            except Conflict:  # it was decided, or ended, since it was read
                if is_last:
                    raise
        return self.info

    async def __aenter__(self) -> AsyncClaim:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.release()

    def __repr__(self) -> str:
        held = "".join(f"\n  {device}" for device in self.devices)
        return f"<{type(self).__name__} {self.name} in {self.info.cluster}: {self.state}>{held}"


class AsyncPendingClaim:
    """
    A claim for the time of a block: requested and waited for at its beginning, released at its end.

    It is released also after an exception, and when the wait is interrupted. If the kernel of a notebook was
    killed, the same cell finds the claim that it had requested.
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
        self._remembered: Remembered | None = None

    async def __aenter__(self) -> AsyncClaim:
        self._claim = await self._requested()
        try:
            await self._claim.wait(self._until, timeout=self._timeout, display=self._display)
        except BaseException:
            await self._end()
            raise
        return self._claim

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._end()

    async def _requested(self) -> AsyncClaim:
        if self._key:
            return await self._client.request_claim(self._request, key=self._key)
        claim, self._remembered = await self._client.request_remembered(self._request)
        return claim

    async def _end(self) -> None:
        remembered = self._remembered or Remembered("")
        try:
            if self._claim is not None and not self._keep:
                await self._claim.release()
                remembered.forget()
        finally:
            remembered.leave()


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
