"""
A JupyterHub with KubeSpawner that starts and stops one server, in the order of JupyterHub itself.

    python -m tests.clients.hub PROFILE MARK

Its configuration is that of docs/user/notebooks.md. It prints a JSON document per step, and stops the server
when the file MARK exists. KUBECONFIG, DRAGOMAN_URL and DRAGOMAN_TOKEN are set.
"""

import asyncio
import json
import sys
from pathlib import Path
from types import SimpleNamespace

from dragoman.jupyterhub import GpuProfiles
from jupyterhub.objects import Hub, Server
from kubespawner import KubeSpawner
from traitlets.config import Config


class User(SimpleNamespace):
    """What KubeSpawner reads of a user of the hub."""

    id, name, escaped_name, url, groups, roles = 1, "mira", "mira", "/user/mira/", (), ()
    server = Server()

    def __init__(self):
        super().__init__(orm_user=None, settings={})


def say(step, **facts):
    print(json.dumps({"step": step} | facts), flush=True)  # noqa: T201


def configuration():
    c = Config()
    c.KubeSpawner.namespace = "vision"
    c.KubeSpawner.image = "registry.example.org/notebook:1"
    c.KubeSpawner.mem_limit, c.KubeSpawner.cpu_guarantee = "2G", 0.5
    c.KubeSpawner.start_timeout = 300
    c.KubeSpawner.modify_pod_hook = marked
    GpuProfiles(team="vision", hours=8).configure(c)
    return c


def marked(spawner, pod):
    """A hook of the hub's own, which the configuration keeps."""
    pod.metadata.labels["own-hook"] = "ran"
    return pod


async def main(profile, mark):
    spawner = KubeSpawner(
        hub=Hub(), user=User(), config=configuration(), api_token="none", oauth_client_id="none"
    )
    say("options", options=[one["slug"] for one in await spawner.profile_list(spawner)])
    form = await spawner.options_form(spawner)
    say("form", shown=all(text in form for text in ("Without a GPU", profile)))
    spawner.user_options = {"profile": profile}
    await spawner.run_pre_spawn_hook()
    started = asyncio.ensure_future(spawner.start())
    claim = spawner.dragoman_claim
    say("requested", claim=claim and claim.id)
    address = await started
    say("started", address=str(address), pod=spawner.pod_name)
    while not Path(mark).exists():
        await asyncio.sleep(0.2)
    await spawner.stop(now=True)
    await spawner.run_post_stop_hook()
    say("stopped")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
