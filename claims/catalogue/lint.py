"""
The catalogue checked against what every cluster publishes.

Worked out when it is asked for, from the picture that the process keeps anyway, and kept until a slice, a
class or a profile has changed: a stored result could be out of date, a computed one cannot.
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

AT_ONCE = timedelta(0)
ORDER = list(Severity)


@dataclass(frozen=True, slots=True)
class ClusterNote:
    """A sentence, and the names of the clusters of which it is true."""

    clusters: tuple[str, ...]
    message: str


@dataclass(frozen=True, slots=True)
class CatalogueFinding:
    """
    One finding, of all clusters that have it. `profile` is None for a class.

    What hangs on the devices of a cluster is a note while the profile serves in another one.
    """

    subject: Subject
    name: str
    code: LintCode
    severity: Severity
    path: str
    fix: Fix | None
    told: tuple[ClusterNote, ...]
    profile: Profile | None

    @property
    def key(self) -> str:
        """Tell findings of one profile apart in an address."""
        said = "\n".join((self.code, self.path, self.fix.before + "\n" + self.fix.after if self.fix else ""))
        return hashlib.sha256(said.encode()).hexdigest()[:12]

    @property
    def clusters(self) -> tuple[str, ...]:
        return tuple(name for told in self.told for name in told.clusters)

    @property
    def is_due(self) -> bool:
        """Whether somebody should do something about it."""
        return self.severity is not Severity.NOTE

    @property
    def mendable(self) -> bool:
        """Whether the portal can apply the fix: profiles are its own, classes belong to the cluster."""
        return self.fix is not None and self.profile is not None


@dataclass(frozen=True, slots=True)
class CatalogueReport:
    """Findings, the worst first. `silent` clusters publish no device, so nothing was checked there."""

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

    def of(self, profile: Profile) -> list[CatalogueFinding]:
        return [finding for finding in self.findings if finding.profile == profile]


@dataclass(frozen=True, slots=True)
class _Kept:
    device_index: DeviceIndex
    classes: Sequence[Json]
    versions: tuple[UUID, ...]
    report: LintReport
    at: float  # seconds of the monotonic clock


_kept: dict[UUID, _Kept] = {}


def catalogue_report(
    clusters: Iterable[Cluster] | None = None, *, no_older_than: timedelta = AT_ONCE
) -> CatalogueReport:
    """
    Check every profile that is not retired, and every class, in the enabled clusters or in those given.

    A result up to `no_older_than` old will do where nobody acts on it. Two queries, and one per cluster whose
    picture is asked for.
    """
    asked = enabled_clusters() if clusters is None else clusters
    profiles = {
        profile.slug: profile
        for profile in Profile.objects.filter(retired_at=None, current__isnull=False)
        .select_related("current")
        .order_by("slug")
    }
    versions = {slug: profile.current for slug, profile in profiles.items() if profile.current}
    reports = {cluster.name: _report(cluster, versions, no_older_than) for cluster in asked}
    checked = {name: report for name, report in reports.items() if report.devices}
    return CatalogueReport(
        findings=_merged(checked, profiles),
        profiles=len(profiles),
        checked=tuple(checked),
        silent=tuple(name for name in reports if name not in checked),
    )


def enabled_clusters() -> QuerySet[Cluster]:
    return Cluster.objects.filter(enabled=True).defer("credentials").order_by("name")


def named(name: str, version: ProfileVersion, spec: Json | None = None) -> NamedSpec:
    """Return a version of a profile, or another spec with its limits, for the check."""
    wanted = version.spec if spec is None else spec
    return NamedSpec(name, wanted, version.scalable, version.max_devices)


def _report(cluster: Cluster, versions: Mapping[str, ProfileVersion], no_older_than: timedelta) -> LintReport:
    kept, ids = _kept.get(cluster.pk), tuple(version.pk for version in versions.values())
    now = time.monotonic()
    if kept and kept.versions == ids and now - kept.at < no_older_than.total_seconds():
        return kept.report
    snapshot = current_snapshot(cluster)
    same = (
        kept
        and kept.versions == ids
        and kept.device_index is snapshot.device_index
        and kept.classes is snapshot.classes
    )
    if kept and same:
        _kept[cluster.pk] = replace(kept, at=now)
        return kept.report
    report = lint.lint(snapshot, [named(slug, version) for slug, version in versions.items()])
    _kept[cluster.pk] = _Kept(snapshot.device_index, snapshot.classes, ids, report, now)
    return report


def _merged(
    reports: Mapping[str, LintReport], profiles: Mapping[str, Profile]
) -> tuple[CatalogueFinding, ...]:
    """Put what several clusters say of one thing together."""
    found: dict[tuple[object, ...], dict[str, LintFinding]] = {}
    for cluster, report in reports.items():
        for one in report.findings:
            key = (one.subject, one.name, one.code, one.path, one.fix)
            found.setdefault(key, {})[cluster] = one
    merged = []
    for by_cluster in found.values():
        first = next(iter(by_cluster.values()))
        serving = _serving(reports, first)
        if first.code is LintCode.SAME_DEVICES and not serving <= by_cluster.keys():
            continue  # somewhere else they differ, which is what they are for
        told: dict[str, list[str]] = {}
        for cluster, one in by_cluster.items():
            told.setdefault(one.message, []).append(cluster)
        merged.append(
            CatalogueFinding(
                subject=first.subject,
                name=first.name,
                code=first.code,
                severity=_severity(first, serving, by_cluster),
                path=first.path,
                fix=first.fix,
                told=tuple(ClusterNote(tuple(names), message) for message, names in told.items()),
                profile=profiles.get(first.name) if first.subject is Subject.PROFILE else None,
            )
        )
    return tuple(sorted(merged, key=lambda one: (ORDER.index(one.severity), one.subject, one.name)))


def _serving(reports: Mapping[str, LintReport], finding: LintFinding) -> set[str]:
    """Return the clusters in which devices match the profile, or may do so."""
    if finding.subject is not Subject.PROFILE:
        return set()
    return {name for name, report in reports.items() if report.matching.get(finding.name) != 0}


def _severity(finding: LintFinding, serving: set[str], by_cluster: Mapping[str, LintFinding]) -> Severity:
    elsewhere = serving - by_cluster.keys()
    if finding.code in lint.DEPENDS_ON_CLUSTER and elsewhere:
        return Severity.NOTE
    return min((one.severity for one in by_cluster.values()), key=ORDER.index)
