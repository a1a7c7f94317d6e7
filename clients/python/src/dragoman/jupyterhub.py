"""
GPUs of the portal in JupyterHub with KubeSpawner. In jupyterhub_config.py:

    from dragoman.jupyterhub import GpuProfiles

    GpuProfiles(team="vision", hours=8).configure(c)

The catalogue becomes the list of server options. Whoever starts a server gets a claim of the chosen profile:
it is requested before the pod is made, used by the pod through `resourceClaims`, and released when the server
stops.
"""

from __future__ import annotations

import inspect
import re
import uuid
from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import Any

from dragoman._async.claim import AsyncClaim
from dragoman._async.client import AsyncClient
from dragoman.display import Quiet, Waiting
from dragoman.errors import DragomanError
from dragoman.request import ClaimRequest
from dragoman.results import LIVE, ClaimInfo, Profile

WITHOUT = {
    "display_name": "Without a GPU",
    "slug": "without-gpu",
    "description": "For editing and small data.",
    "default": True,
}
REQUEST_NAME = "gpu"  # of the claim inside the pod
MAX_NAME = 63
SUFFIX = "[0-9a-f]{6}"


class SpawnRefused(DragomanError):
    """JupyterHub shows its sentence on the page of the server (`jupyterhub_message`)."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.jupyterhub_message = message


class GpuProfiles:
    """
    Server options from the catalogue, and a claim for each server.

    `team` and `cluster` are names, or functions of the spawner. The claims belong to whoever `client` is, or
    `client(spawner)` where each user has a token of their own. `more` are further server options; one without
    a GPU comes first unless `without_gpu` is false. A server does not start if its claim is not usable after
    `timeout` seconds. Profiles that need approval are offered only with `with_approval`.
    """

    def __init__(
        self,
        *,
        team: str | Callable[[Any], str],
        cluster: str | Callable[[Any], str] | None = None,
        client: AsyncClient | Callable[[Any], AsyncClient] | None = None,
        hours: float | None = None,
        profiles: Sequence[str] = (),
        more: Sequence[Mapping[str, Any]] = (),
        without_gpu: bool = True,
        with_approval: bool = False,
        timeout: float = 300.0,
    ) -> None:
        self._team, self._cluster, self._client = team, cluster, client
        self._hours, self._only, self._timeout = hours, tuple(profiles), timeout
        self._more = ([WITHOUT] if without_gpu else []) + [dict(one) for one in more]
        self._with_approval = with_approval

    def configure(self, c: Any) -> None:
        """Set the options of KubeSpawner. Hooks that were set before this line still run."""
        spawner = c.KubeSpawner
        spawner.profile_list = self.profile_list
        for name, hook in (
            ("pre_spawn_hook", self.pre_spawn_hook),
            ("post_stop_hook", self.post_stop_hook),
            ("modify_pod_hook", modify_pod_hook),
        ):
            spawner[name] = both(spawner.get(name), hook)

    async def profile_list(self, spawner: Any) -> list[dict[str, Any]]:
        """Return the server options: what `c.KubeSpawner.profile_list` is set to."""
        found = await self._client_for(spawner).profiles(mine=True, automatic=not self._with_approval)
        chosen = [profile for profile in found if not self._only or profile.slug in self._only]
        return [dict(one) for one in self._more] + [server_option(profile) for profile in chosen]

    async def pre_spawn_hook(self, spawner: Any) -> None:
        """
        Request the claim of the chosen profile and wait until pods may use it.

        Raises SpawnRefused with the sentence of the portal.
        """
        spawner.dragoman_claim = None
        options = await self.profile_list(spawner)
        default = next((one for one in options if one.get("default")), options[0] if options else {})
        slug = str(spawner.user_options.get("profile") or default.get("slug") or "")
        if not any(is_gpu_option(option) and option["slug"] == slug for option in options):
            return
        await self.post_stop_hook(spawner)  # of a server whose end this hub did not see
        client, team = self._client_for(spawner), called(self._team, spawner)
        request = ClaimRequest(
            slug,
            team=team,
            cluster=called(self._cluster, spawner) if self._cluster else None,
            hours=self._hours,
            devices=devices_of(spawner),
            name=claim_name(spawner),
            reason=f"JupyterHub server of {spawner.user.name}",
        )
        try:
            claim = await client.request_claim(request)
        except DragomanError as error:
            raise SpawnRefused(str(error)) from error
        try:
            await claim.wait(timeout=self._timeout, display=HubLog(spawner))
            if claim.info.namespace != spawner.namespace:
                raise SpawnRefused(
                    f"The claim {claim.name} is in namespace {claim.info.namespace}, but this server starts "
                    f"in {spawner.namespace}: set c.KubeSpawner.namespace, or the namespace of team {team}."
                )
        except BaseException as error:
            await claim.release("Its server did not start.")
            if isinstance(error, DragomanError) and not isinstance(error, SpawnRefused):
                raise SpawnRefused(str(error)) from error
            raise
        spawner.dragoman_claim = claim.info
        # KubeSpawner reads values as templates, in which braces are doubled.
        spawner.environment.update(
            {name: value.replace("{", "{{").replace("}", "}}") for name, value in claim.environment.items()}
        )

    async def post_stop_hook(self, spawner: Any) -> None:
        """Release the claim of a server, also after a restart of the hub: it is found by its name."""
        own = re.compile(f"{re.escape(base_name(spawner))}-{SUFFIX}")
        client = self._client_for(spawner)
        live: list[AsyncClaim] = [claim async for claim in client.claims(state=LIVE, mine=True)]
        for claim in live:
            if own.fullmatch(claim.name):
                await claim.release("Its server stopped.")
        spawner.dragoman_claim = None

    def _client_for(self, spawner: Any) -> AsyncClient:
        if self._client is None:
            self._client = AsyncClient()
        return self._client if isinstance(self._client, AsyncClient) else self._client(spawner)


class HubLog(Quiet):
    """Why a server waits, in the log of the hub."""

    def __init__(self, spawner: Any) -> None:
        self.log = spawner.log

    def show(self, waiting: Waiting) -> None:
        self.log.info("%s", waiting.text)


def server_option(profile: Profile) -> dict[str, Any]:
    """Return a profile as an entry of `profile_list`; KubeSpawner takes its texts as HTML."""
    free = "" if profile.free is None else f"{profile.free} of {profile.total} free. "
    option: dict[str, Any] = {
        "display_name": escape(profile.title or profile.slug),
        "slug": profile.slug,
        "description": escape(f"{free}{profile.use} {profile.approval_sentence}".strip()),
        "kubespawner_override": {"extra_pod_config": pod_config},
    }
    if (most := profile.max_devices or 1) > 1:
        choices = {str(n): {"display_name": str(n), "default": n == 1} for n in range(1, min(most, 16) + 1)}
        option["profile_options"] = {"devices": {"display_name": "Devices", "choices": choices}}
    return option


def devices_of(spawner: Any) -> int:
    chosen = str(spawner.user_options.get("devices") or 1)
    if not (chosen.isascii() and chosen.isdigit()):
        raise SpawnRefused(f"The number of devices is a number, not “{chosen[:20]}”.")
    return int(chosen)


def is_gpu_option(option: Mapping[str, Any]) -> bool:
    return option.get("kubespawner_override", {}).get("extra_pod_config") is pod_config


def pod_config(spawner: Any) -> dict[str, Any]:
    """Return `extra_pod_config` of a pod: the claim that `pre_spawn_hook` has got for it."""
    claim: ClaimInfo | None = getattr(spawner, "dragoman_claim", None)
    if claim is None:
        raise SpawnRefused(
            "There is no claim for this server. Set c.KubeSpawner.pre_spawn_hook, or use configure(c)."
        )
    return {"resourceClaims": [{"name": REQUEST_NAME, "resourceClaimName": claim.name}]}


def modify_pod_hook(spawner: Any, pod: Any) -> Any:
    """
    Give the devices to the container of the notebook, beside its CPU and memory.

    In `extra_container_config` they would replace what cpu_limit and mem_limit set.
    """
    if getattr(spawner, "dragoman_claim", None) is not None:
        container = next(
            (one for one in pod.spec.containers if one.name == "notebook"), pod.spec.containers[0]
        )
        container.resources.claims = [{"name": REQUEST_NAME}]
    return pod


def base_name(spawner: Any) -> str:
    return str(spawner.pod_name)[: MAX_NAME - 7].rstrip("-.")


def claim_name(spawner: Any) -> str:
    """Return whose server it is, with another end each time: the last claim may still be releasing."""
    return f"{base_name(spawner)}-{uuid.uuid4().hex[:6]}"


def called(value: str | Callable[[Any], str], spawner: Any) -> str:
    return value if isinstance(value, str) else value(spawner)


def both(first: Any, second: Callable[..., Any]) -> Callable[..., Any]:
    """Return a hook that runs two, one after the other. The pod that the first returns goes to the second."""
    if not callable(first):
        return second

    async def run(spawner: Any, *pod: Any) -> Any:
        result = first(spawner, *pod)
        result = await result if inspect.isawaitable(result) else result
        if pod:
            pod = (result,)
        result = second(spawner, *pod)
        return await result if inspect.isawaitable(result) else result

    return run
