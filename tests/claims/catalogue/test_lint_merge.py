"""The findings of several clusters are merged into one report."""

from datetime import timedelta

import pytest

from claims.catalogue.lint import CatalogueReport, ClusterMessage, _merged
from claims.models import Profile
from dra.lint import Fix, LintCode, LintFinding, LintReport, Severity, Subject

HOUR, DAY = timedelta(hours=1), timedelta(days=1)


def finding(
    name="train",
    code=LintCode.MATCHES_NOTHING,
    severity=Severity.ERROR,
    message="m",
    subject=Subject.PROFILE,
    path="p",
    fix=None,
):
    return LintFinding(subject, name, code, severity, message, path, fix)


def report(*findings, **matching):
    return LintReport(findings=list(findings), matching=matching, devices=4)


def merged(**reports):
    profiles = {slug: Profile(slug=slug) for slug in ("train", "other")}
    found = _merged({name.replace("_", "-"): one for name, one in reports.items()}, profiles)
    return [(one.name, one.code, one.severity, one.messages) for one in found]


def test_same_finding_of_two_clusters_is_merged():
    one = finding()
    assert merged(a=report(one, train=0), b=report(one, train=0)) == [
        ("train", LintCode.MATCHES_NOTHING, Severity.ERROR, (ClusterMessage(("a", "b"), "m"),))
    ]


def test_different_messages_of_clusters_are_kept_apart():
    found = merged(
        a=report(finding(message="x"), train=0),
        b=report(finding(message="y"), train=0),
        c=report(finding(message="x"), train=0),
    )
    assert found[0][3] == (ClusterMessage(("a", "c"), "x"), ClusterMessage(("b",), "y"))


@pytest.mark.parametrize(
    ("elsewhere", "severity"),
    [(0, Severity.ERROR), (1, Severity.NOTE), (None, Severity.NOTE)],
)
def test_missing_devices_are_a_note_if_another_cluster_may_match(elsewhere, severity):
    found = merged(a=report(finding(), train=0), b=report(train=elsewhere))
    assert [one[2] for one in found] == [severity]


def test_worst_severity_counts_and_is_sorted_first():
    found = merged(
        a=report(
            finding("other", LintCode.SAME_DEVICES, Severity.NOTE),
            finding(severity=Severity.WARNING),
            train=0,
            other=1,
        ),
        b=report(finding(), finding("other", LintCode.SAME_DEVICES, Severity.NOTE), train=0, other=1),
    )
    assert [(name, severity) for name, _code, severity, _told in found] == [
        ("train", Severity.ERROR),
        ("other", Severity.NOTE),
    ]


@pytest.mark.parametrize(("other", "count"), [(0, 1), (1, 0)])
def test_profiles_are_duplicates_unless_a_matching_cluster_differs(other, count):
    twin = finding(code=LintCode.SAME_DEVICES, severity=Severity.NOTE)
    assert len(merged(a=report(twin, train=2), b=report(train=other))) == count


def test_only_findings_of_profiles_are_fixable_by_their_key():
    fixes = [Fix("p", "a", "b"), Fix("p", "a", "c"), None]
    of_class = finding("gpu", subject=Subject.CLASS, fix=fixes[0])
    profile = Profile(slug="train")
    found = _merged(
        {"a": report(*(finding(fix=fix) for fix in fixes), of_class, train=1)}, {"train": profile}
    )
    assert len({one.key for one in found if one.profile}) == 3
    assert sorted((one.name, one.fixable) for one in found) == [
        ("gpu", False),
        ("train", False),
        ("train", True),
        ("train", True),
    ]
    whole = CatalogueReport(found)
    assert len(whole.findings_for(profile)) == 3
    assert (len(whole.due), len(whole.notes)) == (4, 0)
