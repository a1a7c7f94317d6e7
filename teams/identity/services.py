"""
Identity providers and group rules, for platform admins: add, change, test, switch, remove, preview.

A rule is saved with what it changes for people, in one transaction; `preview` says it before.
"""

from __future__ import annotations

from typing import Any

from allauth.socialaccount.models import SocialAccount
from django.core.exceptions import ValidationError
from django.utils import timezone
from django.views.decorators.debug import sensitive_variables

from cluster.credentials import reseal, seal_fields, unseal_fields
from core.errors import Conflict, Invalid
from core.inputs import validate_name
from core.models import Installation
from core.transactions import service, unless_taken
from teams.access import require_admin
from teams.identity.discovery import require_address
from teams.identity.models import ExternalGroup, GroupRule, IdentityGrant, IdentityProvider
from teams.identity.rules import MEMBERS, AccessChange, apply, lock_rules, planned
from teams.models import Membership, Role, Session, Team, User, record_change
from teams.sessions import PASSKEY

# Column of a provider → its name in records.
FIELDS = {
    "title": "title",
    "issuer": "issuer",
    "client_id": "client ID",
    "scopes": "scopes",
    "groups_claim": "claim of groups",
    "trusts_email": "addresses count as verified",
    "admits_everybody": "everybody gets an account",
    "external_id_claim": "claim that SCIM calls externalId",
    "acr_values": "demanded strength of the sign-in",
    "suspends_tokens": "a refused sign-in suspends API tokens",
    "signs_out": "signs out there too",
    "position": "position",
}

# Claims that are no identity: whoever chose the value of somebody else would get their account.
CHOSEN_BY_PEOPLE = frozenset(
    (
        *("address", "birthdate", "email", "family_name", "gender", "given_name", "locale", "middle_name"),
        *("name", "nickname", "phone_number", "picture", "preferred_username", "profile", "website"),
        *("unique_name", "upn", "username", "zoneinfo"),
    )
)


@sensitive_variables("secret")
@service
def add_provider(
    *, by: User, slug: str, secret: str = "", enabled: bool = False, **fields: Any
) -> IdentityProvider:
    """
    Add a provider, which is not offered before it is `enabled`. Raises Forbidden, Invalid, Conflict.

    `fields` are columns: `title`, `issuer`, `client_id`, and those that have defaults.
    """
    require_admin(by)
    try:
        validate_name(slug)
    except ValidationError as refusal:
        raise Invalid("A name has lower-case letters, digits and hyphens.", field="slug") from refusal
    if slug in ("password", PASSKEY):  # as `Session.signed_in_with` calls them
        raise Invalid(f"“{slug}” is another way to sign in. Choose another name.", field="slug")
    provider = IdentityProvider(slug=slug, **_sound(fields))
    _keep_secret(provider, secret)
    with unless_taken(_taken(slug)):
        provider.save(force_insert=True)
        record_change(by=by, of=provider, change=f"added: {provider.issuer}")
    if enabled:
        set_enabled(by=by, provider=provider, enabled=True)
    return provider


@service
def change_provider(
    *, by: User, provider: IdentityProvider, enabled: bool | None = None, **fields: Any
) -> IdentityProvider:
    """
    Change columns, and enable or disable it. Another issuer or client forgets the secret, which was given for
    the old one, and who signed in through it: subjects of two issuers may be equal and are not the same
    people.
    """
    require_admin(by)
    sound = _sound(fields)
    if enabled is not None:
        lock_rules(exclusive=True)  # before the row, as `set_enabled` does
    with unless_taken(_taken(provider.slug)):
        saved = _locked(provider)
        changed = {name: value for name, value in sound.items() if getattr(saved, name) != value}
        rows = [(FIELDS[name], shown(getattr(saved, name)), shown(value)) for name, value in changed.items()]
        for name, value in changed.items():
            setattr(saved, name, value)
        if {"issuer", "client_id"} & set(changed):
            saved.sealed, saved.secret_set_at, saved.enabled = b"", None, False
            IdentityGrant.objects.filter(provider=saved).delete()
            _end_sessions(saved)
        if "issuer" in changed:
            unlink_everybody(saved)
        if changed:
            saved.save()
            text = ", ".join(f"{label} {old} → {new}" for label, old, new in rows)
            record_change(by=by, of=saved, change=text, values=rows)
    if enabled is not None:
        set_enabled(by=by, provider=saved, enabled=enabled)
    return saved


def _locked(provider: IdentityProvider) -> IdentityProvider:
    """Lock a provider, so that what is recorded as the old value is what was there."""
    return IdentityProvider.objects.select_for_update(no_key=True).get(pk=provider.pk)


def _end_sessions(provider: IdentityProvider) -> None:
    """End all sessions that began with a sign-in at this provider."""
    Session.objects.filter(signed_in_with=provider.slug).delete()


def unlink_everybody(provider: IdentityProvider) -> int:
    """Forget which people of the provider are which accounts; return how many were linked."""
    return int(SocialAccount.objects.filter(provider=provider.slug).delete()[0])


def _taken(slug: str) -> Conflict:
    return Conflict(
        f"There is a provider {slug} already, or one with the same issuer and client ID.", field="slug"
    )


def shown(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value) or "none"


def _sound(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the columns as they are stored. Raises Invalid."""
    sound = {name: fields[name] for name in fields if FIELDS[name]}
    if "issuer" in sound:
        sound["issuer"] = require_address(
            str(sound["issuer"]).strip().removesuffix("/.well-known/openid-configuration"), field="issuer"
        )
    if "scopes" in sound:
        words = list(dict.fromkeys(str(sound["scopes"]).replace(",", " ").split()))
        sound["scopes"] = " ".join(words if "openid" in words else ["openid", *words])
    if "acr_values" in sound:
        sound["acr_values"] = " ".join(dict.fromkeys(str(sound["acr_values"]).split()))
    if "external_id_claim" in sound:
        claim = sound["external_id_claim"] = str(sound["external_id_claim"]).strip()
        if claim in CHOSEN_BY_PEOPLE:
            raise Invalid(
                f"People can change {claim} themselves. Name one with an id of the provider: sub.",
                field="external_id_claim",
            )
    for name in ("title", "client_id"):
        if name in sound and not str(sound[name]).strip():
            raise Invalid(f"The {FIELDS[name]} is missing.", field=name)
    for name, value in sound.items():
        limit = getattr(IdentityProvider._meta.get_field(name), "max_length", None)
        if limit and len(str(value)) > limit:
            raise Invalid(f"The {FIELDS[name]} has at most {limit} characters.", field=name)
    return sound


@sensitive_variables("secret")
def set_secret(*, by: User, provider: IdentityProvider, secret: str) -> None:
    """Replace the client secret, which is used from the next sign-in on. Raises Forbidden, Invalid."""
    require_admin(by)
    if not secret.strip():
        raise Invalid("The client secret is missing.", field="secret")
    with service:
        saved = _locked(provider)
        _keep_secret(saved, secret)
        saved.save(update_fields=["sealed", "secret_set_at"])
        record_change(by=by, of=saved, change="client secret replaced")


@sensitive_variables("secret")
def _keep_secret(provider: IdentityProvider, secret: str) -> None:
    if secret.strip():
        provider.sealed = seal_fields({"secret": secret.strip()})
        provider.secret_set_at = timezone.now()


@sensitive_variables()
def secret_of(provider: IdentityProvider) -> str:
    """Return the client secret, "" if there is none or its key is gone: the sign-in says so then."""
    if not provider.sealed:
        return ""
    try:
        return str(unseal_fields(provider.sealed)["secret"])
    except (Invalid, KeyError):
        return ""


def reseal_secrets() -> int:
    """Encrypt all client secrets and refresh tokens with the newest key; return their number."""
    resealed = 0
    for pk, sealed in IdentityProvider.objects.exclude(sealed=b"").values_list("pk", "sealed"):
        unchanged = IdentityProvider.objects.filter(pk=pk, sealed=sealed)  # not replaced meanwhile
        resealed += unchanged.update(sealed=reseal(sealed))
    for grant, sealed in IdentityGrant.objects.exclude(sealed=b"").values_list("pk", "sealed"):
        same = IdentityGrant.objects.filter(pk=grant, sealed=sealed)
        resealed += same.update(sealed=reseal(sealed))
    return resealed


@service
def set_enabled(*, by: User, provider: IdentityProvider, enabled: bool) -> None:
    """
    Offer a provider for sign-in, or end that with the sessions that began through it.

    Roles that its groups gave stay. Raises Forbidden, and Conflict without a secret or if nobody could sign
    in then.
    """
    require_admin(by)
    lock_rules(exclusive=True)  # passwords are not taken from everybody meanwhile
    saved = _locked(provider)
    if saved.enabled == enabled:
        return
    if enabled and not saved.sealed:
        raise Conflict(f"{saved.title} has no client secret. Give it one first.")
    if not enabled:
        _require_another_way(saved)
        _end_sessions(saved)
    saved.enabled = enabled
    saved.failures, saved.retry_at, saved.problem = 0, None, ""
    saved.save(update_fields=["enabled", "failures", "retry_at", "problem"])
    record_change(
        by=by,
        of=saved,
        change="enabled" if enabled else "disabled",
        values=[("Enabled", shown(not enabled), shown(enabled))],
    )


def _require_another_way(provider: IdentityProvider) -> None:
    others = IdentityProvider.objects.filter(enabled=True).exclude(pk=provider.pk)
    if not Installation.load().password_sign_in and not others.exists():
        raise Conflict(
            f"{provider.title} is the only way to sign in. Allow passwords, or enable another provider first."
        )


def provider_use(provider: IdentityProvider) -> dict[str, int]:
    """Count what depends on a provider; `memberships` are those that only its groups gave. Five queries."""
    linked = User.objects.filter(
        pk__in=SocialAccount.objects.filter(provider=provider.slug).values("user"), is_active=True
    )
    members = MEMBERS.objects.filter(externalgroup__provider=provider).values("user")
    given = Membership.objects.filter(user__in=members).exclude(group_role="").filter(hand_role="")
    return {
        "people": linked.count(),
        "without_password": sum(not person.has_usable_password() for person in linked.only("password")),
        "groups": ExternalGroup.objects.filter(provider=provider).count(),
        "rules": GroupRule.objects.filter(provider=provider).count(),
        "memberships": given.filter(team__group_rules__provider=provider).distinct().count(),
    }


@service
def remove_provider(*, by: User, provider: IdentityProvider) -> list[AccessChange]:
    """
    Forget a provider with its groups, rules and links, and take away what its groups gave.

    Accounts and claims stay. Returns what changed for people. Raises Forbidden, and Conflict if nobody could
    sign in then.
    """
    require_admin(by)
    lock_rules(exclusive=True)
    if not IdentityProvider.objects.filter(pk=provider.pk).exists():
        return []
    saved = _locked(provider)
    if saved.enabled:
        _require_another_way(saved)
    people = set(MEMBERS.objects.filter(externalgroup__provider=saved).values_list("user", flat=True))
    _end_sessions(saved)
    unlink_everybody(saved)
    record_change(by=by, of=saved, change=f"removed: {saved.issuer}")
    saved.delete()
    return apply(people, by=by)


def sound_rule(
    *, provider: IdentityProvider, pattern: str, team: Team | None, role: str, rule: GroupRule | None = None
) -> GroupRule:
    """Return a rule as it would be saved. Raises Invalid with a sentence for the field."""
    pattern = pattern.strip()
    if not pattern or len(pattern) > 200:
        raise Invalid("The name of the group has 1 to 200 characters.", field="group")
    if team is None and role:
        raise Invalid(f"The role {role} belongs to a team: name it.", field="team")
    if team is not None and role not in Role.values:
        raise Invalid(f"The role is one of {', '.join(Role.values)}.", field="role")
    if team is not None and team.archived_at:
        raise Invalid(f"{team} is archived. Restore it first.", field="team")
    if team is None and not pattern.strip("*"):
        raise Invalid("Every group would make its members platform admins. Name the group.", field="group")
    saved = rule or GroupRule()
    saved.provider, saved.pattern, saved.team, saved.role = provider, pattern, team, role
    return saved


def preview(rule: GroupRule, *, removes: bool = False) -> list[AccessChange]:
    """Return what saving a rule, or removing it, changes for whom; nothing is written."""
    others = [one for one in GroupRule.objects.select_related("team") if one.pk != rule.pk]
    return planned(None, others if removes else [*others, rule])


def held_back() -> list[AccessChange]:
    """Return what the rules say and is not done: the last owner of a team, the last platform admin."""
    return [change for change in planned(None, list(GroupRule.objects.all())) if change.refused]


@service
def save_rule(
    *,
    by: User,
    provider: IdentityProvider,
    pattern: str,
    team: Team | None = None,
    role: str = "",
    rule: GroupRule | None = None,
) -> tuple[GroupRule, list[AccessChange]]:
    """
    Add a rule or change `rule`, and give and take what follows; return both. Without a team it makes platform
    admins. Raises Forbidden, Invalid, and Conflict for a second rule about the same group and team.
    """
    require_admin(by)
    lock_rules(exclusive=True)
    before = str(GroupRule.objects.select_related("team", "provider").get(pk=rule.pk)) if rule else ""
    saved = sound_rule(provider=provider, pattern=pattern, team=team, role=role, rule=rule)
    same = GroupRule.objects.filter(provider=provider, pattern=saved.pattern, team=team)
    if same.exclude(pk=saved.pk).exists():
        what = team or "platform admins"
        raise Conflict(f"There is a rule about {saved.pattern} and {what} already.", field="group")
    if before == str(saved):
        return saved, []
    saved.save()
    if before:
        record_change(by=by, of=saved, change=f"{before} → {saved}", values=[("Rule", before, str(saved))])
    else:
        record_change(by=by, of=saved, change=f"added: {saved}")
    return saved, _apply_to_everybody(by)


@service
def remove_rule(*, by: User, rule: GroupRule) -> list[AccessChange]:
    """Remove a rule and take away what only it gave; return what changed. Repeating it changes nothing."""
    require_admin(by)
    lock_rules(exclusive=True)
    saved = GroupRule.objects.select_related("team", "provider").filter(pk=rule.pk).first()
    if saved is None:
        return []
    record_change(by=by, of=saved, change=f"removed: {saved}")
    saved.delete()
    return _apply_to_everybody(by)


def _apply_to_everybody(by: User) -> list[AccessChange]:
    changes = planned(None, list(GroupRule.objects.all()))
    return apply({change.person for change in changes}, by=by)


@service
def set_password_sign_in(*, by: User, allowed: bool) -> None:
    """
    Allow everybody to sign in with a password, or only platform admins.

    Raises Forbidden, and Conflict if nobody else could sign in, or no platform admin has a password.
    """
    require_admin(by)
    lock_rules(exclusive=True)  # no provider is disabled meanwhile
    row, _created = Installation.objects.defer("logo").get_or_create(pk=1)
    if row.password_sign_in == allowed:
        return
    if not allowed:
        if not IdentityProvider.objects.filter(enabled=True).exists():
            raise Conflict("No identity provider is enabled: nobody else could sign in.")
        admins = User.objects.filter(is_superuser=True, is_active=True)
        if not any(person.has_usable_password() for person in admins):
            raise Conflict("No platform admin has a password, for the day when the provider is away.")
    Installation.objects.filter(pk=1).update(password_sign_in=allowed)
    who = {True: "everybody", False: "platform admins only"}
    record_change(
        by=by,
        of=row,
        change=f"sign-in with a password: {who[not allowed]} → {who[allowed]}",
        values=[("Sign-in with a password", who[not allowed], who[allowed])],
    )
