"""Create tables, people, catalogue and clusters of the demo. Runs at every start; skips what exists."""

import os
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.contrib.auth.hashers import make_password
from django.core.management import call_command
from django.core.management.base import BaseCommand

from core.origin import Source, came_from
from demo.catalogue import load_catalogue
from demo.people import PASSWORD, load_cluster, load_namespaces, load_people, load_person
from demo.services import are_collected, note_collected
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
        if not are_collected():
            call_command("collectstatic", verbosity=0, interactive=False)
            note_collected()
        if options["empty"]:
            load_person("admin", make_password(PASSWORD))
            return
        load_people()
        for name in options["clusters"]:
            simulator, prometheus = (os.environ.get(f"DEMO_{of}", "") for of in ("SIMULATOR", "PROMETHEUS"))
            addresses = {
                "metrics_url": f"{simulator}/clusters/{name}/metrics" if simulator else "",
                "prometheus_url": prometheus if prometheus.startswith("http") else "",
            }
            load_cluster(name, Path(os.environ["DEMO_KUBECONFIGS"]), addresses)
        load_catalogue(User.objects.get(username="admin"))
        for cluster in Cluster.objects.filter(name__in=options["clusters"]):
            load_namespaces(cluster)
