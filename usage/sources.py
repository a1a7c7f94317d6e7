"""
Reads a cluster's telemetry: series of its exporters or of Prometheus.

Exporters have the text format of Prometheus
(https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format); one that does not respond
is named, and the others count. Prometheus, or what has its
HTTP API (Thanos, Mimir, VictoriaMetrics), gets one instant query per metric for all claims of a cluster.
`max by` drops pod and container, so that pods that share a device do not count twice; labels that a scrape
renames (`exported_pod`, `Hostname`) are not used. Prometheus leaves out series without a sample in the last
five minutes.

A secret goes to the server for which it was given, and nowhere else: redirects are not followed. Errors are
raised outside of the `except` that found them, because those of httpx hold the request with its headers.
"""

from __future__ import annotations

import json
import re
import ssl
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple, Self
from urllib.parse import urlsplit

import httpx
from django.views.decorators.debug import sensitive_variables

from cluster.tls import client_context
from core.addresses import connection_check
from core.errors import Invalid, PortalError
from core.text import counted
from inventory.models import Cluster, Device, TelemetryAccess
from inventory.telemetry_access import NO_SECRET, TelemetrySecret, open_secret
from usage import amd
from usage.exporters import Exporter, exporters_of
from usage.samples import KNOWN, METRICS, MOST, Series

CONNECT_SECONDS = 3.0
MAX_CHARACTERS = 1024 * 1024 * 1024  # 40,000 GPUs have some 300 million
AT_ONCE = 16  # exporters that are read at the same time
LONGEST = 25.0  # seconds for all exporters: the next collection begins after 30
NAMED = 3  # exporters in a sentence


class TelemetryUnavailable(PortalError):
    """The source does not respond, or not in its format. The message has no URL and no secret."""

    code = "telemetry-unavailable"
    status = 503
    title = "Telemetry cannot be read"

    @classmethod
    def bad_status(cls, status: int) -> Self:
        return cls(f"The telemetry source returned status {status}.")

    @classmethod
    def denied(cls, status: int) -> Self:
        return cls(
            f"The telemetry source denies access (status {status}). Check token, password or certificate, "
            "and the tenant, on the settings page of the cluster."
        )

    @classmethod
    def redirected(cls, location: str) -> Self:
        host = urlsplit(location).hostname or "another path"
        return cls(
            f"The telemetry source redirects to {host[:100]}. Redirects are not followed, so that no secret "
            "goes there; enter the final address."
        )

    @classmethod
    def untrusted(cls) -> Self:
        return cls(
            "The certificate of the telemetry source is not trusted. Give the certificate of its CA, and the "
            "name that the certificate has."
        )

    @classmethod
    def late(cls, seconds: float) -> Self:
        return cls(f"The telemetry source did not respond within {seconds:g} seconds.")

    @classmethod
    def unreachable(cls, failure: Exception) -> Self:
        kind = type(failure).__name__
        return cls(f"The telemetry source cannot be reached ({kind}).")

    @classmethod
    def malformed(cls, failure: Exception) -> Self:
        return cls(f"The telemetry source returned data in an unknown format: {str(failure)[:200]}.")

    @classmethod
    def refused(cls, why: str) -> Self:
        return cls(f"Prometheus rejected the query: {why[:200]}.")


@dataclass(frozen=True, slots=True)
class TelemetrySource:
    """
    A source with all that is needed to read it. `timeout_seconds` is for one response as a whole.

    `exporters` are those that `url` names unless it is the address of Prometheus; None is the one at `url`.
    """

    url: str
    exporters: tuple[Exporter, ...] | None = None
    is_prometheus: bool = False
    tenant: str = ""
    authority: str = field(default="", repr=False)
    timeout_seconds: float = 10.0
    secret: TelemetrySecret = NO_SECRET
    matchers: str = ""  # of the series of the cluster, such as cluster="fra-1"
    with_amd: bool = False  # whether somebody holds a device of AMD

    def api(self, call: str) -> str:
        return f"{self.url.rstrip('/')}/api/v1/{call}"


@sensitive_variables()
def source_of(
    cluster: Cluster, access: TelemetryAccess | None = None, secret: TelemetrySecret | None = None
) -> TelemetrySource:
    """
    Return the source of a cluster: with its stored access and secret, unless others are given to try.

    Raises Invalid if the secret cannot be read, or was given for another server.
    """
    access = (
        access or TelemetryAccess.objects.filter(cluster=cluster).first() or TelemetryAccess(cluster=cluster)
    )
    return TelemetrySource(
        cluster.telemetry_url,
        exporters=None if cluster.prometheus_url else tuple(exporters_of(cluster)),
        is_prometheus=bool(cluster.prometheus_url),
        tenant=access.tenant,
        authority=access.authority,
        matchers=access.matchers,
        timeout_seconds=access.timeout_seconds,
        secret=open_secret(cluster, access) if secret is None else secret,
        with_amd=Device.objects.filter(cluster=cluster, driver=amd.DRIVER, gone_at=None)
        .exclude(held_by=None)
        .exists(),
    )


@sensitive_variables()
def client_of(source: TelemetrySource) -> httpx.Client:
    """Return a client that identifies itself. Raises Invalid for damaged certificates."""
    secret = source.secret
    headers = {"User-Agent": "dragoman"}
    if source.tenant:
        headers["X-Scope-OrgID"] = source.tenant
    if secret.token:
        headers["Authorization"] = f"Bearer {secret.token}"
    verify: ssl.SSLContext | bool = True
    if any(urlsplit(url).scheme == "https" for url in source.url.split()):
        context = client_context(authority=source.authority, certificate=secret.certificate, key=secret.key)
        if context is None:
            raise Invalid("The certificates of the telemetry source are damaged. Give them again.")
        verify = context
    return httpx.Client(
        headers=headers,
        auth=httpx.BasicAuth(secret.user, secret.password) if secret.user else None,
        verify=verify,
        timeout=httpx.Timeout(source.timeout_seconds, connect=min(CONNECT_SECONDS, source.timeout_seconds)),
        follow_redirects=False,
        event_hooks={"request": [connection_check(Invalid)]},
    )


@sensitive_variables()
def ask[Answer](source: TelemetrySource, request: Callable[[httpx.Client], Answer]) -> Answer:
    """Return what `request` reads through a client; raise `TelemetryUnavailable` with a sentence."""

    def with_client() -> Answer:
        with client_of(source) as client:
            return request(client)

    return guarded(source, with_client)


@sensitive_variables()
def guarded[Answer](source: TelemetrySource, read: Callable[[], Answer]) -> Answer:
    """Return what `read` returns; raise `TelemetryUnavailable` with a sentence for what goes wrong."""
    try:
        return read()
    except TelemetryUnavailable as failure:
        problem = TelemetryUnavailable(failure.message)
    except Invalid as failure:
        problem = TelemetryUnavailable(failure.message)
    except (httpx.ReadTimeout, TimeoutError):
        problem = TelemetryUnavailable.late(source.timeout_seconds)
    except httpx.HTTPError as failure:
        is_untrusted = "CERTIFICATE_VERIFY_FAILED" in str(failure)
        problem = (
            TelemetryUnavailable.untrusted() if is_untrusted else TelemetryUnavailable.unreachable(failure)
        )
    except (ValueError, KeyError, TypeError, AttributeError) as failure:
        problem = TelemetryUnavailable.malformed(failure)
    raise problem


def require_answer(response: httpx.Response) -> None:
    """Raise `TelemetryUnavailable` unless it is one; the body of a rejected query is read before."""
    if response.is_success:
        return
    if response.is_redirect:
        raise TelemetryUnavailable.redirected(response.headers.get("location", ""))
    if response.status_code in (401, 403):
        raise TelemetryUnavailable.denied(response.status_code)
    raise TelemetryUnavailable.bad_status(response.status_code)


def limited(chunks: Iterable[str], *, until: float = float("inf")) -> Iterator[str]:
    """Yield the chunks; raise ValueError for more than any source has, TimeoutError after `until`."""
    characters = 0
    for chunk in chunks:
        characters += len(chunk)
        if characters > MAX_CHARACTERS:
            raise ValueError(f"more than {MAX_CHARACTERS} characters")
        if time.monotonic() > until:
            raise TimeoutError
        yield chunk


class Exposition(NamedTuple):
    """The text of an exporter: its series, and the lines that cannot be read, as "line “…”"."""

    series: list[Series]
    malformed: list[str]


class SourceReading(NamedTuple):
    """The series of a source; `problem` has sentences about exporters and lines that could not be read."""

    series: list[Series]
    problem: str = ""


def read_exporters(source: TelemetrySource) -> SourceReading:
    """
    Return the series of `METRICS` of all exporters, which are read side by side.

    Raises `TelemetryUnavailable` if none can be read, or if nodes stand for exporters and none has devices.
    """
    exporters = (Exporter(source.url),) if source.exporters is None else source.exporters
    total = len(exporters)
    if not total:
        raise TelemetryUnavailable("No node publishes devices yet, so there is no exporter to read.")
    until = time.monotonic() + LONGEST

    def request(client: httpx.Client) -> list[Exposition | str]:
        with ThreadPoolExecutor(min(AT_ONCE, total)) as pool:
            return list(pool.map(partial(read_exporter, source, client, until), exporters))

    answers = ask(source, request)
    failed = [
        (exporter, answer)
        for exporter, answer in zip(exporters, answers, strict=True)
        if isinstance(answer, str)
    ]
    if len(failed) == total == 1:
        raise TelemetryUnavailable(failed[0][1])
    named = " ".join(f"{exporter.title}: {message}" for exporter, message in failed[:NAMED])
    if len(failed) == total:
        raise TelemetryUnavailable(f"None of {total} exporters can be read. {named}")
    whole = [
        (exporter, answer)
        for exporter, answer in zip(exporters, answers, strict=True)
        if not isinstance(answer, str)
    ]
    sentences = [f"{len(failed)} of {counted(total, 'exporter')} cannot be read. {named}"] if failed else []
    if malformed := [(exporter, answer.malformed) for exporter, answer in whole if answer.malformed]:
        lines = sum(len(lines) for _exporter, lines in malformed)
        named = " ".join(f"{exporter.title}: {lines[0]}." for exporter, lines in malformed[:NAMED])
        at = counted(len(malformed), "exporter")
        sentences.append(f"{counted(lines, 'line')} of {at} cannot be read; the others count. {named}")
    return SourceReading([series for _, answer in whole for series in answer.series], " ".join(sentences))


@sensitive_variables()
def read_exporter(
    source: TelemetrySource, client: httpx.Client, until: float, exporter: Exporter
) -> Exposition | str:
    """
    Return the series of one exporter, or the sentence that says why it cannot be read: also if no line of
    `METRICS` can.
    """

    def read() -> Exposition:
        latest = min(until, time.monotonic() + source.timeout_seconds)
        if time.monotonic() > until:
            raise TimeoutError
        headers = {"Host": exporter.host} if exporter.host else None
        with client.stream("GET", exporter.url, headers=headers) as response:
            require_answer(response)
            found = parse_exposition(limited(response.iter_lines(), until=latest))
        if found.malformed and not found.series:
            raise ValueError(found.malformed[0])
        return found

    try:
        return guarded(source, read)
    except TelemetryUnavailable as failure:
        return failure.message


QUOTED = r'"([^"\\]*+(?:\\.[^"\\]*+)*+)"'
LABEL = re.compile(rf'("?[a-zA-Z_]\w*+"?)\s*+=\s*+{QUOTED}\s*+')  # blanks stand between any two tokens
LABELS_TEXT = re.compile(rf"\s*+(?:{LABEL.pattern}(?:,\s*+|$))*+")
LINE = re.compile(
    rf"\s*(?P<name>\w+)\s*(?:\{{(?P<labels>\s*+(?:{LABEL.pattern}(?:,\s*+|(?=\}})))*+)\}}\s*|\s)"
    r"(?P<value>\S+)(?:\s+-?[\d.]+)?(?:\s+#\s.*)?\s*"  # a time, and in OpenMetrics an exemplar
)
QUOTED_NAME = re.compile(rf"^\s*+\{{\s*+{QUOTED}\s*+,?")  # Prometheus 3: {"name", label="x"} 1
NAMES = KNOWN | amd.NAMES
ESCAPE = re.compile(r"\\(.)")
UNESCAPED = {"n": "\n", "\\": "\\", '"': '"'}


def parse_exposition(lines: Iterable[str]) -> Exposition:
    """
    Return the series of `METRICS`, and the lines of these that are malformed, which cost no other line.

    An exporter has some thirty metrics per device; other metrics are skipped. All lines of a device have the
    same labels, so these are the key under which their values are gathered, and are read once. That is fifty
    times as fast as prometheus_client.parser; a test compares both.
    """
    found: dict[str, dict[str, float]] = {}
    others: list[Series] = []
    malformed: list[str] = []
    for line in lines:
        name, brace, rest = line.partition("{")
        if name in KNOWN:
            text, _, value = rest.rpartition("}")
            try:
                if brace and " # " not in rest:
                    number = float(value)
                    if (values := found.get(text)) is None:
                        values = found[text] = {}
                    values[name] = number
                    continue
            except ValueError:
                pass  # a time follows the value, or it is malformed
        elif next(iter(name.split() or QUOTED_NAME.findall(line)), "") not in NAMES:
            continue
        try:
            others.append(parse_line(QUOTED_NAME.sub(r"\1{", line)))
        except ValueError as failure:
            malformed.append(str(failure))
    for text, values in found.items():
        try:
            others.append(Series(parse_labels(text), values))
        except ValueError:
            malformed += [in_words(f"{name}{{{text}}} {value:g}") for name, value in values.items()]
    return Exposition(others, malformed)


def parse_line(line: str) -> Series:
    """Return the series of one line, however it is written. Raises ValueError."""
    match = LINE.fullmatch(line)
    try:
        if match is not None:
            return series(match["name"], parse_labels(match["labels"] or ""), float(match["value"]))
    except ValueError:
        pass
    raise ValueError(in_words(line))


def parse_labels(text: str) -> dict[str, str]:
    """Return the labels of what stands in braces. Raises ValueError."""
    if not LABELS_TEXT.fullmatch(text):
        raise ValueError(text)
    labels = {name.strip('"'): value for name, value in LABEL.findall(text)}
    return {name: unescaped(value) for name, value in labels.items()} if "\\" in text else labels


def in_words(line: str) -> str:
    """Return a malformed line with its beginning and its end, which has the value."""
    return f"line “{line if len(line) <= 90 else f'{line[:60]} … {line[-25:]}'}”"


def unescaped(text: str) -> str:
    """Return the value of a label without its escapes."""
    return ESCAPE.sub(lambda escape: UNESCAPED.get(escape[1], escape[0]), text)


LABELS = (
    "dra_claim_namespace",
    "dra_claim_name",
    "dra_driver_name",
    "dra_pool_name",
    "dra_device_name",
    "dra_mig_device_uuid",
    "UUID",
    "GPU_I_ID",
    "GPU_I_PROFILE",
)


def query_for(metric: str, matchers: str = "") -> str:
    """
    Return the PromQL of a metric: per claim, device and partition; per physical GPU without DRA labels. What
    no GPU can have is left out there, so that it does not win over the value of another pod or exporter.
    """
    selector = f"{{{matchers}}}" if matchers else ""
    return f"max by ({', '.join(LABELS)}) ({metric}{selector} <= {MOST[metric]:.16g})"


def queries(source: TelemetrySource) -> dict[str, str]:
    """Return the queries for all devices of a cluster by metric: those of DCGM, and of AMD if it has any."""
    asked = {metric: query_for(metric, source.matchers) for metric in METRICS}
    if source.with_amd:
        labels = ", ".join(amd.LABELS)
        more = f", {source.matchers}" if source.matchers else ""
        for name, metric in amd.METRICS.items():
            most = MOST[metric] / amd.FACTORS.get(name, 1.0)
            asked[name] = f'max by ({labels}) ({{__name__=~"(amd_)?{name}"{more}}} <= {most:.16g})'
    return asked


def read_prometheus(source: TelemetrySource) -> list[Series]:
    """Return the series of `METRICS` now; raise `TelemetryUnavailable` with a sentence."""

    def request(client: httpx.Client) -> list[Series]:
        found: list[Series] = []
        for metric, promql in queries(source).items():
            found += parse_response(metric, query(client, source, "query", query=promql))
        return found

    return ask(source, request)


def query(client: httpx.Client, source: TelemetrySource, call: str, **parameters: str) -> dict[str, Any]:
    """Return the body of a call of the HTTP API. That of a 400 or 422 says why a query is rejected."""
    until = time.monotonic() + source.timeout_seconds
    data = {**parameters, "timeout": f"{source.timeout_seconds:g}s"}
    with client.stream("POST", source.api(call), data=data) as response:
        is_rejected = response.status_code in (400, 422)
        if not is_rejected:
            require_answer(response)
        body: dict[str, Any] = json.loads("".join(limited(response.iter_text(), until=until)))
    if is_rejected:
        raise TelemetryUnavailable.refused(str(body.get("error", "")))
    return body


def read_source(cluster: Cluster) -> SourceReading:
    """Return the series of a cluster's source; raise `TelemetryUnavailable` with a sentence."""
    return read(opened(cluster))


def opened(cluster: Cluster) -> TelemetrySource:
    """Return the source of a cluster; raise `TelemetryUnavailable` if its secret cannot be used."""
    try:
        return source_of(cluster)
    except Invalid as refusal:
        problem = refusal.message
    raise TelemetryUnavailable(problem)


def read(source: TelemetrySource) -> SourceReading:
    return SourceReading(read_prometheus(source)) if source.is_prometheus else read_exporters(source)


def parse_response(metric: str, body: dict[str, Any]) -> Iterator[Series]:
    """
    Yield the series of an instant query: `data.result[]` with `metric` and `value: [time, "text"]`. One that
    is a histogram has no value.
    """
    for row in body["data"]["result"]:
        if "histogram" not in row:
            yield series(metric, row["metric"], float(row["value"][1]))


def series(metric: str, labels: Mapping[str, str], value: float) -> Series:
    """Return the series of one value, in the terms of DCGM."""
    return amd.translated(metric, labels, value) if metric in amd.NAMES else Series(labels, {metric: value})
