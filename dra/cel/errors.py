"""The three ways in which an expression fails; each message is for the person who wrote it."""


class CelError(Exception):
    """An expression could not be used."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class CompileError(CelError):
    """The expression is wrong whatever the device: the API server refuses it."""


class EvaluationError(CelError):
    """
    The expression fails on some device, such as by naming an attribute that the device lacks.

    Upstream gives up on the whole pod then, not on this device alone.
    """


class NotPreviewable(CelError):
    """
    The expression may be right, but it uses a part of CEL that the portal cannot run: never guess its result.
    """
