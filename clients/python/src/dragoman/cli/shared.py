"""What all commands share: the client, the exit codes, completion of names."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

import click
from click.shell_completion import CompletionItem

from dragoman import errors
from dragoman._sync.client import Client
from dragoman._sync.login import LoginFailed
from dragoman.cli.output import FORMATS
from dragoman.results import LIVE

F = TypeVar("F", bound=Callable[..., Any])

# The first class that an error belongs to, as README.md has them. 2 is a wrong command line.
EXIT_CODES: tuple[tuple[type[Exception], int], ...] = (
    (errors.Unauthenticated, 3),
    (errors.ConfigurationError, 3),
    (LoginFailed, 3),
    (errors.Forbidden, 4),
    (errors.NotFound, 5),
    (errors.Conflict, 6),
    (errors.Invalid, 7),
    (errors.TooManyRequests, 8),
    (errors.Unavailable, 8),
    (errors.ClaimEnded, 9),
    (errors.WaitTimeout, 10),
    (errors.DragomanError, 1),
)


INTERRUPTED = 130  # as shells say of Ctrl-C


class Commands(click.Group):
    """Turns refusals into a sentence on standard error and an exit code."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            ctx.exit(INTERRUPTED)
        except (errors.DragomanError, ValueError) as error:
            click.secho(f"Error: {error}", fg="red", err=True)
            for field in getattr(error, "fields", ()):
                if field.message not in str(error):  # which has the first
                    click.echo(f"  {field.field}: {field.message}", err=True)
            ctx.exit(next((code for kind, code in EXIT_CODES if isinstance(error, kind)), 1))


def client_of(ctx: click.Context, **options: Any) -> Client:
    """Return the client of this command line, closed at its end."""
    root = ctx.find_root()
    client = Client(root.params.get("url"), context=root.params.get("context"), **options)
    ctx.call_on_close(client.close)
    return client


def output_option(command: F) -> F:
    return click.option(
        "-o",
        "--output",
        type=click.Choice(FORMATS),
        default="table",
        show_default=True,
        help="How to print it.",
    )(command)


def names(
    ctx: click.Context, incomplete: str, read: Callable[[Client], list[tuple[str, str]]]
) -> list[CompletionItem]:
    """Return what a shell may complete; nothing if the portal does not answer at once."""
    with suppress(Exception):
        client = client_of(ctx, timeout=2.0, tries=1)
        return [
            CompletionItem(name, help=about) for name, about in read(client) if name.startswith(incomplete)
        ]
    return []


def profile_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return names(
        ctx, incomplete, lambda client: [(one.slug, one.title) for one in client.profiles(mine=True)]
    )


def claim_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return names(
        ctx,
        incomplete,
        lambda client: [(one.name, one.state) for one in client.claims(state=LIVE, mine=True)],
    )


profile_argument = click.argument("profile", shell_complete=profile_names)
claim_argument = click.argument("claim", shell_complete=claim_names)


def is_interactive() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty()
