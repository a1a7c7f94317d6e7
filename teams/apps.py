from importlib import import_module

from django.apps import AppConfig


class TeamsConfig(AppConfig):
    name = "teams"

    def ready(self) -> None:
        for name in ("teams.schema", "teams.zones"):  # register themselves; settings must be there first
            import_module(name)
