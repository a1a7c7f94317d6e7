"""Settings of the tests: the portal's own, with cheap passwords and tasks that run where they are queued."""

import os

from tests import postgres

os.environ.setdefault("INSECURE_HTTP", "true")
# Playwright keeps an event loop in the thread of the tests, where Django would see an asynchronous caller.
os.environ.setdefault("DJANGO_ALLOW_ASYNC_UNSAFE", "true")
postgres.ensure()

from portal.settings import *  # noqa: E402, F403
from portal.settings import BASE_DIR, DATABASES  # noqa: E402

# The crawl is faster than people, and schemathesis than programs.
PAGE_RATE = IMPORT_RATE = API_RATE = API_TOKEN_RATE = API_ANONYMOUS_RATE = "1000000/min"
SECRET_KEY = "of-the-tests-0123456789-abcdefghijklmnopqrstuvwxyz-0123456789"
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
CELERY_TASK_ALWAYS_EAGER = True
CELERY_TASK_EAGER_PROPAGATES = True
CACHES = {"default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}}
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
}
CREDENTIAL_KEYS = ["dGVzdC1rZXktdGVzdC1rZXktdGVzdC1rZXktdGVzdC0="]
# Threads of the race tests open and close their own connections: no pool between them and the server.
DATABASES["default"]["OPTIONS"].pop("pool", None)
STATIC_ROOT = BASE_DIR / "static"  # exists in every checkout, as whitenoise wants
LOGGING_CONFIG = None  # pytest shows what was logged with the test that failed
