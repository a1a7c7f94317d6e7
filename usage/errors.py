"""What goes wrong between the portal and a source of telemetry."""

from typing import Self

from core.errors import PortalError


class TelemetryUnavailable(PortalError):
    """No answer, or not one in the format. The message names no address, which may hold a password."""

    code = "telemetry-unavailable"
    status = 503
    title = "Telemetry cannot be read"

    @classmethod
    def status_of(cls, status: int) -> Self:
        return cls(f"The source of telemetry answered with status {status}.")

    @classmethod
    def unreachable(cls, failure: Exception) -> Self:
        kind = type(failure).__name__
        return cls(f"The source of telemetry cannot be reached ({kind}).")

    @classmethod
    def malformed(cls, failure: Exception) -> Self:
        return cls(f"The source of telemetry did not answer in its format: {str(failure)[:200]}.")

    @classmethod
    def refused(cls, why: str) -> Self:
        return cls(f"Prometheus refused the query: {why[:200]}.")
