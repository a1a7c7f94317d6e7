"""
Keys of requests that a notebook has sent: the same cell finds its claim after the kernel was killed.

A key is written before the request is sent and forgotten when the claim is released. It belongs to one
notebook, portal and request: two notebooks never share a claim.
"""

from __future__ import annotations

import hashlib
import json
import os
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from threading import Lock
from typing import Any

from dragoman.config import state_folder


def session_name() -> str:
    """Return the notebook of this kernel, "" outside of one."""
    if name := os.environ.get("JPY_SESSION_NAME"):  # set by Jupyter Server: the path of the notebook
        return name
    try:
        from IPython import get_ipython  # type: ignore[attr-defined,unused-ignore]
    except ImportError:
        return ""
    shell = get_ipython()  # type: ignore[no-untyped-call,unused-ignore]
    return str(shell.user_ns.get("__vsc_ipynb_file__", "")) if shell else ""


_in_use: set[Path] = set()  # of blocks that this process is in
_lock = Lock()


@dataclass
class Remembered:
    """The key of a request; `file` is None where nothing is remembered, as outside of notebooks."""

    key: str
    file: Path | None = None

    def leave(self) -> None:
        """Let the next request of the same kind find this claim."""
        if self.file is not None:
            _in_use.discard(self.file)

    def forget(self) -> None:
        """Let the next request of the same kind make a new claim."""
        if self.file is not None:
            self.file.unlink(missing_ok=True)
            self.leave()

    def renew(self) -> None:
        """Take a new key: the claim of the old one has ended."""
        self.key = new_key()
        if self.file is not None:
            self.file.write_text(self.key, encoding="utf-8")


def new_key() -> str:
    return f"sdk-{uuid.uuid4().hex}"


def remember(url: str, body: Mapping[str, Any]) -> Remembered:
    """
    Return the key of this request: the earlier one if this notebook has not released its claim.

    Two blocks of one process with the same request at the same time have two keys.
    """
    session = session_name()
    if not session:
        return Remembered(new_key())
    digest = hashlib.sha256(
        json.dumps([url, session, body], sort_keys=True, default=str).encode()
    ).hexdigest()
    folder = state_folder() / "claims"
    with _lock:
        numbered = (folder / f"{digest[:32]}-{number}" for number in count(1))
        file = next(file for file in numbered if file not in _in_use)
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            remembered = Remembered(file.read_text(encoding="utf-8").strip() if file.exists() else "", file)
            if not remembered.key:
                remembered.renew()
        except (
            OSError
        ):  # a home that cannot be written: the claim is released at the end, but not found again
            return Remembered(new_key())
        _in_use.add(file)
    return remembered
