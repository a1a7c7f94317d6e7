"""Start database, Redis, cluster, web, workers and beat of the demo; show their output; stop them."""

import fcntl
import sys
import time
from shlex import quote
from typing import IO

from cryptography.fernet import Fernet

from demo import services
from demo.supervisor import ROOT, Config, DemoFailure, Stopped, Supervisor, check_port, from_environment


def only_one(config: Config) -> IO[str]:
    """Take the lock of DEMO_HOME; raise DemoFailure if another demo runs there."""
    lock = (config.home / "lock").open("w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        raise DemoFailure(
            f"Another demo runs in {config.home}. Stop it, or set DEMO_HOME and PORT."
        ) from error
    return lock


def settings_for_all(config: Config) -> dict[str, str]:
    key = config.home / "credentials.key"
    if not key.exists():
        key.touch(mode=0o600)
        key.write_bytes(Fernet.generate_key())
    return {
        "SECRET_KEY": config.secret("session"),
        "CREDENTIAL_KEYS": key.read_text(),
        "INSECURE_HTTP": "true",
        "LOG_FORMAT": "text",
        "LOG_LEVEL": "WARNING",
        "PYTHONUNBUFFERED": "1",
        "PYTHONPATH": str(ROOT),
    }


def bring_up(supervisor: Supervisor) -> None:
    config = supervisor.config
    supervisor.environment |= settings_for_all(config)
    for wait in [part(supervisor) for part in (services.clusters, services.database, services.redis)]:
        wait()
    names = services.REAL if config.real else services.SIMULATED
    if config.empty:
        supervisor.run("Tables, and the account of the platform admin", "demo_prepare", "--empty", *names)
        services.portal(supervisor)()
        return
    prepare = ("Tables, people, teams, profiles and quotas", "demo_prepare", *names)
    story_loaded = config.home / "story-loaded"  # exists once the story is in the database
    # The tables are there: the portal may start while they are checked. It reads the names of the static
    # files once, so not before those of an update are collected.
    if story_loaded.exists() and services.are_collected():
        wait_for_portal = services.portal(supervisor)
        supervisor.run(*prepare)
        wait_for_portal()
        return
    supervisor.run(*prepare)
    services.portal(supervisor)()
    if not story_loaded.exists():
        supervisor.run("First listing of the clusters, and the claims of the demo", "demo_story")
        story_loaded.touch()


def ready(supervisor: Supervisor) -> None:
    url, seconds = supervisor.config.url, time.monotonic() - supervisor.began
    kind = (
        "a real Kubernetes control plane with simulated nodes"
        if supervisor.config.real
        else "simulated clusters"
    )
    supervisor.say(f"Started in {seconds:.0f} s, over {kind}.")
    supervisor.say("")
    supervisor.say(f"Dragoman is ready: {url}")
    supervisor.say("")
    if supervisor.config.empty:
        folder = supervisor.config.home / "clusters"
        supervisor.say(f"Sign in as admin, password demo, and set it up. Kubeconfigs are in {folder}.")
        supervisor.say("Ctrl-C stops everything; `make demo-reset` deletes the data.")
        return
    supervisor.say("Sign in as      password  and see")
    supervisor.say(f"  engineer      demo      request a GPU: {url}/claims/request/")
    supervisor.say(f"  lead          demo      decide on requests: {url}/approvals/")
    supervisor.say(f"  admin         demo      every device, quota and price: {url}/fleet/")
    supervisor.say("  outsider      demo      another team: none of the claims above")
    supervisor.say("")
    kubeconfig = supervisor.config.home / "clusters" / "fra-1.people.kubeconfig"
    supervisor.say("Start pods on the page of a claim, or with kubectl; paste a manifest and press Ctrl-D:")
    supervisor.say(f"  export KUBECONFIG={quote(str(kubeconfig))}")
    supervisor.say("  kubectl apply -f -")
    if not supervisor.config.real:
        supervisor.say("Claims in lab-2 need lab-2.people.kubeconfig of the same folder.")
    supervisor.say("")
    supervisor.say("Ctrl-C stops everything; `make demo-reset` deletes the data.")


def main() -> int:
    try:
        config = from_environment()
    except DemoFailure as failure:
        sys.stderr.write(f"{failure}\n")
        return 2
    supervisor = Supervisor(config)
    supervisor.trap_signals()
    try:
        supervisor.check_disk()
        check_port(config.port)
        with only_one(config):
            try:
                bring_up(supervisor)
                ready(supervisor)
                supervisor.watch()
            finally:
                supervisor.stop()
    except Stopped:
        supervisor.say("Stopped. Every process has ended; the data is kept.")
        return 0
    except (DemoFailure, OSError) as failure:
        supervisor.say(f"The demo stopped. {failure}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
