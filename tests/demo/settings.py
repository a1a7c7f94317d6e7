"""Settings of the demo in browser tests: the portal's own; each answer names the templates of its page."""

from portal.settings import *  # noqa: F403
from portal.settings import MIDDLEWARE

MIDDLEWARE = ["tests.demo.templates.name_templates", *MIDDLEWARE]
PAGE_RATE = IMPORT_RATE = "1000000/min"  # browsers of tests are faster than people
