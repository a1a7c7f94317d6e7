"""Toasts with a button."""

import pytest
from django.contrib import messages
from django.contrib.messages.storage.base import Message
from django.contrib.messages.storage.cookie import MessageDecoder, MessageEncoder
from django.contrib.messages.storage.fallback import FallbackStorage
from django.template.loader import render_to_string

from core import undo


@pytest.fixture
def request_with_messages(rf):
    request = rf.get("/")
    request.session = {}
    request._messages = FallbackStorage(request)
    return request


def drawn(request) -> str:
    return render_to_string("_messages.html", {"messages": messages.get_messages(request)}, request)


def test_an_offer_is_a_form_that_sends_to_its_address(request_with_messages):
    undo.offer(request_with_messages, "Moved to nlp.", "/claims/1/move/?back=1&x=2")
    page = drawn(request_with_messages)
    assert "Moved to nlp." in page
    assert '<form method="post" action="/claims/1/move/?back=1&amp;x=2">' in page
    assert "csrfmiddlewaretoken" in page
    assert "Undo" in page
    assert "data-toast" not in page  # it stays until it is used or closed


def test_an_offer_can_be_a_link(request_with_messages):
    undo.offer(request_with_messages, "Withdrawn.", "/claims/request/?x=1", "Request again", post=False)
    page = drawn(request_with_messages)
    assert 'href="/claims/request/?x=1">Request again</a>' in page
    assert "<form" not in page


def test_plain_message_has_no_button(request_with_messages):
    messages.success(request_with_messages, "Saved.")
    page = drawn(request_with_messages)
    assert "Saved." in page
    assert "<button" not in page
    assert "data-toast" in page


def test_an_offer_survives_the_way_through_a_cookie(request_with_messages):
    undo.offer(request_with_messages, "Done.", "/x/", "Ünd<o")
    sent = MessageEncoder().encode(list(messages.get_messages(request_with_messages)))
    (read,) = MessageDecoder().decode(f"{sent}")
    assert isinstance(read, Message)
    assert undo.undo_action(read) == undo.UndoAction("/x/", "Ünd<o", post=True)
