"""Logs: JSON objects for machines, or lines for people; every line of a request carries its id."""

import re
from typing import Any

import structlog
from structlog.types import EventDict, Processor

# What opens something to whoever reads it: tokens; what follows these parts of an address, in links of
# invitations and mails; codes of device logins and of sign-ins at a provider, in the query of one.
LINKS = "/join/|/password/reset/key/|/confirm-email/|/report/unsubscribe/"
SECRET = re.compile(rf"(\bdrg_|\bwhsec_|{LINKS}|[?&](?:code|state)=)[^\s/?&#\"']+")


def without_secrets(_logger: Any, _method: str, event: EventDict) -> EventDict:
    """Hide secrets that stand in addresses, or that somebody put into one."""
    return {
        key: SECRET.sub(r"\1…", value) if isinstance(value, str) else value for key, value in event.items()
    }


SHARED: list[Processor] = [
    without_secrets,
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_log_level,
    structlog.stdlib.add_logger_name,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
]
# Frames without their locals: a traceback must not print what a function holds, credentials for one.
FRAMES = structlog.processors.ExceptionRenderer(
    structlog.tracebacks.ExceptionDictTransformer(show_locals=False)
)


def configure(*, json: bool, level: str) -> dict[str, Any]:
    """Set structlog up and return Django's LOGGING: both kinds of loggers come out the same."""
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *SHARED,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )
    plain = structlog.dev.plain_traceback
    for_people = structlog.dev.ConsoleRenderer(colors=False, exception_formatter=plain)
    last: list[Processor] = [FRAMES, structlog.processors.JSONRenderer()] if json else [for_people]
    formatter = {
        "()": structlog.stdlib.ProcessorFormatter,
        "processors": [structlog.stdlib.ProcessorFormatter.remove_processors_meta, *last],
        "foreign_pre_chain": SHARED,
    }
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"lines": formatter},
        "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "lines"}},
        "root": {"handlers": ["stderr"], "level": level},
        "loggers": {
            "django.server": {"handlers": ["stderr"], "level": level, "propagate": False},
            # A 4xx is told by `request_finished` with its code; Django would add a line and a traceback.
            "django.request": {"level": "ERROR"},
            "celery": {"handlers": ["stderr"], "level": level, "propagate": False},
        },
    }
