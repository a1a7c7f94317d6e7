"""What a claim spec meets in a cluster, and why not more: the funnel, findings, and who is in the way."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from dra.endings import Endings, would_fit_without
from dra.lint import Finding, NamedSpec, Subject, lint
from dra.match import Drop, Kind, Preview, Step, dropped, preview
from dra.objects import Json
from dra.picture import Picture

EXAMPLES = 1  # devices named per step that drops some
NAMED = frozenset((Kind.SELECTOR, Kind.UNTAINTED, Kind.FREE))  # steps whose devices are worth a name


@dataclass(frozen=True, slots=True)
class SpecReport:
    """`drops` are examples of the devices that each step of the match drops, in the order of the steps."""

    cluster: str
    match: Preview
    drops: tuple[tuple[Drop, ...], ...]
    findings: tuple[Finding, ...]
    endings: Endings

    @property
    def fits(self) -> bool:
        return self.match.fits

    def as_json(self) -> dict[str, Any]:
        """Return it as the command writes it for programs; null is what cannot be told."""
        found = self.match
        return {
            "cluster": self.cluster,
            "fits": self.fits,
            "reason": found.reason,
            "problem": found.problem,
            "matching": found.matching,
            "free": found.free,
            "nodes_that_fit": found.nodes_that_fit,
            "steps": [
                asdict(step) | {"such_as": [{"device": str(drop.device), "why": why(drop)} for drop in drops]}
                for step, drops in zip(found.steps, self.drops, strict=True)
            ],
            "findings": [
                {
                    "code": finding.code,
                    "severity": finding.severity,
                    "path": finding.path,
                    "message": finding.message,
                    "fix": asdict(finding.fix) if finding.fix else None,
                }
                for finding in self.findings
            ],
            "scattered": self.endings.sentence,
            "would_fit_without": [asdict(one) for one in self.endings.endings],
        }


def report_on(cluster: str, picture: Picture, spec: Json) -> SpecReport:
    """Work it out. Never raises for what the spec says."""
    match = preview(picture, spec)
    found = lint(picture, [NamedSpec("", spec)]).findings
    return SpecReport(
        cluster=cluster,
        match=match,
        drops=tuple(_drops(picture, spec, match, place) for place in range(len(match.steps))),
        findings=tuple(one for one in found if one.subject is Subject.PROFILE),
        endings=Endings() if match.fits else would_fit_without(picture, spec),
    )


def why(drop: Drop) -> str:
    """Say why a device drops out, the holder too: whoever runs a command sees the mirror anyway."""
    return f"held by {drop.holder}" if drop.holder else drop.sentence


def _drops(picture: Picture, spec: Json, match: Preview, place: int) -> tuple[Drop, ...]:
    step: Step = match.steps[place]
    if step.kind not in NAMED or not step.dropped or match.matching is None:
        return ()
    return tuple(dropped(picture, spec, place, limit=EXAMPLES).drops)
