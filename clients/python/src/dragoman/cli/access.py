"""Signing in: contexts, tokens, and the browser."""

from __future__ import annotations

import socket
import sys
import webbrowser
from dataclasses import replace

import click

from dragoman._sync.client import Client
from dragoman._sync.login import DeviceCode, device_login
from dragoman.cli.output import moment, write_document, write_facts, write_table
from dragoman.cli.shared import client_of, is_interactive, output_option
from dragoman.config import Context, normalized, read_config, remove_context, save_context, write_config
from dragoman.errors import ConfigurationError
from dragoman.results import TokenInfo
from dragoman.text import span


@click.command()
@click.argument("url", required=False)
@click.option("--token-stdin", is_flag=True, help="Read a token of the portal from standard input.")
@click.option(
    "--context", "name", default="default", show_default=True, metavar="NAME", help="Name of this portal."
)
@click.option("--team", default="", metavar="SLUG", help="Team of requests that name none.")
@click.option(
    "--scope",
    "scopes",
    multiple=True,
    default=("read", "request"),
    show_default=True,
    help="What the token may do; repeat.",
)
@click.option("--no-browser", is_flag=True, help="Only print the address.")
@click.pass_context
def login(
    ctx: click.Context,
    url: str | None,
    name: str,
    team: str,
    scopes: tuple[str, ...],
    *,
    token_stdin: bool,
    no_browser: bool,
) -> None:
    """Sign in to a portal, through the browser or with a token."""
    root = ctx.find_root().params
    name = root.get("context") or name
    address = normalized(url or root.get("url") or known_address(name))
    if token_stdin:
        token = sys.stdin.readline().strip()
        if not token:
            raise ConfigurationError("There is no token on standard input.")
    else:
        client_name = f"dragoman CLI on {socket.gethostname()}"

        def show(code: DeviceCode) -> None:
            click.echo(
                f"Open {code.verification_uri_complete} and confirm the code {code.user_code}.", err=True
            )
            click.echo(f"It is valid for {span(code.expires_in)}. Waiting …", err=True)
            if not no_browser and is_interactive():
                webbrowser.open(code.verification_uri_complete)

        token = device_login(address, show, client_name=client_name, scopes=scopes).access_token
    with Client(address, token) as client:
        me = client.me()  # a token that does not work is not stored
    path = save_context(name, Context(address, token, team))
    click.echo(f"Signed in to {address} as {me.username}. The token is in {path}.", err=True)


def known_address(name: str) -> str:
    context = read_config().contexts.get(name)
    if context is None:
        raise ConfigurationError("Which portal? dragoman login https://gpu.example.org")
    return context.url


@click.command()
@click.argument("name", required=False)
def logout(name: str | None) -> None:
    """Remove the token of a portal from this machine. Revoke it on its page API tokens as well."""
    config = read_config()
    chosen = name or config.current
    if chosen not in config.contexts:
        raise ConfigurationError(f"There is no context {chosen}.")
    remove_context(chosen)
    click.echo(f"Removed {chosen} ({config.contexts[chosen].url}).", err=True)


@click.group(invoke_without_command=True)
@output_option
@click.pass_context
def contexts(ctx: click.Context, output: str) -> None:
    """List the portals of this machine; `use` chooses one."""
    if ctx.invoked_subcommand:
        return
    config = read_config()
    rows = [
        {"current": name == config.current, "name": name, "portal": one.url, "team": one.team}
        for name, one in config.contexts.items()
    ]
    if output != "table":
        write_document(output, rows)
        return
    table = [["*" if value is True else value or "" for value in row.values()] for row in rows]
    write_table(("", "name", "portal", "team"), table)


@contexts.command()
@click.argument("name")
def use(name: str) -> None:
    """Make a portal the current one."""
    config = read_config()
    if name not in config.contexts:
        known = ", ".join(config.contexts) or "none"
        raise ConfigurationError(f"There is no context {name}. There are: {known}.")
    write_config(replace(config, current=name))
    click.echo(f"Commands go to {config.contexts[name].url} now.", err=True)


@click.command()
@output_option
@click.pass_context
def me(ctx: click.Context, output: str) -> None:
    """Say who is signed in where, and what the token may do."""
    client = client_of(ctx)
    found = client.me()
    token = found.token or TokenInfo()
    facts = {
        "portal": client.settings.url,
        "user": found.username,
        "name": found.name,
        "teams": ", ".join(f"{one.team} ({one.role})" for one in found.teams),
        "role": "platform admin" if found.platform_admin else "",
        "token": token.title,
        "may": ", ".join(token.scopes),
        "only in": token.team,
        "until": moment(token.expires_at),
    }
    write_facts(output, found, facts)


access_commands = (login, logout, contexts, me)
