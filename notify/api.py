"""API of a person's notices."""

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework import mixins, serializers, viewsets
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from core.errors import Invalid
from core.idempotency import IdempotentWrites
from core.inputs import Input, Rows, ordered, page_of
from core.scopes import Scope, needs
from notify.models import Mail, Notice, NoticeKind
from notify.preferences import ABOUT, REQUIRED, Preference, kinds_for, preferences_of, store_preferences
from notify.services import mark_read, notices_of
from teams.access import user_of
from teams.models import User


class NoticeOut(serializers.ModelSerializer[Notice]):
    class Meta:
        model = Notice
        fields = ("id", "kind", "title", "body", "url", "important", "created_at", "read_at")


class NoticesReadIn(Input):
    ids = serializers.ListField(
        child=serializers.UUIDField(), allow_null=True, default=None, help_text="Null: all of them."
    )


class NoticesReadOut(serializers.Serializer[Notice]):
    read = serializers.IntegerField(help_text="How many of them were unread")


class NoticePreferenceOut(serializers.Serializer[Preference]):
    kind = serializers.ChoiceField(choices=NoticeKind.choices)
    title = serializers.CharField()
    about = serializers.CharField()
    in_portal = serializers.BooleanField()
    mail = serializers.ChoiceField(choices=Mail.choices)
    required_because = serializers.CharField(help_text='Why it cannot be changed; "" if it can.')


class NoticePreferenceIn(Input):
    kind = serializers.ChoiceField(choices=NoticeKind.choices)
    in_portal = serializers.BooleanField()
    mail = serializers.ChoiceField(choices=Mail.choices)


@needs(Scope.REQUEST)
class NoticeViewSet(IdempotentWrites, mixins.ListModelMixin, viewsets.GenericViewSet[Notice]):
    """Notices of the user, newest first."""

    queryset = Notice.objects.none()
    serializer_class = NoticeOut
    pagination_class = ordered("-created_at", "-id")

    def get_queryset(self) -> QuerySet[Notice]:
        return notices_of(user_of(self.request))

    @extend_schema(request=NoticesReadIn, responses=NoticesReadOut)
    @action(detail=False, methods=["post"])
    def read(self, request: Request) -> Response:
        """Mark notices as read. Ids of other people's notices are ignored."""
        body = NoticesReadIn.of(request)
        return Response({"read": mark_read(by=user_of(request), ids=body.validated_data["ids"])})

    @extend_schema(responses=NoticePreferenceOut(many=True))
    @action(detail=False, pagination_class=Rows)
    def preferences(self, request: Request) -> Response:
        """Which notices you want, by kind: behind the bell and by email."""
        return page_of(self, _preferences(user_of(request)), NoticePreferenceOut)

    @extend_schema(request=NoticePreferenceIn, responses=NoticePreferenceOut)
    @preferences.mapping.post
    def choose(self, request: Request) -> Response:
        """Choose the channels of one kind of notice. 422 for a kind that cannot be changed."""
        body = NoticePreferenceIn.of(request)
        by, kind = user_of(request), NoticeKind(body.validated_data["kind"])
        if kind in REQUIRED:
            raise Invalid(f"{kind.label}: {REQUIRED[kind]}", field="kind")
        if kind not in kinds_for(by):
            raise Invalid(f"{kind.label}: only platform admins get these notices.", field="kind")
        wanted = Preference(body.validated_data["in_portal"], Mail(body.validated_data["mail"]))
        store_preferences(by=by, preferences={kind: wanted})
        return Response(next(row for row in _preferences(by) if row["kind"] == kind))


def _preferences(user: User) -> list[dict[str, object]]:
    return [
        {
            **{"kind": kind, "title": kind.label, "about": ABOUT[kind]},
            **{
                "in_portal": wanted.in_portal,
                "mail": wanted.mail,
                "required_because": REQUIRED.get(kind, ""),
            },
        }
        for kind, wanted in preferences_of(user).items()
    ]
