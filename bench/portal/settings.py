"""Settings of the benchmarks: the portal's own, with a cache in the process and no limit of requests."""

from portal.settings import *  # noqa: F403
from portal.settings import DATABASES, REST_FRAMEWORK

CACHES = {"default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}}
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
}
CELERY_TASK_ALWAYS_EAGER = True
REST_FRAMEWORK["DEFAULT_THROTTLE_RATES"] = {"user": "1000000/min"}
DATABASES["default"]["CONN_MAX_AGE"] = None  # one connection, whose server process is measured
DATABASES["default"]["OPTIONS"].pop("pool", None)
SECURE_SSL_REDIRECT = False
