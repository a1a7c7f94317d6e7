"""The command `dragoman`."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line. Says what to install if its packages are missing."""
    try:
        from dragoman.cli.commands import dragoman
    except ImportError as error:
        sys.exit(f"The command line needs more packages ({error.name}): pip install 'dragoman-client[cli]'")
    dragoman(prog_name="dragoman")
