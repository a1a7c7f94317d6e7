"""The ways in which an expression fails; each message is for the person who wrote it."""


class CelError(Exception):
    """An expression could not be used."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class CompileError(CelError):
    """The expression is wrong whatever the device: the API server refuses it, in these words."""


class EvaluationError(CelError):
    """
    The expression fails on some device, such as by naming an attribute that the device lacks.

    Upstream gives up on the whole pod then, not on this device alone.
    """


class NotPreviewable(CelError):
    """
    The expression may be right, but it uses a part of CEL that the portal cannot run: never guess its result.
    """


class SyntaxProblem(Exception):
    """Something is wrong at an offset of the text. Becomes part of a `CompileError`."""

    def __init__(self, place: int, text: str) -> None:
        super().__init__(text)
        self.place, self.text = place, text
