from importlib import import_module

from django.apps import AppConfig


class TeamsConfig(AppConfig):
    name = "teams"

    def ready(self) -> None:
        import_module("teams.zones")  # connects to user_logged_in
        import_module("teams.sessions")  # too
        import_module("teams.audit.receivers")
