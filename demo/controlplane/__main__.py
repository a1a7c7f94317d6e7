"""
Run a real control plane: `python -m demo.controlplane`. Ctrl-C stops it.

`--kubeconfigs FOLDER` writes NAME.kubeconfig for the portal and NAME.people.kubeconfig for those who start
pods, keeps the data in FOLDER/NAME, and creates NAME.ready last.
"""

import argparse
import signal
import sys
import threading
from pathlib import Path
from types import FrameType

from demo.controlplane.build import BuildFailed, ensure, say
from demo.controlplane.harness import NAMESPACES, ControlPlane, NotReady

# end of the file's name → whose it is
FILES = {"": "portal", ".people": "admin", ".reader": "reader", ".alice": "alice", ".eve": "eve"}


def main() -> int:
    options = arguments()
    ended = threading.Event()

    def end(_number: int, _frame: FrameType | None) -> None:
        ended.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, end)
    folder: Path | None = options.kubeconfigs
    plane = ControlPlane(
        folder / options.name if folder else None,
        name=options.name,
        namespaces=options.namespaces,
        keep=folder is not None,
        say=say,
    )
    try:
        ensure()
        if folder:
            (folder / f"{options.name}.ready").unlink(missing_ok=True)
        with plane:
            hand_out(plane, folder)
            wait(plane, ended)
    except (BuildFailed, NotReady, TimeoutError) as problem:
        say(str(problem))
        return 1
    return 0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m demo.controlplane", description=__doc__)
    parser.add_argument("--name", default="fra-1", help="name of the cluster in the kubeconfigs")
    parser.add_argument(
        "--kubeconfigs", type=Path, metavar="FOLDER", help="where to write them; keeps the data"
    )
    parser.add_argument("--namespaces", nargs="*", default=NAMESPACES, help="namespaces that alice may edit")
    return parser.parse_args()


def hand_out(plane: ControlPlane, folder: Path | None) -> None:
    if folder is None:
        folder = plane.folder
    for part, user in FILES.items():
        file = folder / f"{plane.name}{part}.kubeconfig"
        file.touch(mode=0o600)
        file.write_text(plane.kubeconfig(user))
        say(f"{user:7} {file}")
    (folder / f"{plane.name}.ready").touch()


def wait(plane: ControlPlane, ended: threading.Event) -> None:
    """Wait for a signal, or for a program that ends by itself."""
    while not ended.wait(1):
        for program in plane.programs.values():
            if not program.running:
                raise NotReady(f"{program.name} ended. Its last lines:\n{program.last_lines()}")


if __name__ == "__main__":
    sys.exit(main())
