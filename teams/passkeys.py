"""Second factors and passkeys, of which allauth does the work: what they are called, and what is refused."""

from typing import Any

from allauth.core import context
from allauth.mfa.adapter import DefaultMFAAdapter, get_adapter
from allauth.mfa.models import Authenticator
from allauth.mfa.webauthn.forms import (
    AddWebAuthnForm,
    AuthenticateWebAuthnForm,
    LoginWebAuthnForm,
    ReauthenticateWebAuthnForm,
)
from fido2.webauthn import AuthenticationResponse, RegistrationResponse

from cluster.credentials import reseal, seal_fields, unseal_fields
from teams.browsers import browser_in_words
from teams.models import User
from teams.sessions import installation_for

FIELD = "text"
SEALED = ("secret", "seed")  # in `Authenticator.data`: of an authenticator app, of recovery codes


def reseal_second_factors() -> int:
    """Encrypt the secrets of all second factors with the newest key; return their number."""
    resealed = 0
    for authenticator in Authenticator.objects.exclude(type=Authenticator.Type.WEBAUTHN):
        data = {
            name: reseal(value.encode()).decode() if name in SEALED else value
            for name, value in authenticator.data.items()
        }
        unchanged = Authenticator.objects.filter(pk=authenticator.pk, data=authenticator.data)
        resealed += unchanged.update(data=data)
    return resealed


class SecondFactorAdapter(DefaultMFAAdapter):
    def encrypt(self, text: str) -> str:
        """Return the secret of an authenticator app, or the seed of recovery codes, as it is stored."""
        return seal_fields({FIELD: text}).decode()

    def decrypt(self, encrypted_text: str) -> str:
        """Return what `encrypt` was given. Raises Invalid if no key of CREDENTIAL_KEYS fits."""
        return str(unseal_fields(encrypted_text.encode())[FIELD])

    def _get_site_name(self) -> str:
        """Return what an authenticator shows beside the name of the account."""
        return installation_for(context.request).name

    def generate_authenticator_name(self, user: User, type: Authenticator.Type) -> str:
        """Return what a new passkey is called at first: where it was added."""
        return browser_in_words(context.request.META.get("HTTP_USER_AGENT", ""))


class SoundCredential:
    """
    Refuses what a browser would not send. `fido2` raises other errors for it than allauth expects, and the
    answer would be 500.
    """

    parsed_as: Any = AuthenticationResponse

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.fields["credential"].validators.append(self.require_sound)  # type: ignore[attr-defined]

    def require_sound(self, credential: Any) -> None:
        try:
            self.parsed_as.from_dict(credential)
        except (AttributeError, KeyError, TypeError, ValueError):
            raise get_adapter().validation_error("incorrect_code") from None


class LoginForm(SoundCredential, LoginWebAuthnForm):
    pass


class SecondFactorForm(SoundCredential, AuthenticateWebAuthnForm):
    pass


class ReauthenticationForm(SoundCredential, ReauthenticateWebAuthnForm):
    pass


class PasskeyForm(SoundCredential, AddWebAuthnForm):
    parsed_as = RegistrationResponse

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        name, alone = self.fields["name"], self.fields["passwordless"]
        name.label, name.max_length = "Name", 80
        name.help_text = "To recognize it in the list. For example: YubiKey in the drawer"
        alone.label, alone.initial = "Sign in with it instead of a password", True
        alone.help_text = (
            "It then asks for a PIN, a finger or a face. Without this it is a second factor only."
        )
