"""The commands. Each does one thing of the client and prints the answer."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, BinaryIO

import click

from dragoman._sync.claim import Claim
from dragoman.cli.access import access_commands
from dragoman.cli.importing import import_file
from dragoman.cli.output import moment, write, write_document, write_facts, write_table
from dragoman.cli.shared import (
    Commands,
    claim_argument,
    claim_names,
    client_of,
    output_option,
    profile_argument,
)
from dragoman.errors import ClaimEnded, NotFound, Unavailable, WaitTimeout
from dragoman.request import Until
from dragoman.results import LIVE, ClaimInfo
from dragoman.text import ago, span, state_label
from dragoman.version import VERSION

GIB = 1024**3


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--url", metavar="URL", help="Address of the portal; otherwise DRAGOMAN_URL or the context.")
@click.option("--context", metavar="NAME", help="Portal of ~/.config/dragoman/config.toml to use.")
@click.version_option(VERSION, prog_name="dragoman")
def dragoman(url: str | None, context: str | None) -> None:
    """GPUs of Kubernetes from the command line."""


for command in (*access_commands, import_file):
    dragoman.add_command(command)


def request_options(command: Callable[..., Any]) -> Callable[..., Any]:
    options = (
        click.option("--team", metavar="SLUG", help="Your only team if left out."),
        click.option("--cluster", metavar="NAME", help="Where it fits best if left out."),
        click.option("--hours", type=float, help="How long; the default of the profile if left out."),
        click.option("--duration", metavar="TEXT", help="The same as text: 36h, 1d 12h."),
        click.option("--devices", type=int, default=1, show_default=True, help="Per claim."),
        click.option(
            "--alternative",
            "alternatives",
            multiple=True,
            metavar="PROFILE",
            help="If it does not fit; repeat.",
        ),
        click.option("--template", is_flag=True, help="A ResourceClaimTemplate: a claim for each pod."),
        click.option("--parallel", type=int, default=1, help="Pods at the same time, of a template."),
    )
    for option in reversed(options):
        command = option(command)
    return command


def sent(options: dict[str, Any]) -> dict[str, Any]:
    """Return the options of a request as the client takes them."""
    template = options.pop("template")
    return options | {"delivery": "template" if template else "claim"}


@dragoman.command()
@click.argument("words", nargs=-1)
@click.option("--free", is_flag=True, help="A device is free now.")
@click.option("--mine", is_flag=True, help="You may request it.")
@click.option("--automatic", is_flag=True, help="Some requests need no approval.")
@click.option("--memory", type=int, metavar="GB", help="At least this memory per device.")
@output_option
@click.pass_context
def profiles(ctx: click.Context, /, words: tuple[str, ...], output: str, **filters: Any) -> None:
    """List the catalogue."""
    found = client_of(ctx).profiles(" ".join(words), **filters)
    columns = {
        "profile": lambda one: one.slug,
        "title": lambda one: one.title,
        "memory": lambda one: f"{one.memory / GIB:.0f} GiB" if one.memory else "",
        "free": lambda one: "?" if one.free is None else f"{one.free} of {one.total}",
        "price": lambda one: one.price,
        "approval": lambda one: one.approval_sentence if one.may_request else one.reason,
    }
    write(output, found, columns)


@dragoman.command()
@profile_argument
@request_options
@output_option
@click.pass_context
def match(ctx: click.Context, /, profile: str, output: str, **options: Any) -> None:
    """Preview a request: what is free, the quota, who approves. Nothing is reserved."""
    found = client_of(ctx).match(profile, **sent(options))
    if output != "table":
        write_document(output, found.raw)
        return
    click.echo(str(found))
    write_table(("devices", "step"), [(step.count, step.label) for step in found.match.steps])
    for line in found.help[:3]:
        click.echo(f"- {line.sentence}")


@dragoman.command()
@profile_argument
@request_options
@click.option("--name", metavar="NAME", default="", help="Of the object; generated if left out.")
@click.option("--reason", default="", help="Read by those who approve.")
@click.option(
    "--key", default="", help="The same key finds the same claim: a pipeline may repeat the command."
)
@click.option("--wait", "waits", is_flag=True, help="Wait until it is usable, as `dragoman wait` does.")
@click.option("--timeout", type=float, metavar="SECONDS", help="Longest wait.")
@output_option
@click.pass_context
def request(
    ctx: click.Context, /, profile: str, output: str, *, waits: bool, timeout: float | None, **options: Any
) -> None:
    """Request a claim. It lives until it is released or expires."""
    try:
        claim = client_of(ctx).request(profile, **sent(options))
    except KeyboardInterrupt:
        click.echo("The request may have arrived all the same: dragoman claims shows it.", err=True)
        raise
    if waits:
        waited(claim, timeout=timeout)
    elif not claim.info.is_live:
        ended = f"{claim.name} has ended: it is {state_label(claim.state).lower()}."
        raise ClaimEnded(
            f"{ended} Its key was used before; a new claim needs a new --key.", state=claim.state
        )
    show(output, claim.info)


def waited(claim: Claim, until: Until = "usable", *, timeout: float | None) -> ClaimInfo:
    """Wait for a claim. Says that it goes on, and how to end it, to who waits no longer."""
    try:
        return claim.wait(until, timeout=timeout)
    except (KeyboardInterrupt, WaitTimeout, Unavailable):
        click.echo(
            f"{claim.name} goes on, and counts against the quota. Wait again: dragoman wait {claim.name}. "
            f"End it: dragoman release {claim.name}",
            err=True,
        )
        raise


@dragoman.command()
@click.option("--all", "everybody", is_flag=True, help="Of all people that you may see, not only yours.")
@click.option("--state", multiple=True, metavar="STATE", help="Live ones if left out; repeat.")
@click.option("--team", default="", metavar="SLUG")
@output_option
@click.pass_context
def claims(ctx: click.Context, output: str, *, everybody: bool, state: tuple[str, ...], team: str) -> None:
    """List claims."""
    found = client_of(ctx).claims(state=state or LIVE, team=team, mine=not everybody)
    columns = {
        "claim": lambda one: one.name,
        "state": lambda one: one.state,
        "for": lambda one: ago(one.state_since).removesuffix(" ago"),
        "team": lambda one: one.team,
        "cluster": lambda one: one.cluster,
        "profile": lambda one: ",".join(one.profiles) or one.profile,
        "devices": lambda one: one.devices,
        "ends": lambda one: ago(one.expires_at),
    }
    write(output, [claim.info for claim in found], columns)


@dragoman.command()
@claim_argument
@click.option("--until", type=click.Choice(("usable", "allocated")), default="usable", show_default=True)
@click.option("--timeout", type=float, metavar="SECONDS", help="Longest wait; exit code 10 after it.")
@output_option
@click.pass_context
def wait(ctx: click.Context, claim: str, until: Any, timeout: float | None, output: str) -> None:
    """Wait until pods may use a claim, or until one does, and say why it waits."""
    show(output, waited(client_of(ctx).get(claim), until, timeout=timeout))


@dragoman.command()
@claim_argument
@output_option
@click.pass_context
def why(ctx: click.Context, claim: str, output: str) -> None:
    """Say who acts next on a claim, and why."""
    found = client_of(ctx).why(claim)
    if output != "table":
        write_document(output, found.raw)
        return
    click.echo(str(found))
    steps = [
        (step.label, ago(step.at), step.by, step.note)
        for step in found.steps
        if step.status in ("done", "now", "bad")
    ]
    write_table(("step", "when", "who", "note"), steps)
    for pods in (*found.pods, *found.lost):
        click.echo(f"{pods.count} × {pods.label}: {', '.join(pods.names)}")


@dragoman.command()
@claim_argument
@click.option(
    "--kind",
    default="",
    metavar="KIND",
    help="A snippet instead of the object: pod, job, jupyter, …; “list” names them.",
)
@click.option("--image", default="", help="Image of the containers of the snippet.")
@click.pass_context
def manifest(ctx: click.Context, claim: str, kind: str, image: str) -> None:
    """Print the object of a claim, or a manifest that uses it."""
    found = client_of(ctx).get(claim)
    if kind == "list":
        snippets = found.manifest().snippets
        write_table(("kind", "title"), [(snippet.key, snippet.title) for snippet in snippets])
    elif kind:
        click.echo(found.snippet(kind, image=image).text.rstrip("\n"))
    else:
        click.echo(found.manifest().yaml.rstrip("\n"))


@dragoman.command()
@claim_argument
@click.option("--hours", type=float, help="Hours after its present end.")
@click.option(
    "--until",
    type=click.DateTime(("%Y-%m-%d", "%Y-%m-%dT%H:%M")),
    help="A moment in the zone of this machine.",
)
@click.option("--reason", default="")
@output_option
@click.pass_context
def extend(
    ctx: click.Context, claim: str, hours: float | None, until: datetime | None, reason: str, output: str
) -> None:
    """Ask for a later end of a claim."""
    if (hours is None) == (until is None):
        raise click.UsageError("Give --hours or --until.")
    found = client_of(ctx).get(claim).extend(hours, until=until and until.astimezone(), reason=reason)
    write_facts(
        output, found, {"status": found.status, "until": moment(found.until), "note": found.decision_note}
    )


@dragoman.command()
@claim_argument
@click.option("--reason", default="")
@click.option("--ignore-not-found", is_flag=True, help="No error if you have never had such a claim.")
@output_option
@click.pass_context
def release(ctx: click.Context, claim: str, reason: str, output: str, *, ignore_not_found: bool) -> None:
    """End a claim: withdraw the request, or release the devices. One that has ended is no error."""
    try:
        found = client_of(ctx).get(claim, ended=True)
    except NotFound as refusal:
        if not ignore_not_found:
            raise
        click.echo(f"{refusal} Nothing to release.", err=True)
        return
    if not found.info.is_live:
        label = state_label(found.state).lower()
        click.echo(f"{found.name} has ended already: {label} {ago(found.info.state_since)}.", err=True)
    show(output, found.release(reason))


@dragoman.command()
@click.option(
    "--tab", type=click.Choice(("mine", "team", "all", "decided")), default="mine", show_default=True
)
@output_option
@click.pass_context
def approvals(ctx: click.Context, tab: Any, output: str) -> None:
    """List the requests that wait for a decision."""
    columns = {
        "id": lambda one: one.id,
        "kind": lambda one: one.kind,
        "request": lambda one: one.title,
        "team": lambda one: one.team,
        "by": lambda one: one.requested_by,
        "age": lambda one: ago(one.requested_at).removesuffix(" ago"),
    }
    write(output, list(client_of(ctx).approvals(tab)), columns)


@dragoman.command()
@claim_argument
@click.option("--note", default="", help="Read by the requester.")
@click.option("--deny", is_flag=True, help="Deny it; the note is the reason.")
@output_option
@click.pass_context
def approve(ctx: click.Context, claim: str, note: str, output: str, *, deny: bool) -> None:
    """Approve a request, or deny it with --deny."""
    client = client_of(ctx)
    show(output, client.deny(claim, note) if deny else client.approve(claim, note=note))


@dragoman.command()
@claim_argument
@click.option(
    "--range",
    "span_of_time",
    default="24h",
    show_default=True,
    help="1h, today, 24h, 7d, 30d, month or life.",
)
@output_option
@click.pass_context
def usage(ctx: click.Context, claim: str, span_of_time: str, output: str) -> None:
    """Show how busy the devices of a claim were."""
    found = client_of(ctx).usage(claim, range=span_of_time)
    busy = None if found.mean_activity is None else f"{found.mean_activity:.0%}"
    facts = {
        "now": found.now.use,
        "busy": busy or "not measured",
        "memory": found.peak_memory_bytes and f"{found.peak_memory_bytes / GIB:.1f} GiB at most",
        "not measured": found.unmeasured_seconds and span(found.unmeasured_seconds),
    }
    write_facts(output, found, facts)


@dragoman.command()
@click.argument("claim", required=False, shell_complete=claim_names)
@click.option("--team", metavar="SLUG", help="The month of a team instead of one claim.")
@click.option("--month", default="", metavar="YYYY-MM", help="This month if left out (UTC).")
@click.option("--by", type=click.Choice(("claim", "person", "product")), default="claim", show_default=True)
@output_option
@click.pass_context
def cost(ctx: click.Context, claim: str | None, team: str | None, month: str, by: str, output: str) -> None:
    """Show what a claim costs, or the month of a team."""
    client = client_of(ctx)
    if claim:
        one = client.cost(claim)
        facts = {"so far": one.so_far, "per hour": one.per_hour, "at its end": one.projected}
        write_facts(output, one, facts)
        return
    found = client.costs(team, month)
    if output != "table":
        write_document(output, found.raw)
        return
    write_table((by, "cost"), [(row.label, row.cost) for row in getattr(found, f"by_{by}")])
    click.echo(f"{found.team} {found.month}: {found.total}")


@dragoman.command()
@click.option("--month", default="", metavar="YYYY-MM", help="This month if left out (UTC).")
@click.option(
    "--format", "file_format", type=click.Choice(("csv", "parquet")), default="csv", show_default=True
)
@click.option(
    "--file", "file", type=click.File("wb", atomic=True), default="-", help="Standard output if left out."
)
@click.pass_context
def export(ctx: click.Context, month: str, file_format: Any, file: BinaryIO) -> None:
    """Write the cost of all claims in a month in the format of FOCUS; for platform admins."""
    with client_of(ctx).focus(month, format=file_format) as pieces:
        for piece in pieces:
            file.write(piece)


@dragoman.command()
@click.argument("shell", type=click.Choice(("bash", "zsh", "fish")))
def completion(shell: str) -> None:
    """Print the completion of a shell: eval "$(dragoman completion bash)"."""
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    if kind is None:
        raise click.UsageError(f"There is no completion for {shell}.")
    click.echo(kind(dragoman, {}, "dragoman", "_DRAGOMAN_COMPLETE").source())


def show(output: str, claim: ClaimInfo) -> None:
    """Print a claim."""
    facts = {
        "claim": claim.name,
        "id": claim.id,
        "state": f"{claim.state} ({state_label(claim.state)})",
        "cluster": f"{claim.cluster}, namespace {claim.namespace}",
        "profile": ", ".join(claim.profiles) or claim.profile,
        "ends": moment(claim.expires_at),
        "problem": claim.problem,
        "devices": "\n         ".join(map(str, claim.allocations)),
    }
    write_facts(output, claim, facts)
