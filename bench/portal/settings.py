"""
Settings of the benchmarks: the portal's own, without limit of requests and without built assets.

Tasks are sent to a broker in memory, where nobody runs them.
"""

from portal.settings import *  # noqa: F403
from portal.settings import DATABASES

ROOT_URLCONF = "bench.portal.urls"
CACHES = {"default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}}
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
}
CELERY_BROKER_URL = "memory://localhost/"
API_RATE = API_TOKEN_RATE = PAGE_RATE = IMPORT_RATE = "1000000/min"  # noqa: S105, no secret
DATABASES["default"]["CONN_MAX_AGE"] = None  # one connection, whose server process is measured
DATABASES["default"]["OPTIONS"].pop("pool", None)
SECURE_SSL_REDIRECT = False
