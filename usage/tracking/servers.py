"""The tracking servers of teams and of the installation: set, tested and removed by platform admins."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from urllib.parse import urlsplit

from django.db import IntegrityError, transaction
from django.views.decorators.debug import sensitive_variables

from cluster.credentials import reseal, seal_fields, unseal_fields
from core.addresses import reason_to_refuse_host
from core.errors import Conflict, Invalid
from core.text import counted
from core.transactions import service
from inventory.telemetry_access import NO_SECRET, TelemetrySecret, server_of
from teams.access import require_admin
from teams.models import Team, User, record_change
from usage.models import TrackingServer
from usage.sources import TelemetrySource
from usage.tracking.mlflow import TIMEOUT, Mlflow, TrackingUnavailable

CHECKED = {"url", "page_url", "authority"}


@sensitive_variables()
def save_server(
    *,
    by: User,
    server: TrackingServer | None = None,
    team: Team | None = None,
    secret: TelemetrySecret | None = None,
    **fields: str,
) -> TrackingServer:
    """
    Add a server (of `team`, or of the installation), or change `server`; `fields` are `url`, `page_url` and
    `authority`. None keeps the secret. Raises Conflict for a second server, ValidationError, and Invalid for
    a secret that was given for another address.
    """
    require_admin(by)
    if secret is not None:
        secret.require_sound()
    with service:
        if server is None:
            if TrackingServer.objects.filter(team=team).exists():
                raise second(team)
            saved, changes = TrackingServer(team=team), ["added"]
        else:
            saved, changes = TrackingServer.objects.get(pk=server.pk), []
        for name, value in fields.items():
            if getattr(saved, name) != value:
                changes.append(f"{name} changed" if name == "authority" else f"{name} {shown(value)}")
                setattr(saved, name, value)
        refuse_machine(saved.url)
        if secret is not None and (secret.kind or saved.kind):
            saved.kind = secret.kind
            saved.server = server_of(saved.url) if secret.kind else ""
            saved.sealed = seal_fields(asdict(secret)) if secret.kind else b""
            changes.append(f"access given: {secret.kind.label.lower()}" if secret.kind else "access removed")
        require_same_server(saved)
        saved.clean_fields(exclude={field.name for field in saved._meta.fields} - CHECKED)
        if changes:
            try:
                with transaction.atomic():
                    saved.save()
            except IntegrityError as race:  # somebody has added one at this moment
                raise second(team) from race
            record_change(by=by, of=saved, change=", ".join(changes))
    return saved


def second(team: Team | None) -> Conflict:
    return Conflict(f"{team or 'The installation'} has a tracking server already. Change that one.")


def shown(url: str) -> str:
    """Return an address for the record: only its host, since the rest may hold a secret."""
    return urlsplit(url).hostname or "–"


def refuse_machine(url: str) -> None:
    """Raise Invalid for an address of the machine itself, where clouds hand out credentials."""
    if reason := reason_to_refuse_host(urlsplit(url).hostname or ""):
        raise Invalid(reason, field="url")


def require_same_server(server: TrackingServer) -> None:
    """Raise Invalid if the secret was given for another address."""
    if server.kind and server.server != server_of(server.url):
        raise Invalid(
            f"The secret was given for {server.server} and is not sent to {server_of(server.url)}. "
            "Give it again.",
            field="url",
        )


def remove_server(*, by: User, server: TrackingServer) -> None:
    """Forget a server and its runs; tags in MLflow stay."""
    require_admin(by)
    with service:
        record_change(by=by, of=server, change="removed")
        server.delete()


@sensitive_variables()
def source_of(server: TrackingServer, secret: TelemetrySecret | None = None) -> TelemetrySource:
    """Return address and secret of a server. Raises `TrackingUnavailable` if the secret cannot be used."""
    problem = ""
    try:
        refuse_machine(server.url)
        if secret is None:
            require_same_server(server)
            secret = TelemetrySecret(**unseal_fields(server.sealed)) if server.kind else NO_SECRET
    except Invalid as refusal:
        problem = refusal.message
    if problem or secret is None:
        raise TrackingUnavailable(problem)
    return TelemetrySource(server.url, authority=server.authority, timeout_seconds=TIMEOUT, secret=secret)


@sensitive_variables()
def try_server(server: TrackingServer, secret: TelemetrySecret | None, *, since: datetime) -> str:
    """Return what a server has, as a sentence; raise `TrackingUnavailable`. Nothing is stored."""
    mlflow = Mlflow(source_of(server, secret), budget=2 * TIMEOUT)
    experiments = mlflow.experiments()
    runs = sum(1 for _run in mlflow.runs(list(experiments), since=since))
    found = f"{counted(len(experiments), 'experiment')}; {counted(runs, 'run')}"
    return f"{found} of this month and the last name a claim."


def reseal_servers() -> int:
    """Encrypt all secrets with the newest key, return their number. Raises Invalid without their key."""
    resealed = 0
    for pk, sealed in TrackingServer.objects.exclude(kind="").values_list("pk", "sealed"):
        unchanged = TrackingServer.objects.filter(pk=pk, sealed=sealed)  # not replaced meanwhile
        resealed += unchanged.update(sealed=reseal(sealed))
    return resealed
