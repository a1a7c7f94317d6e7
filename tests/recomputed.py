"""`manage.py recompute` as tests call it."""

from io import StringIO

import pytest
from django.core.management import CommandError, call_command


def recompute(*arguments: str) -> str:
    """Run the command and return what it prints."""
    output = StringIO()
    call_command("recompute", *arguments, stdout=output, no_color=True)
    return output.getvalue()


def failed_check(*subjects: str) -> str:
    """Return what `--check` prints before it fails because rows differ."""
    output = StringIO()
    with pytest.raises(CommandError, match="Stored rows differ"):
        call_command("recompute", *subjects, "--check", stdout=output, no_color=True)
    return output.getvalue()
