"""People, teams, roles, API tokens, and the audit log."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Self

from django.conf import settings
from django.contrib.auth.models import AbstractUser
from django.contrib.postgres.fields import ArrayField
from django.contrib.sessions.base_session import AbstractBaseSession
from django.db import models, transaction
from django.db.models import F, Value
from django.db.models.functions import Coalesce, Concat, Now, NullIf, Trim
from django.utils import timezone

from core.limits import limiting_team
from core.models import uuid7
from core.origin import Source, current_origin, current_person
from core.scopes import Scope
from teams.audit.actions import action_of
from teams.browsers import browser_in_words
from teams.identity.models import (  # noqa: F401 - models of this app
    ExternalGroup,
    GroupRule,
    IdentityGrant,
    IdentityProvider,
)
from teams.scim.models import ScimToken, ScimUser  # noqa: F401 - models of this app

if TYPE_CHECKING:
    import uuid
    from collections.abc import Sequence

    from django.contrib.auth.models import AnonymousUser
    from django.contrib.sessions.backends.base import SessionBase


class Role(models.TextChoices):
    """What a member may do; each role includes the permissions of the one before."""

    VIEWER = "viewer", "viewer"
    MEMBER = "member", "member"
    LEAD = "lead", "lead"
    OWNER = "owner", "owner"

    @property
    def rank(self) -> int:
        return list(Role).index(self)


class User(AbstractUser):
    """
    A person, or a service account of a team. `is_superuser` marks a platform admin, who may see and do
    everything; in a request with a token without the scope `admin` nobody is one.
    """

    class Theme(models.TextChoices):
        SYSTEM = "system", "Same as system"
        LIGHT = "light", "Light"
        DARK = "dark", "Dark"

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    theme = models.CharField(max_length=6, choices=Theme, default=Theme.SYSTEM)
    timezone = models.CharField(max_length=64, blank=True, default="")
    seen_timezone = models.CharField(
        max_length=64, blank=True, default="", editable=False
    )  # reported by the browser
    hides_setup = models.BooleanField(default=False, editable=False)  # on Home, of a platform admin
    # From when API tokens of this person are refused: `teams.identity.suspension` writes it.
    tokens_suspended_at = models.DateTimeField(null=True, editable=False)
    # May sign in with a password or passkey whatever an identity provider says of the person.
    break_glass = models.BooleanField(default=False, editable=False)
    # Whether only groups make this person platform admin; False if somebody did by hand.
    admin_from_groups = models.BooleanField(default=False, editable=False)
    # The team of a service account, which programs use with tokens and nobody signs in with.
    service_of = models.ForeignKey(
        "Team", models.CASCADE, null=True, editable=False, related_name="service_accounts"
    )

    # The roles by team, if they were read with the session or the token: once in a request.
    roles_read: dict[Team, Role] | None = None

    def save(self, *args: Any, **kwargs: Any) -> None:
        """
        Save; a new password ends the sessions and revokes the API tokens. Both are in the audit log.

        Whoever changes their own stays signed in: Django gives their session a new key after this.
        """
        is_new = self._state.adding
        has_new_password = getattr(self, "_password", None) is not None and not is_new
        with transaction.atomic():
            super().save(*args, **kwargs)
            if has_new_password:
                self.sessions.all().delete()
                self.api_tokens.all().revoke(by=self, reason="the password was changed")
            if is_new or has_new_password:
                record(
                    by=current_person(),
                    action="person.created" if is_new else "password.changed",
                    kind="user",
                    object_id=str(self.pk),
                    name=self.username,
                    text="created" if is_new else "set a new password",
                )

    @property
    def is_platform_admin(self) -> bool:
        return self.is_superuser

    @property
    def is_service_account(self) -> bool:
        return self.service_of_id is not None

    @property
    def has_suspended_tokens(self) -> bool:
        """Whether API tokens are refused by now; `tokens_suspended_at` may lie ahead."""
        return self.tokens_suspended_at is not None and self.tokens_suspended_at <= timezone.now()

    @property
    def label(self) -> str:
        return self.get_full_name() or self.username

    def has(self, reader: User) -> str:
        """Return "You have" for the reader themselves, "Lena has" for others."""
        return "You have" if self.pk == reader.pk else f"{self.label} has"


def label_of(person: str) -> Coalesce:
    """Return the expression of `User.label` for the relation `person` of a queryset."""
    full_name = Trim(Concat(F(f"{person}__first_name"), Value(" "), F(f"{person}__last_name")))
    return Coalesce(NullIf(full_name, Value("")), F(f"{person}__username"))


class TeamQuerySet(models.QuerySet["Team"]):
    def visible_to(self, user: User | AnonymousUser) -> Self:
        """
        Teams that `user` belongs to; all of them for a platform admin. In a request with a token of one team
        only that team.
        """
        if not user.is_authenticated:
            return self.none()
        if user.is_superuser:
            return self
        team = limiting_team()
        return self.filter(members=user) if team is None else self.filter(pk=team, members=user)

    def active(self) -> Self:
        """Return teams that are not archived."""
        return self.filter(archived_at=None)


class Team(models.Model):
    """People who share namespaces and quota. An archived team has no members, namespaces or quotas."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    slug = models.SlugField(max_length=40, unique=True)
    title = models.CharField(max_length=80)
    series = models.PositiveSmallIntegerField(default=1)  # chart color, 1 to 5
    # Percent of the measured time in which devices are to compute; shown, not enforced.
    efficiency_goal = models.PositiveSmallIntegerField(null=True, editable=False)
    archived_at = models.DateTimeField(null=True, editable=False)
    members = models.ManyToManyField(User, through="Membership", related_name="teams")

    objects = TeamQuerySet.as_manager()

    class Meta:
        ordering = ("slug",)
        constraints = (
            models.CheckConstraint(
                condition=models.Q(efficiency_goal__range=(1, 100)), name="team_efficiency_goal_percent"
            ),
        )

    def __str__(self) -> str:
        return self.slug

    @property
    def goal_share(self) -> float:
        """Return the efficiency goal as a share of 0 to 1; 0 without one."""
        return (self.efficiency_goal or 0) / 100


class MembershipQuerySet(models.QuerySet["Membership"]):
    def by_hand(self) -> Self:
        """Return the people who were given a role by hand, whatever groups give them besides."""
        return self.filter(user__service_of=None).exclude(models.Q(hand_role="") & ~models.Q(group_role=""))


class Membership(models.Model):
    """
    One person in one team, with one role.

    Without `group_role` the role was given by hand. With it the role is the higher of what groups of an
    identity provider give, `group_role`, and what was given by hand, `hand_role`, "" for nothing.
    """

    user = models.ForeignKey(User, models.CASCADE, related_name="memberships")
    team = models.ForeignKey(Team, models.CASCADE, related_name="memberships")
    role = models.CharField(max_length=6, choices=Role, default=Role.MEMBER)
    group_role = models.CharField(max_length=6, choices=Role, blank=True, default="", editable=False)
    hand_role = models.CharField(max_length=6, choices=Role, blank=True, default="", editable=False)

    objects = MembershipQuerySet.as_manager()

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=["user", "team"], name="membership_once"),
            models.CheckConstraint(condition=models.Q(role__in=Role.values), name="membership_role_known"),
            models.CheckConstraint(
                condition=models.Q(group_role="", hand_role="")
                | models.Q(group_role__in=Role.values, role=models.F("group_role"))
                | models.Q(group_role__in=Role.values, role=models.F("hand_role")),
                name="membership_role_has_a_source",
            ),
        )

    def __str__(self) -> str:
        return f"{self.user} in {self.team}: {self.role}"

    @property
    def from_groups(self) -> bool:
        """Whether groups give a role, so that the person stays a member until they leave these groups."""
        return bool(self.group_role)

    @property
    def role_by_hand(self) -> str:
        """Return what was given by hand, "" for nothing."""
        return self.hand_role if self.group_role else self.role


class InvitationQuerySet(models.QuerySet["Invitation"]):
    def open(self) -> Self:
        """Return invitations that nobody has accepted or revoked, expired ones included."""
        return self.filter(accepted_at=None, revoked_at=None)


class Invitation(models.Model):
    """
    An invitation by email into the portal, and with `team` into it with a role; its link works once.

    The link is signed and names `sent_at`: sending it again ends the earlier link.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    email = models.EmailField()
    team = models.ForeignKey(Team, models.CASCADE, null=True, blank=True, related_name="invitations")
    role = models.CharField(max_length=6, choices=Role, default=Role.MEMBER)
    invited_by = models.ForeignKey(User, models.CASCADE, related_name="+")
    sent_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    accepted_at = models.DateTimeField(null=True, editable=False)
    accepted_by = models.ForeignKey(User, models.CASCADE, null=True, editable=False, related_name="+")
    revoked_at = models.DateTimeField(null=True, editable=False)

    objects = InvitationQuerySet.as_manager()

    class Meta:
        ordering = ("-sent_at",)
        constraints = (
            models.UniqueConstraint(
                fields=["email", "team"],
                condition=models.Q(accepted_at=None, revoked_at=None),
                nulls_distinct=False,
                name="invitation_open_once",
            ),
            models.CheckConstraint(condition=models.Q(role__in=Role.values), name="invitation_role_known"),
        )

    def __str__(self) -> str:
        return f"{self.email} into {self.team or 'the portal'}"

    @property
    def is_expired(self) -> bool:
        return self.expires_at <= timezone.now()


class Session(AbstractBaseSession):
    """
    A session of a browser, of a person or of a visitor; `teams.sessions` reads and writes it.

    `id` names it on pages: `session_key` is what its cookie has. `signed_in_with` is "password", "passkey" or
    the slug of an identity provider, "" for anything else; `provider_session` is the `sid` of that provider,
    `sealed_id_token` its ID token, encrypted, for the logout there. `last_seen_at`, with address and browser
    of that time, is up to an hour old.
    """

    id = models.UUIDField(default=uuid7, unique=True, editable=False)
    user = models.ForeignKey(User, models.CASCADE, null=True, related_name="sessions")
    created_at = models.DateTimeField(default=timezone.now)
    last_seen_at = models.DateTimeField(default=timezone.now)
    address = models.GenericIPAddressField(null=True)
    user_agent = models.CharField(max_length=300, blank=True, default="")
    signed_in_with = models.CharField(max_length=60, blank=True, default="")
    provider_session = models.CharField(max_length=255, blank=True, default="")
    sealed_id_token = models.BinaryField(default=b"", editable=False)

    class Meta(AbstractBaseSession.Meta):
        abstract = False
        indexes = (
            models.Index(
                fields=["signed_in_with", "provider_session"],
                condition=~models.Q(provider_session=""),
                name="session_of_provider",
            ),
        )

    def __str__(self) -> str:
        return f"{self.user or 'visitor'} since {self.created_at}"

    @property
    def browser(self) -> str:
        """Return "Firefox on Linux"."""
        return browser_in_words(self.user_agent)

    @property
    def way(self) -> str:
        """Return how the person has signed in, in words: "a passkey"."""
        return {"password": "a password", "passkey": "a passkey"}.get(
            self.signed_in_with, self.signed_in_with
        )

    @classmethod
    def get_session_store_class(cls) -> type[SessionBase]:
        """Return the store that the settings name, which imports this module."""
        store: type[SessionBase] = import_module(settings.SESSION_ENGINE).SessionStore
        return store


class ApiTokenQuerySet(models.QuerySet["ApiToken"]):
    def revoke(self, *, by: User | None, reason: str = "") -> None:
        """Revoke these tokens and those made with them, and record it. Repeating it keeps the first time."""
        tokens = list(self.filter(revoked_at=None).select_related("user__service_of"))
        while tokens:
            ApiToken.objects.filter(pk__in=[token.pk for token in tokens]).update(revoked_at=timezone.now())
            for token in tokens:
                record_token_change(by=by, token=token, change=f"revoked: {reason}" if reason else "revoked")
            made = ApiToken.objects.filter(made_with__in=tokens, revoked_at=None)
            tokens = list(made.select_related("user__service_of"))
            reason = "the token that made it was revoked"


class ApiToken(models.Model):
    """
    A bearer token `drg_…`, stored as its SHA-256. Its text is shown once, at creation and at rotation.

    It may do what its `user` may, within its `scopes`, in all teams of the user or only in `limited_to`.
    After a rotation the text before it, of `previous_digest`, works until `previous_ends_at`; `by_previous`
    says that the request was authenticated with that text, which others may know.
    """

    by_previous = False

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    user = models.ForeignKey(User, models.CASCADE, related_name="api_tokens")
    title = models.CharField(max_length=80)
    scopes = ArrayField(models.CharField(max_length=7, choices=Scope))
    limited_to = models.ForeignKey(Team, models.CASCADE, null=True, editable=False, related_name="+")
    digest = models.CharField(max_length=64, unique=True, editable=False)
    start = models.CharField(max_length=12, editable=False)  # shown in lists to recognize it
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    expires_at = models.DateTimeField()
    last_used_at = models.DateTimeField(null=True, editable=False)
    last_used_from = models.GenericIPAddressField(null=True, editable=False)
    rotated_at = models.DateTimeField(null=True, editable=False)
    previous_digest = models.CharField(max_length=64, null=True, unique=True, editable=False)  # noqa: DJ001
    previous_ends_at = models.DateTimeField(null=True, editable=False)
    revoked_at = models.DateTimeField(null=True, editable=False)
    made_with = models.ForeignKey("self", models.CASCADE, null=True, editable=False, related_name="+")

    objects = ApiTokenQuerySet.as_manager()

    class Meta:
        ordering = ("-created_at",)
        constraints = (
            models.CheckConstraint(
                condition=models.Q(scopes__contains=[Scope.READ.value], scopes__contained_by=Scope.values),
                name="apitoken_scopes_known",
            ),
            models.CheckConstraint(
                condition=models.Q(previous_digest=None, previous_ends_at=None)
                | models.Q(previous_digest__isnull=False, previous_ends_at__isnull=False),
                name="apitoken_previous_ends",
            ),
        )
        indexes = (
            models.Index(fields=["expires_at"], condition=models.Q(revoked_at=None), name="apitoken_expiry"),
        )

    def __str__(self) -> str:
        return f"{self.start}… {self.title}"

    @property
    def is_expired(self) -> bool:
        return self.expires_at <= timezone.now()

    @property
    def previous_works(self) -> bool:
        """Whether the text before the last rotation still works."""
        return self.previous_ends_at is not None and self.previous_ends_at > timezone.now()


class DeviceLogin(models.Model):
    """
    A program that waits for a person to allow it (RFC 8628); it gets a token once, when it asks after that.

    Both codes are stored as SHA-256. `client` and `address` are what the program says and where it asked
    from, `lifetime` and `limited_to` what the person chose; `interval` is the time between questions, in s.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    device_digest = models.CharField(max_length=64, unique=True)
    user_digest = models.CharField(max_length=64, unique=True)
    client = models.CharField(max_length=80)
    scopes = ArrayField(models.CharField(max_length=7, choices=Scope))
    address = models.GenericIPAddressField(null=True)
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    asked_at = models.DateTimeField(null=True)
    interval = models.PositiveSmallIntegerField()
    decided_by = models.ForeignKey(User, models.CASCADE, null=True, related_name="+")
    allowed = models.BooleanField(null=True)
    limited_to = models.ForeignKey(Team, models.CASCADE, null=True, related_name="+")
    lifetime = models.DurationField(null=True)
    used_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ("created_at",)
        indexes = (models.Index(fields=["expires_at"], name="devicelogin_expiry"),)
        constraints = (
            models.CheckConstraint(
                condition=models.Q(decided_by=None, allowed=None)
                | models.Q(decided_by__isnull=False, allowed__isnull=False),
                name="devicelogin_decided_by_somebody",
            ),
        )

    def __str__(self) -> str:
        return self.client


class AuditEntry(models.Model):
    """
    Who did what to what, from where: an entry of the audit log, which is only ever added to.

    `action` is a code of `teams.audit.actions`. `kind` and `object_id` are the model and key of what it was
    done to, which may be gone; `name` was its name then. `text` says it in words, `values` in rows of (what,
    before, after). `team` is None for what belongs to none; `by` None for
    the portal, for an identity provider, which `actor` names, and for whoever could not sign in. People and
    teams are plain keys: a row that is removed changes no entry. `via` and `token` are title and start of an
    API token, `place` is an address by its name, a task or a command. Activity shows the entries that are
    `in_activity`.
    """

    class Actor(models.TextChoices):
        PERSON = "person", "person"
        SERVICE = "service", "service account"
        PORTAL = "portal", "the portal"
        PROVIDER = "provider", "identity provider"
        NOBODY = "nobody", "not signed in"

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    at = models.DateTimeField(default=timezone.now)
    action = models.CharField(max_length=40)
    by = models.ForeignKey(
        User, models.DO_NOTHING, null=True, db_index=False, db_constraint=False, related_name="+"
    )
    actor = models.CharField(max_length=150, blank=True, default="")  # the user name
    actor_kind = models.CharField(max_length=8, choices=Actor, default=Actor.PORTAL)
    team = models.ForeignKey(
        Team, models.DO_NOTHING, null=True, db_index=False, db_constraint=False, related_name="+"
    )
    kind = models.CharField(max_length=40)
    object_id = models.CharField(max_length=40)
    name = models.CharField(max_length=200)
    text = models.TextField()
    values = models.JSONField(default=list)
    reason = models.TextField(blank=True, default="")
    source = models.CharField(max_length=7, choices=Source, default=Source.SYSTEM)
    via = models.CharField(max_length=80, blank=True, default="")
    token = models.CharField(max_length=12, blank=True, default="")
    address = models.GenericIPAddressField(null=True)
    place = models.CharField(max_length=120, blank=True, default="")
    request_id = models.CharField(max_length=64, blank=True, default="")
    in_activity = models.BooleanField(default=True)

    class Meta:
        ordering = ("at", "pk")
        indexes = (
            models.Index(fields=["at", "id"], name="audit_at"),
            models.Index(fields=["action", "at", "id"], name="audit_action"),
            models.Index(fields=["by", "at", "id"], name="audit_by"),
            models.Index(fields=["team", "at", "id"], name="audit_of_team"),
            models.Index(fields=["kind", "object_id", "at"], name="audit_of_object"),
            models.Index(
                fields=["address", "at", "id"],
                condition=models.Q(address__isnull=False),
                name="audit_address",
            ),
            models.Index(fields=["token", "at", "id"], condition=~models.Q(token=""), name="audit_token"),
            models.Index(fields=["at", "id"], condition=models.Q(in_activity=True), name="change_at"),
            models.Index(
                fields=["team", "at", "id"], condition=models.Q(in_activity=True), name="change_of_team"
            ),
        )

    def __str__(self) -> str:
        return f"{self.name}: {self.text}"


class AuditSeal(models.Model):
    """
    The place of an entry in the hash chain: 1, 2, 3 …; only `teams.audit.chain.seal` adds them.

    `hash` is computed from that of the seal before, `number`, `at` and the entry.
    """

    number = models.BigIntegerField(primary_key=True)
    entry = models.OneToOneField(AuditEntry, models.DO_NOTHING, db_constraint=False, related_name="seal")
    hash = models.CharField(max_length=64)
    at = models.DateTimeField()

    class Meta:
        ordering = ("number",)

    def __str__(self) -> str:
        return f"{self.number}:{self.hash}"


class AuditState(models.Model):
    """
    How far the chain was verified and written as JSON lines, in one row.

    `problem` is what the last verification found, "" for nothing.
    """

    id = models.PositiveSmallIntegerField(primary_key=True, default=1, editable=False)
    verified_at = models.DateTimeField(null=True)
    verified_number = models.BigIntegerField(default=0)
    verified_hash = models.CharField(max_length=64, blank=True, default="")
    problem = models.TextField(blank=True, default="")
    written_number = models.BigIntegerField(default=0)

    class Meta:
        constraints = (models.CheckConstraint(condition=models.Q(id=1), name="auditstate_one_row"),)

    def __str__(self) -> str:
        return f"verified up to {self.verified_number}"


def record(
    *,
    by: User | AnonymousUser | None,
    action: str,
    kind: str,
    object_id: str = "",
    name: str = "",
    text: str = "",
    values: Sequence[tuple[str, str, str]] = (),
    reason: str = "",
    team_id: uuid.UUID | None = None,
    in_activity: bool = False,
) -> None:
    """
    Add an entry to the audit log, in the transaction of what it records.

    `action` is a code of `teams.audit.actions`; `by` is None for the portal, an anonymous user for whoever
    is not signed in. Nothing secret may stand in it.
    """
    _entry(
        by=by,
        action=action,
        kind=kind,
        object_id=object_id,
        name=name,
        text=text,
        values=values,
        reason=reason,
        team_id=team_id,
        in_activity=in_activity,
    ).save(force_insert=True)


def _entry(
    *,
    by: User | AnonymousUser | None,
    action: str,
    kind: str,
    object_id: str,
    name: str,
    text: str,
    values: Sequence[tuple[str, str, str]],
    reason: str,
    team_id: uuid.UUID | None,
    in_activity: bool,
) -> AuditEntry:
    origin = current_origin(by=by)
    kinds = AuditEntry.Actor
    actor_kind = kinds.PORTAL
    provider = origin.provider if by is None or not by.is_authenticated else ""
    if provider:
        by, actor_kind = None, kinds.PROVIDER
    elif by is not None and getattr(by, "is_service_account", False):
        actor_kind = kinds.SERVICE
    elif by is not None:
        actor_kind = kinds.PERSON if by.is_authenticated else kinds.NOBODY
    return AuditEntry(
        action=action,
        by_id=by.pk if by else None,
        actor=by.get_username() if by else provider,
        actor_kind=actor_kind,
        team_id=team_id,
        kind=kind,
        object_id=object_id,
        name=name[:200],
        text=text or name,
        values=list(values),
        reason=reason,
        source=origin.source,
        via=origin.via,
        token=origin.token,
        address=origin.address if by or provider else None,
        place=origin.place[:120],
        request_id=origin.request_id[:64],
        in_activity=in_activity,
    )


def record_change(
    *,
    by: User | None,
    of: models.Model,
    change: str,
    values: Sequence[tuple[str, str, str]] = (),
    reason: str = "",
    action: str = "",
    in_activity: bool = True,
) -> None:
    """
    Record who changed an object and what, "limit 8 → 12", with `values` of (what, before, after).

    Without `action`, its code follows from the model and the first word of `change` ("removed", "added: …").
    """
    kind = of._meta.model_name or ""
    record(
        by=by,
        action=action or action_of(kind, change),
        kind=kind,
        object_id=str(of.pk),
        name=str(of),
        text=change,
        values=values,
        reason=reason,
        team_id=of.pk if isinstance(of, Team) else getattr(of, "team_id", None),
        in_activity=in_activity,
    )


def record_members(
    *, by: User | None, team: Team, changes: Sequence[tuple[str, str, tuple[str, str, str]]]
) -> None:
    """Record many changes of the members of a team, each of (action, text, values), in one statement."""
    entries = [
        _entry(
            by=by,
            action=action,
            kind="team",
            object_id=str(team.pk),
            name=str(team),
            text=text,
            values=[values],
            reason="",
            team_id=team.pk,
            in_activity=True,
        )
        for action, text, values in changes
    ]
    AuditEntry.objects.bulk_create(entries)


def record_token_change(
    *, by: User | None, token: ApiToken, change: str, values: Sequence[tuple[str, str, str]] = ()
) -> None:
    """Record it with the token; for one of a service account with its team, whose members see it."""
    team = token.user.service_of
    if team is None:
        record_change(by=by, of=token, change=change, values=values)
    else:
        change = f"service account {token.user.first_name}: token {token}: {change}"
        action = "service_account.changed"
        record_change(by=by, of=team, change=change, values=values, action=action)


def recorded_changes(of: models.Model) -> models.QuerySet[AuditEntry]:
    """Return the changes of an object with their authors, newest first."""
    entries = AuditEntry.objects.filter(kind=of._meta.model_name, object_id=str(of.pk), in_activity=True)
    return entries.select_related("by").order_by("-at", "-pk")
