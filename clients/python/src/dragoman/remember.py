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
from pathlib import Path
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


@dataclass
class Remembered:
    """The key of a request; `file` is None where nothing is remembered, as outside of notebooks."""

    key: str
    file: Path | None = None

    def forget(self) -> None:
        if self.file is not None:
            self.file.unlink(missing_ok=True)

    def renew(self) -> None:
        """Take a new key: the claim of the old one has ended."""
        self.key = f"sdk-{uuid.uuid4().hex}"
        if self.file is not None:
            self.file.write_text(self.key, encoding="utf-8")


def remember(url: str, body: Mapping[str, Any]) -> Remembered:
    """Return the key of this request: the earlier one if this notebook has not released its claim."""
    session = session_name()
    if not session:
        return Remembered(f"sdk-{uuid.uuid4().hex}")
    digest = hashlib.sha256(
        json.dumps([url, session, body], sort_keys=True, default=str).encode()
    ).hexdigest()
    file = state_folder() / "claims" / digest[:32]
    try:
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if key := file.read_text(encoding="utf-8").strip() if file.exists() else "":
            return Remembered(key, file)
        remembered = Remembered("", file)
        remembered.renew()
        return remembered
    except OSError:  # a home that cannot be written: the claim is released at the end, but not found again
        return Remembered(f"sdk-{uuid.uuid4().hex}")
