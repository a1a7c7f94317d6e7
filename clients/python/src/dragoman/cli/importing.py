"""`dragoman import`: what a file of manifests requests, and the claims for it."""

from __future__ import annotations

from typing import TextIO

import click

from dragoman.cli.output import write_document
from dragoman.cli.shared import client_of, output_option
from dragoman.results import ImportedClaim


@click.command("import")
@click.argument("file", type=click.File(encoding="utf-8"))
@click.option("--check", is_flag=True, help="Exit code 1 if a claim fits in no cluster now.")
@click.option(
    "--request", "requests", is_flag=True, help="Request the claims; each needs a profile that matches."
)
@click.option("--converted", is_flag=True, help="Print the objects as they should be, as YAML.")
@click.option("--team", metavar="SLUG", help="Your only team if left out; with --request.")
@click.option("--cluster", metavar="NAME", help="Where it fits best if left out; with --request.")
@output_option
@click.pass_context
def import_file(
    ctx: click.Context,
    file: TextIO,
    output: str,
    *,
    check: bool,
    requests: bool,
    converted: bool,
    team: str | None,
    cluster: str | None,
) -> None:
    """Say what the manifests of a file request, and which profiles give it. Only --request creates claims."""
    client = client_of(ctx)
    found = client.import_manifests(file.read(), name=file.name)
    if converted:
        click.echo(found.converted.rstrip("\n"))
    elif output != "table":
        write_document(output, found.raw)
    else:
        for claim in found.claims:
            click.echo(said(claim))
        for remark in found.remarks:
            click.echo(remark)
    if requests:
        unknown = [claim.title for claim in found.claims if not claim.exact]
        if unknown:
            raise click.ClickException(
                f"No profile matches exactly: {', '.join(unknown)}. Nothing was requested."
            )
        for claim in found.claims:
            best = claim.exact[0]
            made = client.request(
                best.profile,
                team=team,
                cluster=cluster,
                devices=best.devices,
                parallel=claim.parallel,
                delivery="template" if claim.delivery == "template" else "claim",
                name=claim.name,
            )
            click.echo(f"Requested {made.info.name}: {made.info.state}.")
    if check and not all(any(cluster.fits for cluster in claim.clusters) for claim in found.claims):
        ctx.exit(1)


def said(claim: ImportedClaim) -> str:
    """Return what a person reads about a claim of a file."""
    lines = [claim.title, *filter(None, (claim.note,)), *claim.problems]
    if claim.exact:
        lines.append("Profiles: " + ", ".join(f"{one.profile} × {one.devices}" for one in claim.exact))
    elif claim.nearest:
        lines.append(
            "No profile matches exactly; the nearest: " + ", ".join(one.profile for one in claim.nearest)
        )
    for cluster in claim.clusters:
        fixes = [f" Try: {finding.selector}" for finding in cluster.findings if finding.selector]
        lines.append(f"{cluster.cluster}: {cluster.sentence}{''.join(fixes)}")
    return "\n  ".join(lines)
