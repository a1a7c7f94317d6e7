import pytest
from django.test import RequestFactory

from core.errors import Invalid
from core.idempotency import idempotency_key


def with_key(key: str):
    return RequestFactory().post("/", headers={"Idempotency-Key": key})


def test_the_key_that_was_sent_is_the_key():
    assert idempotency_key(with_key("run-17")) == "run-17"
    assert idempotency_key(with_key('"run-17"')) == "run-17"  # a structured string, as the draft writes it


def test_without_a_key_each_request_has_one_of_its_own():
    request = RequestFactory().post("/")
    assert idempotency_key(request) != idempotency_key(request)


@pytest.mark.parametrize("key", ["x" * 81, "a\x00b"])
def test_overlong_key_is_malformed(key):
    with pytest.raises(Invalid):
        idempotency_key(with_key(key))
