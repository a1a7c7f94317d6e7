"""
Keys of requests that a notebook has sent: the same cell finds its claim after the kernel was killed.

A key is written before the request is sent and forgotten when the claim is released. It belongs to one
notebook, portal and request, and to one kernel at a time: the kernel locks its file and says who it is. Two
kernels never share a claim; one takes over what another has left only when that process is gone.
"""

from __future__ import annotations

import hashlib
import json
import os
import socket
import time
import uuid
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from threading import Lock
from typing import Any

from dragoman.config import state_folder

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

SILENT_AFTER = 90.0  # seconds without a beat after which a process of another machine is gone


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


_locked: dict[Path, int] = {}  # files of this process, with the descriptors that lock them
_in_use: set[Path] = set()  # of blocks that this process is in
_lock = Lock()


@dataclass
class Remembered:
    """The key of a request; `file` is None where nothing is remembered, as outside of notebooks."""

    key: str
    file: Path | None = None

    def leave(self) -> None:
        """Let the next request of this process of the same kind find this claim."""
        if self.file is not None:
            _in_use.discard(self.file)

    def forget(self) -> None:
        """Let the next request of the same kind make a new claim."""
        if self.file is not None:
            self.file.unlink(missing_ok=True)
            if (descriptor := _locked.pop(self.file, None)) is not None:
                os.close(descriptor)
            self.leave()

    def renew(self) -> None:
        """Take a new key: the claim of the old one has ended."""
        self.key = new_key()
        if self.file is not None:
            self.write()

    def write(self) -> None:
        """Say in the file which process of which machine uses the key."""
        descriptor = _locked[self.file] if self.file else -1
        owner = {"key": self.key, "host": socket.gethostname(), "pid": os.getpid()}
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps(owner).encode(), 0)

    def beat(self) -> None:
        """Show other machines that this process lives."""
        if self.file is not None and self.file in _locked:
            os.utime(_locked[self.file])


def new_key() -> str:
    return f"sdk-{uuid.uuid4().hex}"


def remember(url: str, body: Mapping[str, Any]) -> Remembered:
    """
    Return the key of this request: the earlier one if this notebook has not released its claim.

    Two blocks with the same request at the same time have two keys, of one process or of several.
    """
    session = session_name()
    if not session:
        return Remembered(new_key())
    digest = hashlib.sha256(
        json.dumps([url, session, body], sort_keys=True, default=str).encode()
    ).hexdigest()
    folder = state_folder() / "claims"
    with _lock:
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            files = (folder / f"{digest[:32]}-{number}" for number in count(1))
            free = ((file, taken(file)) for file in files if file not in _in_use)
            file, owner = next((file, owner) for file, owner in free if owner is not None)
            remembered = Remembered(str(owner.get("key") or new_key()), file)
            remembered.write()
        except OSError:
            # A home that cannot be written: the claim is released at the end, but not found again.
            return Remembered(new_key())
        _in_use.add(file)
    return remembered


def taken(file: Path) -> dict[str, Any] | None:
    """Lock a file for this process; return what it says of its last owner, None if another process has it."""
    if file in _locked:
        return read(_locked[file])
    while True:
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT, 0o600)
        locked = lock(descriptor)
        if locked is False:
            os.close(descriptor)
            return None
        with suppress(FileNotFoundError):
            if os.fstat(descriptor).st_ino == file.stat().st_ino:
                break
        os.close(descriptor)  # its owner has forgotten it at this moment, with the file
    owner = read(descriptor)
    # On this machine the lock of a process ends with it; other machines may not see it.
    is_gone = locked and owner.get("host") == socket.gethostname()
    if owner and not is_gone and time.time() - os.fstat(descriptor).st_mtime < SILENT_AFTER:
        os.close(descriptor)
        return None
    _locked[file] = descriptor
    return owner


def lock(descriptor: int) -> bool | None:
    """Lock a file: False if another process has it, None if this file system has no locks."""
    try:
        if fcntl is None:
            return None
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def read(descriptor: int) -> dict[str, Any]:
    try:
        found = json.loads(os.pread(descriptor, 4096, 0) or b"{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
