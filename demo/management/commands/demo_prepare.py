"""Create tables, people, catalogue and clusters of the demo. Runs at every start; skips what exists."""

import os
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib.auth.hashers import make_password
from django.core.management import call_command
from django.core.management.base import BaseCommand

from core.origin import Source, came_from
from demo.catalogue import load_catalogue
from demo.people import PASSWORD, load_cluster, load_namespaces, load_people, load_person
from inventory.models import Cluster
from teams.models import User


class Command(BaseCommand):
    help = "Prepare the database of the demo."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("clusters", nargs="+")
        parser.add_argument("--empty", action="store_true", help="only tables and a platform admin")

    def handle(self, *args: Any, **options: Any) -> None:
        came_from(Source.WEB)  # people act on pages
        call_command("migrate", verbosity=0, interactive=False)
        self.collect_static()
        if options["empty"]:
            load_person("admin", make_password(PASSWORD))
            return
        load_people()
        for name in options["clusters"]:
            simulator = os.environ.get("DEMO_SIMULATOR")
            metrics = f"{simulator}/clusters/{name}/metrics" if simulator else ""
            load_cluster(name, Path(os.environ["DEMO_KUBECONFIGS"]), metrics)
        load_catalogue(User.objects.get(username="admin"))
        for cluster in Cluster.objects.filter(name__in=options["clusters"]):
            load_namespaces(cluster)

    def collect_static(self) -> None:
        """Collect and compress the static files unless these very files were collected before."""
        root = Path(settings.BASE_DIR)
        files = [root / "uv.lock", *sorted((root / "static").rglob("*"))]
        stats = [(str(path.relative_to(root)), path.stat()) for path in files if path.is_file()]
        listing = "\n".join(f"{name} {stat.st_size} {stat.st_mtime_ns}" for name, stat in stats)
        stamp = Path(settings.STATIC_ROOT) / "collected.txt"
        if not stamp.exists() or stamp.read_text() != listing:
            call_command("collectstatic", verbosity=0, interactive=False)
            stamp.write_text(listing)
