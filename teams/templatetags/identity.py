"""What the pages of sign-in show of identity providers."""

from dataclasses import dataclass

from allauth.socialaccount.models import SocialAccount
from django import template
from django.urls import reverse

from core.models import Installation
from teams.identity.models import IdentityProvider
from teams.models import User

register = template.Library()


@dataclass(frozen=True, slots=True)
class ProviderLink:
    """A provider on the sign-in page or in a profile."""

    slug: str
    title: str
    is_linked: bool = False

    @property
    def login_url(self) -> str:
        return reverse("openid_connect_login", args=[self.slug])


@register.simple_tag
def sign_in_providers() -> list[ProviderLink]:
    """Return the providers that are offered; one query."""
    rows = IdentityProvider.objects.filter(enabled=True).values_list("slug", "title")
    return [ProviderLink(slug, title) for slug, title in rows]


@register.simple_tag
def passwords_are_for_everybody() -> bool:
    """Return whether others than platform admins sign in with a password; one query."""
    return Installation.objects.values_list("password_sign_in", flat=True).first() is not False


@register.simple_tag
def providers_of(person: User) -> list[ProviderLink]:
    """Return the providers with whether the person signs in through them; two queries."""
    linked = set(SocialAccount.objects.filter(user=person).values_list("provider", flat=True))
    rows = IdentityProvider.objects.filter(enabled=True).values_list("slug", "title")
    return [ProviderLink(slug, title, slug in linked) for slug, title in rows]
