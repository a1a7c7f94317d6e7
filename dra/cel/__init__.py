"""CEL selectors of devices, as the Kubernetes API server and scheduler evaluate them."""

from dra.attributes import Selectable
from dra.cel.access import MAX_STEPS, Work
from dra.cel.selector import Selector, compile_selector
from dra.cel.syntax import CelError, CompileError, EvaluationError, NotPreviewable

__all__ = [
    "MAX_STEPS",
    "CelError",
    "CompileError",
    "EvaluationError",
    "NotPreviewable",
    "Selectable",
    "Selector",
    "Work",
    "compile_selector",
]
