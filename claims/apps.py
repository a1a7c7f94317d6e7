from importlib import import_module

from django.apps import AppConfig


class ClaimsConfig(AppConfig):
    name = "claims"

    def ready(self) -> None:
        import_module("claims.receivers")  # connects itself; models must be loaded first
        import_module("claims.quota.tasks")  # Celery looks into modules named `tasks` alone
