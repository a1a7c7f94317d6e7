"""The claims of the demo and its invented past. Needs running workers; creates only what is missing."""

import os
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand

from portal.demo import past, story


class Command(BaseCommand):
    help = "Fill the demo with claims in every state."

    def handle(self, *args: Any, **options: Any) -> None:
        story.play(Path(os.environ["DEMO_KUBECONFIGS"]), self.stdout.write)
        past.load_past()
