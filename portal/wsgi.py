"""The WSGI application for gunicorn, which serves nobody with a key that everybody knows."""

import os

from celery import current_app
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")
if settings.SECRET_KEY == settings.DEVELOPMENT_KEY and not settings.DEBUG:
    raise ImproperlyConfigured("Set SECRET_KEY: whoever knows it can sign in as anybody.")
application = get_wsgi_application()
# A thread of the web server does not wait for a broker that hangs: the sweep does what was not queued.
current_app.conf.broker_transport_options |= {"socket_timeout": 2, "socket_connect_timeout": 2}
current_app.conf.task_publish_retry = False
