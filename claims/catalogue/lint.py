"""
The check of the catalogue against the devices that every cluster publishes.

The report is computed on demand from the cached cluster snapshots, and cached until a slice, a class or a
profile changes. A report in a table could be out of date.
"""

import hashlib
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from uuid import UUID

from django.db.models import QuerySet

from claims.models import Profile, ProfileVersion
from dra import lint
from dra.device_index import DeviceIndex
from dra.lint import Fix, LintCode, LintFinding, LintReport, NamedSpec, Severity, Subject
from dra.objects import Json
from inventory.cluster_snapshot import current_snapshot
from inventory.models import Cluster

FRESH = timedelta(0)
ORDER = list(Severity)


@dataclass(frozen=True, slots=True)
class ClusterMessage:
    """A sentence, and the names of the clusters it is true for."""

    clusters: tuple[str, ...]
    message: str


@dataclass(frozen=True, slots=True)
class CatalogueFinding:
    """
    One finding, with all clusters that have it. `profile` is None for a class.

    A finding that depends on the devices of a cluster is only a note if the profile matches in another one.
    """

    subject: Subject
    name: str
    code: LintCode
    severity: Severity
    path: str
    fix: Fix | None
    messages: tuple[ClusterMessage, ...]
    profile: Profile | None

    @property
    def key(self) -> str:
        """Return a digest that identifies the finding of a profile in a URL, in hex."""
        text = "\n".join((self.code, self.path, self.fix.before + "\n" + self.fix.after if self.fix else ""))
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    @property
    def clusters(self) -> tuple[str, ...]:
        return tuple(name for message in self.messages for name in message.clusters)

    @property
    def is_due(self) -> bool:
        """Whether it needs a fix."""
        return self.severity is not Severity.NOTE

    @property
    def fixable(self) -> bool:
        """Whether the portal can apply the fix: it owns profiles, but not device classes."""
        return self.fix is not None and self.profile is not None


@dataclass(frozen=True, slots=True)
class CatalogueReport:
    """Findings, the worst first. `silent` clusters publish no device, so they were not checked."""

    findings: tuple[CatalogueFinding, ...] = ()
    profiles: int = 0
    checked: tuple[str, ...] = ()
    silent: tuple[str, ...] = ()

    @property
    def due(self) -> list[CatalogueFinding]:
        return [finding for finding in self.findings if finding.is_due]

    @property
    def notes(self) -> list[CatalogueFinding]:
        return [finding for finding in self.findings if not finding.is_due]

    def findings_for(self, profile: Profile) -> list[CatalogueFinding]:
        return [finding for finding in self.findings if finding.profile == profile]


@dataclass(frozen=True, slots=True)
class _CachedReport:
    device_index: DeviceIndex
    classes: Sequence[Json]
    versions: tuple[UUID, ...]
    report: LintReport
    at: float  # seconds of the monotonic clock


_cache: dict[UUID, _CachedReport] = {}


def catalogue_report(
    clusters: Iterable[Cluster] | None = None, *, no_older_than: timedelta = FRESH
) -> CatalogueReport:
    """
    Check every profile that is not retired and every class, in `clusters` or in all enabled ones.

    A cached report may be up to `no_older_than` old. Two queries, and those of the cluster snapshots.
    """
    clusters = enabled_clusters() if clusters is None else clusters
    profiles = {
        profile.slug: profile
        for profile in Profile.objects.filter(retired_at=None, current__isnull=False)
        .select_related("current")
        .order_by("slug")
    }
    versions = {slug: profile.current for slug, profile in profiles.items() if profile.current}
    reports = {cluster.name: _report(cluster, versions, no_older_than) for cluster in clusters}
    checked = {name: report for name, report in reports.items() if report.devices}
    return CatalogueReport(
        findings=_merged(checked, profiles),
        profiles=len(profiles),
        checked=tuple(checked),
        silent=tuple(name for name in reports if name not in checked),
    )


def enabled_clusters() -> QuerySet[Cluster]:
    return Cluster.objects.filter(enabled=True).defer("credentials").order_by("name")


def named_spec(name: str, version: ProfileVersion, spec: Json | None = None) -> NamedSpec:
    """Return the spec of a version, or `spec` with the limits of that version, for the check."""
    return NamedSpec(name, version.spec if spec is None else spec, version.scalable, version.max_devices)


def _report(cluster: Cluster, versions: Mapping[str, ProfileVersion], no_older_than: timedelta) -> LintReport:
    cached, ids = _cache.get(cluster.pk), tuple(version.pk for version in versions.values())
    now = time.monotonic()
    if cached and cached.versions == ids and now - cached.at < no_older_than.total_seconds():
        return cached.report
    snapshot = current_snapshot(cluster)
    same = (
        cached
        and cached.versions == ids
        and cached.device_index is snapshot.device_index
        and cached.classes is snapshot.classes
    )
    if cached and same:
        _cache[cluster.pk] = replace(cached, at=now)
        return cached.report
    report = lint.lint(snapshot, [named_spec(slug, version) for slug, version in versions.items()])
    _cache[cluster.pk] = _CachedReport(snapshot.device_index, snapshot.classes, ids, report, now)
    return report


def _merged(
    reports: Mapping[str, LintReport], profiles: Mapping[str, Profile]
) -> tuple[CatalogueFinding, ...]:
    """Merge the findings of several clusters about one subject."""
    groups: dict[tuple[object, ...], dict[str, LintFinding]] = {}
    for cluster, report in reports.items():
        for finding in report.findings:
            key = (finding.subject, finding.name, finding.code, finding.path, finding.fix)
            groups.setdefault(key, {})[cluster] = finding
    merged = []
    for by_cluster in groups.values():
        first = next(iter(by_cluster.values()))
        serving = _serving(reports, first)
        if first.code is LintCode.SAME_DEVICES and not serving <= by_cluster.keys():
            continue  # the profiles differ in another cluster, as intended
        clusters_by_message: dict[str, list[str]] = {}
        for cluster, finding in by_cluster.items():
            clusters_by_message.setdefault(finding.message, []).append(cluster)
        merged.append(
            CatalogueFinding(
                subject=first.subject,
                name=first.name,
                code=first.code,
                severity=_severity(first, serving, by_cluster),
                path=first.path,
                fix=first.fix,
                messages=tuple(
                    ClusterMessage(tuple(names), message) for message, names in clusters_by_message.items()
                ),
                profile=profiles.get(first.name) if first.subject is Subject.PROFILE else None,
            )
        )
    return tuple(
        sorted(merged, key=lambda finding: (ORDER.index(finding.severity), finding.subject, finding.name))
    )


def _serving(reports: Mapping[str, LintReport], finding: LintFinding) -> set[str]:
    """Return the clusters in which devices match the profile, or in which that is unknown."""
    if finding.subject is not Subject.PROFILE:
        return set()
    return {name for name, report in reports.items() if report.matching.get(finding.name) != 0}


def _severity(finding: LintFinding, serving: set[str], by_cluster: Mapping[str, LintFinding]) -> Severity:
    elsewhere = serving - by_cluster.keys()
    if finding.code in lint.DEPENDS_ON_CLUSTER and elsewhere:
        return Severity.NOTE
    return min((found.severity for found in by_cluster.values()), key=ORDER.index)
