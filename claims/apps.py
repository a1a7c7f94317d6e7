from importlib import import_module

from django.apps import AppConfig


class ClaimsConfig(AppConfig):
    name = "claims"

    def ready(self) -> None:
        import_module("claims.receivers")  # connects itself; models must be loaded first
        for subject in ("approval", "life", "quota", "request"):
            import_module(f"claims.{subject}.tasks")  # Celery itself looks into `claims.tasks` alone
