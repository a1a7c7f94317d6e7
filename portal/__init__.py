"""Wiring only: settings, addresses, Celery, the home page and the demo. Imported by nobody."""

from portal.celery import app as celery_app

__all__ = ("celery_app",)
