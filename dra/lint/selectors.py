"""Checks one selector on the devices that reach it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from dra.cel import CompileError, compile_selector
from dra.facts import Ref
from dra.lint import population as rewrite
from dra.lint.population import Groups, Population, Published, SelectorStage, published_kinds, qualified_name
from dra.lint.report import Fix, LintCode, LintFinding, Severity, Subject
from dra.selector_results import SelectorResults

UNLIKE = "no such overload"  # CEL's error for different types


@dataclass(frozen=True, slots=True)
class SelectorChecker:
    """Checks the selectors of one class or profile."""

    population: Population
    published: Published
    subject: Subject
    name: str

    def found(
        self, code: LintCode, severity: Severity, message: str, path: str = "", fix: Fix | None = None
    ) -> LintFinding:
        return LintFinding(self.subject, self.name, code, severity, message, path, fix)

    def selector(self, stage: SelectorStage) -> Iterator[LintFinding]:
        """Yield the findings of a stage, the worst first."""
        if stage.error is not None:
            yield self._unusable(stage)
            return
        if not stage.reaching:
            return  # no device reaches it
        unknown = [ref for ref in sorted(self._refs(stage)) if not self.published.has(ref)]
        if stage.failed:
            yield self._fails(stage, guard=not unknown)
        for ref in unknown:
            yield self._not_published(stage, ref)
        yield from self._unlike_literals(stage)

    def _unusable(self, stage: SelectorStage) -> LintFinding:
        assert stage.error is not None  # the caller has checked  # noqa: S101
        if not isinstance(stage.error, CompileError):
            message = f"{stage.label} cannot be evaluated by the portal: {stage.error.message}"
            return self.found(LintCode.NOT_PREVIEWABLE, Severity.NOTE, message, stage.path)
        message = f"{stage.label} is rejected by the API server: {stage.error.message}"
        fix = self.fix(stage, rewrite.methods(stage.expression))
        return self.found(LintCode.DOES_NOT_COMPILE, Severity.ERROR, message, stage.path, fix)

    def _fails(self, stage: SelectorStage, *, guard: bool) -> LintFinding:
        assert stage.results is not None  # it failed on a device  # noqa: S101
        population = self.population
        number = next(population.numbers(stage.failed))
        error, device = stage.results.errors[number].message, population.samples[number]
        message = (
            f"{stage.label} fails on {population.count(stage.failed)} of the "
            f"{devices(population.count(stage.reaching))} that reach it, for example {device}: {error}. "
            "The scheduler rejects every pod for which it evaluates such a device, on any node."
        ).replace("..", ".")
        if UNLIKE in error:
            types = self._types(stage)
            message += f" It compares different types: {types}." if types else ""
            fix = self._retyped(stage)
            return self.found(LintCode.WRONG_TYPE, Severity.ERROR, message, stage.path, fix)
        # An unpublished name needs another name, not a guard: the next finding proposes it.
        fix = self._guarded(stage) if guard else None
        return self.found(LintCode.SELECTOR_FAILS, Severity.ERROR, message, stage.path, fix)

    def _types(self, stage: SelectorStage) -> str:
        kinds = {ref: self.kind_of(ref, stage.failed) for ref in sorted(self._refs(stage))}
        return ", ".join(
            f"{qualified_name(ref)} is published as {kind}" for ref, kind in kinds.items() if kind
        )

    def kind_of(self, ref: Ref, groups: Groups | None = None) -> str:
        """Return the most frequent type of a name, "" if no device publishes it."""
        relevant = self.population.all if groups is None else groups
        samples = (self.population.samples[number] for number in self.population.numbers(relevant))
        return next((kind for kind, _ in published_kinds(ref, samples).most_common(1)), "")

    def _default_kind(self, ref: Ref) -> str:
        kind = self.kind_of(ref)
        return kind if kind in rewrite.DEFAULTS else "quantity" if ref[0] == "capacity" else "string"

    def _guarded(self, stage: SelectorStage) -> Fix | None:
        """Return a fix that rejects devices without the attributes and keeps the other results."""

        def keeps(judged: SelectorResults) -> bool:
            sound = stage.reaching & ~stage.failed
            return judged.mask & stage.reaching == stage.accepted & sound

        for text in (
            rewrite.guarded(stage.expression, self._default_kind),
            rewrite.with_presence_tests(stage.expression),
        ):
            if fix := self.fix(stage, text, keeps):
                return fix
        return None

    def _retyped(self, stage: SelectorStage) -> Fix | None:
        for ref, equality in rewrite.equalities(stage.expression):
            published = self.kind_of(ref, stage.failed)
            if published in rewrite.DEFAULTS and published != equality.kind:
                return self.fix(stage, rewrite.as_kind(stage.expression, equality, published))
        return None

    def _not_published(self, stage: SelectorStage, ref: Ref) -> LintFinding:
        message = f"{stage.label} reads {qualified_name(ref)}, which no device of the cluster publishes."
        fix = None
        if meant := self.published.closest(ref):
            message += f" {devices(self.published.names[meant])} publish {qualified_name(meant)}."
            text = rewrite.renamed(stage.expression, ref, meant)
            fix = self.fix(stage, text, lambda judged: bool(judged.mask & stage.reaching))
        return self.found(LintCode.NOT_PUBLISHED, Severity.WARNING, message, stage.path, fix)

    def _unlike_literals(self, stage: SelectorStage) -> Iterator[LintFinding]:
        """Yield `==` between different types, which is never true and no CEL error."""
        for ref, equality in rewrite.equalities(stage.expression) if not stage.failed else ():
            published = self.kind_of(ref, stage.reaching)
            if published not in rewrite.DEFAULTS or published == equality.kind:
                continue
            message = (
                f"{stage.label} compares {qualified_name(ref)} with the {equality.kind} {equality.wanted}, "
                f"but devices publish it as {published}: they are never equal."
            )
            fix = self.fix(stage, rewrite.as_kind(stage.expression, equality, published))
            yield self.found(LintCode.WRONG_TYPE, Severity.ERROR, message, stage.path, fix)

    def fix(
        self, stage: SelectorStage, text: str, holds: Callable[[SelectorResults], bool] = lambda judged: True
    ) -> Fix | None:
        """Return the expression as a fix if it fails on no device that reaches the stage, and `holds`."""
        if text == stage.expression or (judged := self.population.try_out(text)) is None:
            return None
        sound = not judged.failed_mask & stage.reaching and holds(judged)
        return Fix(stage.path, stage.expression, text) if sound else None

    def _refs(self, stage: SelectorStage) -> set[Ref]:
        return compile_selector(stage.expression, self.population.snapshot.features).reading.refs


def devices(number: int) -> str:
    return "1 device" if number == 1 else f"{number} devices"
