"""
The test of a telemetry source: what was asked, what exists, and how many held devices it measures.

It reads the source as a collection does and stores nothing. All of it takes at most `LONGEST`.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import httpx
from django.utils import timezone

from cluster.checkup import CheckupFinding, CheckupVerdict
from core.text import counted
from inventory.models import Cluster, Device
from usage.attribution import Joined, JoinKey, NotJoined, join, open_allocations
from usage.catch_up import history
from usage.samples import ACTIVITY, METRICS, UTILIZATION, Series, measurements
from usage.sources import (
    LONGEST,
    TelemetrySource,
    TelemetryUnavailable,
    ask,
    parse_response,
    queries,
    query,
    read_exporters,
)

HOST_LABELS = ("Hostname", "hostname")

GOOD, NOTE, BAD = CheckupVerdict.GOOD, CheckupVerdict.NOTE, CheckupVerdict.BAD

ENABLE_DRA = (
    "Start dcgm-exporter 4.6.0 or later with KUBERNETES_ENABLE_DRA=true (Helm: kubernetesDRA.enabled=true)."
)
REMEDIES = {
    NotJoined.NO_SERIES: "Check that the exporter runs on their nodes and is scraped.",
    NotJoined.NO_UUID: ENABLE_DRA,
    NotJoined.TWINS: "Slices do not say the id of a GPU instance. "
    "With static MIG, DRA labels tell them apart; with dynamic MIG no exporter does.",
    NotJoined.NO_POD: "AMD's exporter names pods only; it is measured once a pod uses it.",
    NotJoined.SEVERAL: "AMD's exporter names pods, not devices. Requests of one device per pod are measured.",
}


@dataclass(frozen=True, slots=True)
class SourceQuery:
    """One request: the query, or the address of an exporter; the series that came, and how long it took."""

    text: str
    series: int
    milliseconds: int


@dataclass(slots=True)
class SourceReport:
    """Of one source, now. With a `problem` it could not be read, and there is nothing else."""

    problem: str = ""
    questions: list[SourceQuery] = field(default_factory=list)
    findings: list[CheckupFinding] = field(default_factory=list)
    keys: dict[JoinKey, int] = field(default_factory=dict)  # measured devices by what joined them
    reasons: dict[NotJoined, int] = field(default_factory=dict)  # the others
    published: int = 0  # devices that the cluster publishes

    @property
    def measured(self) -> int:
        return sum(self.keys.values())

    @property
    def held(self) -> int:
        return self.measured + sum(self.reasons.values())

    @property
    def failed(self) -> int:
        return sum(finding.verdict == BAD for finding in self.findings) + bool(self.problem)


@dataclass(slots=True)
class _Reading:
    series: list[Series] = field(default_factory=list)
    questions: list[SourceQuery] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    host_labels: list[str] = field(default_factory=list)
    silent: str = ""  # exporters that cannot be read


def check_source(cluster: Cluster, source: TelemetrySource) -> SourceReport:
    """Return what `source` says of the devices of `cluster`; a source that cannot be read is a `problem`."""
    try:
        reading = _read_prometheus(source) if source.is_prometheus else _read_exporter(source)
    except TelemetryUnavailable as failure:
        return SourceReport(problem=failure.message)
    joined = join(open_allocations(cluster), measurements(reading.series))
    report = SourceReport(
        questions=reading.questions,
        keys=dict(Counter(one.key for one in joined if one.key)),
        reasons=dict(Counter(one.reason for one in joined if one.reason)),
        published=Device.objects.present().filter(cluster=cluster).count(),
    )
    report.findings = [*_of_source(source, reading), *_of_devices(report, joined)]
    report.findings += _of_history(cluster, source)
    return report


def _read_exporter(source: TelemetrySource) -> _Reading:
    started = time.monotonic()
    found, problem = read_exporters(source)
    labels = {label for one in found for label in HOST_LABELS if one.labels.get(label)}
    number = 1 if source.exporters is None else len(source.exporters)
    question = SourceQuery(
        f"GET of {counted(number, 'exporter')}", sum(len(one.values) for one in found), _since(started)
    )
    return _Reading(found, [question], host_labels=sorted(labels), silent=problem)


def _read_prometheus(source: TelemetrySource) -> _Reading:
    until = time.monotonic() + LONGEST

    def request(client: httpx.Client) -> _Reading:
        reading = _Reading()

        def rows(promql: str) -> dict[str, object]:
            left = until - time.monotonic()
            if left <= 0:
                raise TelemetryUnavailable.late(LONGEST)
            started = time.monotonic()
            limited = replace(source, timeout_seconds=min(source.timeout_seconds, left))
            body = query(client, limited, "query", query=promql)
            reading.warnings += [str(warning) for warning in body.get("warnings", [])]
            reading.questions.append(SourceQuery(promql, len(body["data"]["result"]), _since(started)))
            return body

        for metric, promql in queries(source).items():
            reading.series += parse_response(metric, rows(promql))
        for label in HOST_LABELS:
            names = "|".join(METRICS)
            more = f", {source.matchers}" if source.matchers else ""
            body = rows(f'count({{__name__=~"{names}", {label}!=""{more}}})')
            reading.host_labels += [label] * bool(list(parse_response("", body)))
        return reading

    return ask(source, request)


def _since(started: float) -> int:
    return round((time.monotonic() - started) * 1000)


def _of_source(source: TelemetrySource, reading: _Reading) -> Iterator[CheckupFinding]:
    """Yield what is to be said of the source itself."""
    took = sum(question.milliseconds for question in reading.questions)
    requests = counted(len(reading.questions), "request")
    yield CheckupFinding(GOOD, "Connection", f"{requests} in {took} ms")
    if reading.silent:
        yield CheckupFinding(
            BAD,
            "Exporters",
            reading.silent,
            "Check that an exporter runs on these nodes and that the portal reaches its port.",
        )
    if source.secret.kind and source.url.startswith("http:"):
        yield CheckupFinding(
            NOTE,
            "Encryption",
            f"The {source.secret.kind.label.lower()} is sent unencrypted",
            "Give an address with https://, and the certificate of its CA.",
        )
    for warning in sorted(set(reading.warnings))[:3]:
        yield CheckupFinding(NOTE, "Warning of Prometheus", warning[:200])
    yield from _of_series(reading)
    yield from _of_labels(reading)


def _of_series(reading: _Reading) -> Iterator[CheckupFinding]:
    series = Counter(metric for one in reading.series for metric in one.values)
    if not series:
        yield CheckupFinding(
            BAD,
            "Series",
            "There is no series of a GPU",
            "Check that dcgm-exporter runs and, with Prometheus, is scraped: it needs a ServiceMonitor.",
        )
        return
    if not series[ACTIVITY] and not series[UTILIZATION]:
        yield CheckupFinding(
            BAD,
            "Utilization",
            f"There is neither {ACTIVITY} nor {UTILIZATION}",
            f"Add {ACTIVITY} to the metrics of the exporter (dcp-metrics-included.csv).",
        )
    for metric in METRICS:
        if series[metric]:
            yield CheckupFinding(GOOD, metric, counted(series[metric], "series", "series"))
        elif metric == ACTIVITY and series[UTILIZATION]:
            yield CheckupFinding(
                NOTE,
                metric,
                f"no series: {UTILIZATION} replaces it on whole GPUs, and MIG partitions have no utilization",
                "Add it to the metrics of the exporter (dcp-metrics-included.csv); it needs SYS_ADMIN.",
            )
        elif metric != UTILIZATION:
            yield CheckupFinding(
                NOTE, metric, "no series", "Add it to the metrics of the exporter, if you want its graph."
            )


def _of_labels(reading: _Reading) -> Iterator[CheckupFinding]:
    dcgm = [one for one in reading.series if "amd_board" not in one.labels]
    if not dcgm:
        return
    count = sum(len(one.values) for one in dcgm)
    labeled = sum(len(one.values) for one in dcgm if one.labels.get("dra_claim_name"))
    if labeled:
        yield CheckupFinding(GOOD, "DRA labels", f"on {labeled} of {counted(count, 'series', 'series')}")
    else:
        yield CheckupFinding(NOTE, "DRA labels", "none; devices are joined by their UUID", ENABLE_DRA)
    found = reading.host_labels
    if len(found) > 1:
        yield CheckupFinding(
            NOTE,
            "Host label",
            "Hostname and hostname: two versions of dcgm-exporter",
            "Dashboards need one of them; the portal uses none.",
        )
    elif found:
        version = "before 4.6.0" if found == ["Hostname"] else "4.6.0 or later"
        yield CheckupFinding(GOOD, "Host label", f"{found[0]}: dcgm-exporter {version}")
    else:
        yield CheckupFinding(NOTE, "Host label", "none", "The portal does not use it; dashboards may.")


def _of_devices(report: SourceReport, joined: list[Joined]) -> Iterator[CheckupFinding]:
    """Yield how the devices that claims hold were found, what is approximate, and what is missing."""
    if not joined:
        yield CheckupFinding(NOTE, "Held devices", "no claim holds a device now", "Test again when one does.")
        return
    verdict = GOOD if not report.reasons else NOTE if report.measured else BAD
    yield CheckupFinding(verdict, "Held devices", f"{report.measured} of {report.held} measured")
    for key in JoinKey:
        if report.keys.get(key):
            yield CheckupFinding(GOOD, f"Joined by {key}", counted(report.keys[key], "device"))
    for reason in NotJoined:
        if report.reasons.get(reason):
            devices = counted(report.reasons[reason], "device")
            yield CheckupFinding(NOTE, "No telemetry", f"{devices}: {reason}", REMEDIES[reason])
    if report.keys.get(JoinKey.INSTANCE):
        yield CheckupFinding(
            NOTE,
            "Approximate",
            "GPU instances without DRA labels are joined by GPU and MIG profile, while one is held",
            f"{ENABLE_DRA} Dynamic MIG has no UUID in its slice, so no exporter labels it.",
        )
    if any(one.key and one.allocation.partition for one in joined):
        yield CheckupFinding(
            NOTE, "Approximate", "power of a partition is that of its whole GPU", "DCGM has no other value."
        )


def _of_history(cluster: Cluster, source: TelemetrySource) -> Iterator[CheckupFinding]:
    """Yield the gaps of the last day, and what was filled."""
    day = history(cluster, timezone.now())
    filled = f"{counted(day.filled, 'gap')} of 5 minutes filled in the last day, {day.missing} left"
    if day.partial:
        filled += f"; in {counted(day.partial, 'other')} some of the held devices have no measurement"
    if not source.is_prometheus:
        remedy = "An exporter has no history. With Prometheus, gaps are filled from it."
        yield CheckupFinding(NOTE if day.missing else GOOD, "History", filled, remedy * bool(day.missing))
    elif day.missing or day.partial:
        remedy = (
            "In case Prometheus gets them late, gaps are asked for again each hour, for a day, and devices "
            "that were not measured once, an hour later."
        )
        yield CheckupFinding(NOTE, "History", filled, remedy)
    else:
        yield CheckupFinding(GOOD, "History", filled)
