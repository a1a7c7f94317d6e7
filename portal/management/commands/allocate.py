"""Cases for the allocator in, answers out, one line of JSON each: `docs/allocator.md`."""

import sys
from typing import Any

from django.core.management.base import BaseCommand

from dra.cases import serve


class Command(BaseCommand):
    help = "Allocate devices as the scheduler would: one JSON case per line in, one JSON result per line out."
    requires_system_checks = ()

    def handle(self, *args: Any, **options: Any) -> None:
        serve(sys.stdin.buffer, sys.stdout)
