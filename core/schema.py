"""How the API is described: writes say that they take an Idempotency-Key."""

from typing import Any

from drf_spectacular.openapi import AutoSchema
from drf_spectacular.utils import OpenApiParameter

from core import idempotency

KEY = OpenApiParameter(
    idempotency.HEADER,
    str,
    OpenApiParameter.HEADER,
    description="The same key does it once: what is sent again within a day is answered as before.",
)


class Schema(AutoSchema):
    """`is_keyed` of a view tells that its POST honours the key."""

    def get_override_parameters(self) -> list[Any]:
        keyed = self.method == "POST" and getattr(self.view, "is_keyed", False)
        return [*super().get_override_parameters(), *([KEY] if keyed else [])]
