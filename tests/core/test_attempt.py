"""What a page does with a refusal: the form, the page or a message says it."""

import pytest
from django import forms
from django.contrib.messages import get_messages
from django.contrib.messages.storage.fallback import FallbackStorage

from core.attempt import Attempt, posted, refusal_as_message
from core.errors import Conflict, Forbidden, Invalid


class Named(forms.Form):
    name = forms.CharField()
    size = forms.IntegerField(required=False)


def test_a_refusal_is_the_problem_and_the_status_of_the_page():
    attempt = Attempt()
    assert (attempt.problem, attempt.status) == ("", 200)
    with attempt:
        raise Conflict("It is taken.")
    assert (attempt.problem, attempt.status) == ("It is taken.", 409)


@pytest.mark.parametrize(
    ("named", "shown_at"),
    [("size", "size"), ("label", "name"), ("unknown", "__all__"), (None, "__all__")],
    ids=["own name", "other name", "no such field", "no field"],
)
def test_a_form_shows_a_refusal_at_the_field_that_it_names(named, shown_at):
    form = Named({"name": "a"})
    with Attempt(form, names={"label": "name"}) as attempt:
        raise Invalid("Not so.", **({"field": named} if named else {}))
    assert (dict(form.errors), attempt.status) == ({shown_at: ["Not so."]}, 422)


def test_the_page_chooses_the_field_of_a_refusal_that_names_none():
    form = Named({"name": "a"})
    with Attempt(form, field="name") as attempt:
        raise Forbidden("Not you.")
    assert (dict(form.errors), attempt.status) == ({"name": ["Not you."]}, 403)


@pytest.mark.parametrize(("data", "status"), [(None, 200), ({}, 422), ({"name": "a"}, 200)])
def test_the_status_of_a_form_without_a_refusal(data, status):
    assert Attempt(Named(data)).status == status


def test_other_errors_leave_the_block():
    with pytest.raises(ZeroDivisionError), Attempt():
        1 / 0  # noqa: B018


def test_a_sent_form_is_bound_also_without_values(rf):
    assert posted(rf.get("/")) is None
    assert Named(posted(rf.post("/"))).is_bound


def test_a_refusal_becomes_a_message_unless_another_kind_is_meant(rf):
    request = rf.post("/")
    request.session = {}
    request._messages = FallbackStorage(request)
    with refusal_as_message(request):
        raise Forbidden("Not you.")
    assert [str(message) for message in get_messages(request)] == ["Not you."]
    with pytest.raises(Forbidden), refusal_as_message(request, of=Conflict):
        raise Forbidden("Not you.")
