"""
The check of the catalogue against the devices that every cluster publishes.

`catalogue_report` reads the last check (`claims.catalogue.availability`); `check_catalogue` checks now.
`definition_findings` checks one profile before or after it is saved.
"""

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import QuerySet

from claims.catalogue.definition import ProfileDefinition
from claims.models import ClusterAvailability, Profile, ProfileVersion
from core.prepared import PreparedObjects
from dra import lint
from dra.cluster_snapshot import ClusterSnapshot
from dra.device_index import DeviceIndex
from dra.lint import Fix, LintCode, LintFinding, LintReport, NamedSpec, Severity, Subject
from dra.objects import Json
from inventory.cluster_snapshot import current_snapshot
from inventory.models import Cluster

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
    """
    Findings, the worst first. `silent` clusters publish no device, so they were not checked.

    `computed_at` is the time of the oldest check; None for a check of this moment, and without a cluster.
    """

    findings: tuple[CatalogueFinding, ...] = ()
    profiles: int = 0
    checked: tuple[str, ...] = ()
    silent: tuple[str, ...] = ()
    computed_at: datetime | None = None

    @property
    def due(self) -> list[CatalogueFinding]:
        return [finding for finding in self.findings if finding.is_due]

    @property
    def notes(self) -> list[CatalogueFinding]:
        return [finding for finding in self.findings if not finding.is_due]

    def findings_for(self, profile: Profile) -> list[CatalogueFinding]:
        return [finding for finding in self.findings if finding.profile == profile]


def catalogue_report() -> CatalogueReport:
    """
    Return the last check of the profiles that are not retired, and of the classes, in all enabled clusters.

    What was found in another version of a profile than its current one is left out. Two queries.
    """
    profiles = {profile.slug: profile for profile in OFFERED.objects()}
    rows = stored_checks()
    reports = {
        row.cluster.name: _report_from_json(row.report, _outdated(row.checked, profiles)) for row in rows
    }
    return _report(reports, profiles, min((row.computed_at for row in rows), default=None))


def _offered() -> QuerySet[Profile]:
    return Profile.objects.filter(retired_at=None, current__isnull=False).order_by("slug")


def stored_checks() -> list[ClusterAvailability]:
    """Return the last check of each enabled cluster that was checked, in one query."""
    return CHECKS.objects()


def _checks() -> QuerySet[ClusterAvailability]:
    rows = ClusterAvailability.objects.filter(cluster__enabled=True).select_related("cluster")
    return rows.only("computed_at", "report", "checked", "cluster__name").order_by("cluster__name")


OFFERED: PreparedObjects[Profile] = PreparedObjects(_offered)
CHECKS: PreparedObjects[ClusterAvailability] = PreparedObjects(_checks)


def check_catalogue(clusters: Iterable[Cluster] | None = None) -> CatalogueReport:
    """Check now in `clusters` or in all enabled ones. Two queries, and those of the cluster snapshots."""
    clusters = enabled_clusters() if clusters is None else clusters
    profiles = {profile.slug: profile for profile in _offered().select_related("current")}
    versions = {slug: profile.current for slug, profile in profiles.items() if profile.current}
    reports = {
        cluster.name: check_cluster(cluster.pk, current_snapshot(cluster), versions) for cluster in clusters
    }
    return _report(reports, profiles, None)


def definition_findings(definition: ProfileDefinition) -> list[CatalogueFinding]:
    """Check a profile in all enabled clusters now, saved or not, without a comparison with other profiles."""
    limits = definition.limits
    spec = NamedSpec(definition.slug, definition.spec, limits.scalable, limits.max_devices)
    reports = {cluster.name: lint.lint(current_snapshot(cluster), [spec]) for cluster in enabled_clusters()}
    findings = _merged({name: report for name, report in reports.items() if report.devices}, {})
    return [finding for finding in findings if finding.subject is Subject.PROFILE]


def _report(
    reports: Mapping[str, LintReport], profiles: Mapping[str, Profile], computed_at: datetime | None
) -> CatalogueReport:
    checked = {name: report for name, report in reports.items() if report.devices}
    return CatalogueReport(
        findings=_merged(checked, profiles),
        profiles=len(profiles),
        checked=tuple(checked),
        silent=tuple(name for name in reports if name not in checked),
        computed_at=computed_at,
    )


def enabled_clusters() -> QuerySet[Cluster]:
    return Cluster.objects.filter(enabled=True).defer("credentials").order_by("name")


def named_spec(name: str, version: ProfileVersion, spec: Json | None = None) -> NamedSpec:
    """Return the spec of a version, or `spec` with the limits of that version, for the check."""
    return NamedSpec(name, version.spec if spec is None else spec, version.scalable, version.max_devices)


@dataclass(frozen=True, slots=True)
class _Checked:
    """The last report of this process for a cluster, and what it depends on; not on who holds devices."""

    device_index: DeviceIndex
    classes: Sequence[Json]
    versions: tuple[UUID, ...]
    report: LintReport


_checked: dict[UUID, _Checked] = {}


def check_cluster(
    cluster_id: UUID, snapshot: ClusterSnapshot, versions: Mapping[str, ProfileVersion]
) -> LintReport:
    """Check versions, by the slugs of their profiles, in one cluster; again only if something has changed."""
    last, ids = _checked.get(cluster_id), tuple(version.pk for version in versions.values())
    if (
        last is None
        or last.versions != ids
        or last.device_index is not snapshot.device_index
        or last.classes is not snapshot.classes
    ):
        report = lint.lint(snapshot, [named_spec(slug, version) for slug, version in versions.items()])
        last = _checked[cluster_id] = _Checked(snapshot.device_index, snapshot.classes, ids, report)
    return last.report


def report_as_json(report: LintReport) -> dict[str, Any]:
    """Return a report as `ClusterAvailability.report` has it."""
    return asdict(report) | {"findings": [asdict(finding) for finding in report.findings]}


def _outdated(checked: Mapping[str, str], profiles: Mapping[str, Profile]) -> set[str]:
    """Return the slugs of profiles that were checked in another version, or are not offered any more."""
    current = {slug: str(profile.current_id) for slug, profile in profiles.items()}
    return {slug for slug, version in checked.items() if current.get(slug) != version}


def _report_from_json(stored: Mapping[str, Any], outdated: Collection[str]) -> LintReport:
    """Return a stored report without what it says about the profiles `outdated`."""
    findings = [
        LintFinding(
            Subject(row["subject"]),
            row["name"],
            LintCode(row["code"]),
            Severity(row["severity"]),
            row["message"],
            row["path"],
            Fix(**row["fix"]) if row["fix"] else None,
        )
        for row in stored.get("findings", ())
        if row["subject"] != Subject.PROFILE or row["name"] not in outdated
    ]
    return LintReport(findings, stored.get("matching", {}), stored.get("devices", 0))


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
    return min((finding_there.severity for finding_there in by_cluster.values()), key=ORDER.index)
