"""
Where the portal is and who is calling: arguments, then the environment, then a file.

`~/.config/dragoman/config.toml` has one context per portal, mode 0600:

    current = "work"

    [contexts.work]
    url = "https://gpu.example.org"
    token = "drg_…"
    team = "vision"      # optional: the team of requests that name none
"""

from __future__ import annotations

import json
import os
import re
import stat
import sys
import tempfile
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from dragoman.errors import ConfigurationError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

TOKEN_FILE = "/var/run/secrets/dragoman/token"  # noqa: S105 (a projected service account token, by convention)
API = "/api/v1"
NAME = re.compile(r"[A-Za-z0-9_-]+")


@dataclass(frozen=True)
class Settings:
    """
    `token` is empty inside a pod that signs in with its service account: `cluster_login` names the cluster
    then, and `token_file` has the token of Kubernetes.
    """

    url: str
    token: str = field(default="", repr=False)
    team: str = ""
    cluster_login: str = ""
    token_file: str = TOKEN_FILE


@dataclass(frozen=True)
class Context:
    url: str
    token: str = field(default="", repr=False)
    team: str = ""


@dataclass(frozen=True)
class ConfigFile:
    current: str = ""
    contexts: Mapping[str, Context] = field(default_factory=dict)

    def of_url(self, url: str) -> Context | None:
        return next((context for context in self.contexts.values() if normalized(context.url) == url), None)


def config_path() -> Path:
    if own := os.environ.get("DRAGOMAN_CONFIG"):
        return Path(own)
    home = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(home) / "dragoman" / "config.toml"


def state_folder() -> Path:
    home = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(home) / "dragoman"


def normalized(url: str) -> str:
    """Return the address of the portal without `/api/v1` and the last slash. Raises ConfigurationError."""
    text = url.strip().rstrip("/").removesuffix(API).rstrip("/")
    if not re.match(r"https?://[^/]+", text):
        raise ConfigurationError(f"The address of the portal begins with https://, not “{url}”.")
    return text


def read_config(path: Path | None = None) -> ConfigFile:
    """Return the contexts of the file, none if it does not exist. Raises ConfigurationError."""
    path = path or config_path()
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            found: dict[str, Any] = tomllib.load(file)
    except FileNotFoundError:
        return ConfigFile()
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"{path} cannot be read: {error}") from error
    contexts = {
        name: Context(str(row["url"]), str(row.get("token", "")), str(row.get("team", "")))
        for name, row in found.get("contexts", {}).items()
        if isinstance(row, Mapping) and "url" in row
    }
    if any(context.token for context in contexts.values()) and mode & (stat.S_IRWXG | stat.S_IRWXO):
        warnings.warn(f"Others can read the tokens in {path}. Run: chmod 600 {path}", stacklevel=2)
    return ConfigFile(str(found.get("current", "")), contexts)


def save_context(name: str, context: Context, path: Path | None = None) -> Path:
    """Add or replace a context and make it the current one. Raises ConfigurationError."""
    if not NAME.fullmatch(name):
        raise ConfigurationError("The name of a context has letters, digits, - and _.")
    return write_config(
        replace(config := read_config(path), current=name, contexts={**config.contexts, name: context}), path
    )


def remove_context(name: str, path: Path | None = None) -> None:
    config = read_config(path)
    left = {key: context for key, context in config.contexts.items() if key != name}
    current = config.current if config.current in left else next(iter(left), "")
    write_config(ConfigFile(current, left), path)


def write_config(config: ConfigFile, path: Path | None = None) -> Path:
    """Replace the file at once, so that nobody reads half of it or a moment of wider permissions."""
    path = path or config_path()
    lines = [f"current = {json.dumps(config.current)}"]
    for name, context in config.contexts.items():
        lines += ["", f"[contexts.{name}]"]
        values = {"url": context.url, "token": context.token, "team": context.team}
        lines += [f"{key} = {json.dumps(value)}" for key, value in values.items() if value]
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor, temporary = tempfile.mkstemp(dir=path.parent)  # mode 0600
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")
    Path(temporary).replace(path)
    return path


def find_settings(url: str | None = None, token: str | None = None, context: str | None = None) -> Settings:
    """
    Return the settings from arguments, environment and file, in this order.

    A token of the file goes only to the address of its own context. Raises ConfigurationError if there is no
    address or no way to sign in.
    """
    environment = os.environ
    config = read_config()
    chosen_name = context or environment.get("DRAGOMAN_CONTEXT") or ""
    if chosen_name and chosen_name not in config.contexts:
        known = ", ".join(config.contexts) or "none"
        raise ConfigurationError(f"{config_path()} has no context {chosen_name}. It has: {known}.")
    chosen = config.contexts.get(chosen_name or config.current)
    given_url = url or (None if chosen_name else environment.get("DRAGOMAN_URL"))
    if given_url:
        address = normalized(given_url)
        chosen = config.of_url(address)
    elif chosen:
        address = normalized(chosen.url)
    else:
        raise ConfigurationError(
            "Where is the portal? Set DRAGOMAN_URL, pass url=…, or run: dragoman login URL"
        )
    team = environment.get("DRAGOMAN_TEAM") or (chosen.team if chosen else "")
    own_token = token or (None if chosen_name else environment.get("DRAGOMAN_TOKEN"))
    if own_token:
        return Settings(address, own_token, team)
    token_file = environment.get("DRAGOMAN_TOKEN_FILE") or TOKEN_FILE
    cluster = environment.get("DRAGOMAN_CLUSTER") or ""
    if cluster and Path(token_file).exists():
        return Settings(address, "", team, cluster, token_file)
    if chosen and chosen.token:
        return Settings(address, chosen.token, team)
    raise ConfigurationError(
        f"There is no token for {address}. Set DRAGOMAN_TOKEN, or run: dragoman login {address}"
    )
