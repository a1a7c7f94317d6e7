"""The JSON that the API reads: of limited size and depth, whoever sends it."""

from collections.abc import Mapping
from io import BytesIO
from typing import IO, Any

from django.conf import settings
from rest_framework.exceptions import APIException, ParseError
from rest_framework.parsers import JSONParser

MOST_LEVELS = 64  # a claim specification has about ten


class TooLarge(APIException):
    status_code = 413
    default_detail = "The request is too large."


class BoundedJSON(JSONParser):
    """As DRF's, which reads whatever is sent: Django's limit is only of bodies that Django reads itself."""

    def parse(
        self,
        stream: IO[Any],
        media_type: str | None = None,
        parser_context: Mapping[str, Any] | None = None,
    ) -> Any:
        most = settings.DATA_UPLOAD_MAX_MEMORY_SIZE
        body = stream.read(most + 1)
        if len(body) > most:
            raise TooLarge(f"The request has more than {most} bytes.")
        too_deep = ParseError(f"The JSON has more than {MOST_LEVELS} levels.")
        try:
            found = super().parse(BytesIO(body), media_type, dict(parser_context or {}))
        except RecursionError:
            raise too_deep from None
        if levels(found) > MOST_LEVELS:
            raise too_deep
        return found


def levels(value: Any) -> int:
    """Return how deep lists and objects are nested, counted without recursion; 0 for a plain value."""
    deepest, here = 0, [value]
    while here := [one for one in here if isinstance(one, list | dict)]:
        deepest += 1
        here = [part for one in here for part in (one.values() if isinstance(one, dict) else one)]
    return deepest
