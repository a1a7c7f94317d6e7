"""What goes wrong between the portal and a source of telemetry."""

from typing import Self

from django.utils.translation import gettext as _

from core.errors import PortalError


class TelemetryUnavailable(PortalError):
    """No answer, or not one in the format. The message names no address, which may hold a password."""

    code = "telemetry-unavailable"
    status = 503
    title = "Telemetry cannot be read"

    @classmethod
    def status_of(cls, status: int) -> Self:
        return cls(_("The source of telemetry answered with status %(status)s.") % {"status": status})

    @classmethod
    def unreachable(cls, failure: Exception) -> Self:
        kind = type(failure).__name__
        return cls(_("The source of telemetry cannot be reached (%(kind)s).") % {"kind": kind})

    @classmethod
    def malformed(cls, failure: Exception) -> Self:
        return cls(
            _("The source of telemetry did not answer in its format: %(why)s.") % {"why": str(failure)[:200]}
        )

    @classmethod
    def refused(cls, why: str) -> Self:
        return cls(_("Prometheus refused the query: %(why)s.") % {"why": why[:200]})
