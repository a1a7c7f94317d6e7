"""What the API says and takes about people, teams and tokens. Input and output are two classes."""

from rest_framework import serializers

from core.inputs import Input
from teams.models import ApiToken, Membership, Notice, Team, User


class MembershipOut(serializers.ModelSerializer[Membership]):
    team = serializers.SlugRelatedField[Team](slug_field="slug", read_only=True)
    title = serializers.CharField(source="team.title", read_only=True)

    class Meta:
        model = Membership
        fields = ("team", "title", "role")


class MeOut(serializers.ModelSerializer[User]):
    name = serializers.CharField(source="label", read_only=True)
    platform_admin = serializers.BooleanField(source="is_superuser", read_only=True)
    teams = MembershipOut(source="memberships", many=True, read_only=True)

    class Meta:
        model = User
        fields = ("id", "username", "name", "email", "platform_admin", "timezone", "teams")


class TeamOut(serializers.ModelSerializer[Team]):
    role = serializers.SerializerMethodField(
        help_text="Of the asker; null for a platform admin who is no member."
    )
    members = serializers.IntegerField(source="headcount", read_only=True)

    class Meta:
        model = Team
        fields = ("id", "slug", "title", "role", "members")

    def get_role(self, team: Team) -> str | None:
        return getattr(team, "role", None)


class MemberOut(serializers.ModelSerializer[Membership]):
    username = serializers.CharField(source="user.username", read_only=True)
    name = serializers.CharField(source="user.label", read_only=True)

    class Meta:
        model = Membership
        fields = ("username", "name", "role")


class TeamDetailOut(TeamOut):
    """A team with its people."""

    people = MemberOut(source="memberships", many=True, read_only=True)

    class Meta:
        model = Team
        fields = (*TeamOut.Meta.fields, "people")


class TokenOut(serializers.ModelSerializer[ApiToken]):
    class Meta:
        model = ApiToken
        fields = ("id", "title", "start", "created_at", "expires_at", "last_used_at")


class TokenMadeOut(serializers.ModelSerializer[ApiToken]):
    token = serializers.CharField(read_only=True, help_text="The token itself. It is answered this once.")

    class Meta:
        model = ApiToken
        fields = (*TokenOut.Meta.fields, "token")


class TokenIn(Input):
    title = serializers.CharField(max_length=80)
    expires_at = serializers.DateTimeField(
        allow_null=True, default=None, help_text="Null: until it is revoked."
    )


class NoticeOut(serializers.ModelSerializer[Notice]):
    class Meta:
        model = Notice
        fields = ("id", "title", "body", "url", "important", "created_at", "read_at")


class NoticesReadIn(Input):
    ids = serializers.ListField(
        child=serializers.UUIDField(), allow_null=True, default=None, help_text="Null: all of them."
    )


class NoticesReadOut(serializers.Serializer[Notice]):
    read = serializers.IntegerField(help_text="How many of them were unread")
