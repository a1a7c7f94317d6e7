"""The first page after sign-in: what needs the reader, what they hold, what is free, what it costs."""

from portal.home.views import home, live

__all__ = ["home", "live"]
