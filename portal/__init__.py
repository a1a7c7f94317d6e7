"""Wiring only: settings, addresses, Celery, the home page and help. Nothing below imports it."""

from portal.celery import app as celery_app

__all__ = ("celery_app",)
