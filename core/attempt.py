"""What a page does with the refusal of a service: its form says it, the page, or a message on the next."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType

from django import forms
from django.contrib import messages
from django.http import HttpRequest, QueryDict

from core.errors import PortalError
from core.idempotency import on_form


def posted(request: HttpRequest) -> QueryDict | None:
    """Return what a form has sent, None where its page is only opened."""
    return request.POST if request.method == "POST" else None


class Attempt:
    """
    A block that calls a service. A refusal ends the block and stays here; `problem` is its sentence, or "".

    A form shows it at the field that the refusal names (`names` has other names of fields in services), else
    at `field`, else above all fields. `status` is that of the page which is shown again: of the refusal, 422
    for a form with errors, otherwise 200.
    """

    def __init__(
        self,
        form: forms.BaseForm | None = None,
        *,
        field: str | None = None,
        names: Mapping[str, str] | None = None,
    ) -> None:
        self.form, self.field, self.names = form, field, names or {}
        self.refusal: PortalError | None = None

    def __enter__(self) -> Attempt:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if not isinstance(error, PortalError):
            return False
        self.refusal = error
        if self.form is not None:
            self.refusal = error = on_form(error, self.form)
            named = error.extra.get("field", "")
            named = self.names.get(named, named)
            self.form.add_error(named if named in self.form.fields else self.field, error.message)
        return True

    @property
    def problem(self) -> str:
        return self.refusal.message if self.refusal else ""

    @property
    def status(self) -> int:
        if self.refusal is not None:
            return self.refusal.status
        return 422 if self.form is not None and self.form.errors else 200


@contextmanager
def refusal_as_message(
    request: HttpRequest, *, of: type[PortalError] | tuple[type[PortalError], ...] = PortalError
) -> Iterator[None]:
    """End the block at a refusal; the next page shows it as a message."""
    try:
        yield
    except of as refusal:
        messages.error(request, refusal.message)
