"""The WSGI application for gunicorn, which serves nobody with a key that everybody knows."""

import os

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")
if settings.HTTPS and settings.SECRET_KEY == settings.DEVELOPMENT_KEY:
    raise ImproperlyConfigured("Set SECRET_KEY: whoever knows it can sign in as anybody.")
application = get_wsgi_application()
