"""
The named formats of Kubernetes' CEL, as in `format.dns1123Label().validate(text)`: what each accepts, and the
messages for what it does not.

Sources, as of Kubernetes 1.37: apiserver `pkg/cel/library/format.go`, apimachinery `pkg/api/validation` and
`pkg/util/validation`, kube-openapi `pkg/validation/strfmt`, Go's net/url. Lengths are in bytes, as Go counts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from datetime import date
from ipaddress import AddressValueError, IPv6Address
from typing import Any

from dra.cel.syntax import NotPreviewable
from dra.cel.values import NONE, NamedFormat, Optional, some

LABEL, DNS_1035 = "[a-z0-9]([-a-z0-9]*[a-z0-9])?", "[a-z]([-a-z0-9]*[a-z0-9])?"
SUBDOMAIN = rf"{LABEL}(\.{LABEL})*"
NAME = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
MAX_LABEL, MAX_SUBDOMAIN = 63, 253
LABEL_MESSAGE = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start "
    "and end with an alphanumeric character"
)
SUBDOMAIN_MESSAGE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must "
    "start and end with an alphanumeric character"
)
DNS_1035_MESSAGE = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic "
    "character, and end with an alphanumeric character"
)
NAME_MESSAGE = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character"
)
VALUE_MESSAGE = f"a valid label {NAME_MESSAGE.replace('must', 'must be an empty string or', 1)}"

UUID = re.compile(r"[0-9a-f]{8}-?([0-9a-f]{4}-?){3}[0-9a-f]{12}", re.IGNORECASE | re.ASCII)
BASE64 = re.compile(r"([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})", re.ASCII)
DATE = re.compile(r"(\d{4})-(\d\d)-(\d\d)", re.ASCII)
TIME = re.compile(r"(\d\d):(\d\d):(\d\d)(.\d+)?(z|[+-]\d\d:\d\d)", re.ASCII)

type Messages = Iterator[str]


def _mismatch(message: str, pattern: str, *examples: str) -> str:
    shown = " or ".join(f"'{example}', " for example in examples)
    return f"{message} (e.g. {shown}regex used for validation is '{pattern}')"


def _is(pattern: str, text: str) -> bool:
    return re.fullmatch(pattern, text, re.ASCII) is not None


def _length(text: str, most: int) -> Messages:
    if len(text.encode()) > most:
        yield f"must be no more than {most} characters"


def _dns_label(text: str) -> Messages:
    yield from _length(text, MAX_LABEL)
    if _is(LABEL, text):
        return
    if _is(SUBDOMAIN, text):
        yield "must not contain dots"
    else:
        yield _mismatch(LABEL_MESSAGE, LABEL, "my-name", "123-abc")


def _dns_subdomain(text: str) -> Messages:
    yield from _length(text, MAX_SUBDOMAIN)
    if not _is(SUBDOMAIN, text):
        yield _mismatch(SUBDOMAIN_MESSAGE, SUBDOMAIN, "example.com")


def _dns_1035(text: str) -> Messages:
    yield from _length(text, MAX_LABEL)
    if not _is(DNS_1035, text):
        yield _mismatch(DNS_1035_MESSAGE, DNS_1035, "my-name", "abc-123")


def _as_prefix(check: Callable[[str], Messages]) -> Callable[[str], Messages]:
    """Check what a suffix will follow: upstream puts "a" in place of a final dash and the byte before it."""

    def checked(text: str) -> Messages:
        if text.endswith("-") and len(text) > 1:
            text = text.encode()[:-2].decode(errors="replace") + "a"
        return check(text)

    return checked


def _qualified_name(text: str) -> Messages:
    prefix, slash, name = text.rpartition("/")
    mismatch = _mismatch(NAME_MESSAGE, NAME, "MyName", "my.name", "123-abc")
    if "/" in prefix:
        suffix = " with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        yield f"a valid label key {mismatch}{suffix}"
        return
    if slash and not prefix:
        yield "prefix part must be non-empty"
    elif slash:
        yield from (f"prefix part {message}" for message in _dns_subdomain(prefix))
    if not name:
        yield "name part must be non-empty"
    else:
        yield from (f"name part {message}" for message in _length(name, MAX_LABEL))
    if not _is(NAME, name):
        yield f"name part {mismatch}"


def _label_value(text: str) -> Messages:
    yield from _length(text, MAX_LABEL)
    if text and not _is(NAME, text):
        yield _mismatch(VALUE_MESSAGE, f"({NAME})?", "MyValue", "my_value", "12345")


def _uuid(text: str) -> Messages:
    if not UUID.fullmatch(text):
        yield "does not match the UUID format"


def _byte(text: str) -> Messages:
    if not BASE64.fullmatch(text):
        yield "invalid base64"


def _is_date(text: str) -> bool:
    match = DATE.fullmatch(text)
    if match is None:
        return False
    year, month, day = map(int, match.groups())
    try:
        date(year or 2000, month, day)  # Go has a year 0, a leap year as 2000 is
    except ValueError:
        return False
    return True


def _date(text: str) -> Messages:
    if not _is_date(text):
        yield "invalid date"


def _datetime(text: str) -> Messages:
    day, *rest = text.lower().split("t")
    time = TIME.fullmatch(rest[0]) if rest and _is_date(day) else None
    if time is None or time[1] > "23" or time[2] > "59" or time[3] > "59":
        yield "invalid datetime"


class _UriError(Exception):
    pass


SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)?:", re.ASCII)
ESCAPE = re.compile(r"%([0-9A-Fa-f]{2})?", re.ASCII)
HOST = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~!$&'()*+,;=:[]<>\"")
USER = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._:~!$&'()*+,;=%@")
PORT = re.compile(r"(:[0-9]*)?", re.ASCII)


def _uri(text: str) -> Messages:
    try:
        _parse_uri(text)
    except _UriError as error:
        yield f"parse {json.dumps(text, ensure_ascii=False)}: {error}"


def _parse_uri(text: str) -> None:
    """Raise `_UriError` where Go's `url.ParseRequestURI` fails."""
    if any(char < " " or char == "\x7f" for char in text):
        raise NotPreviewable("format.uri of a text with control characters cannot be evaluated here.")
    if not text:
        raise _UriError("empty url")
    if text == "*":
        return
    scheme, rest = "", text
    if match := SCHEME.match(text):
        if not match[1]:
            raise _UriError("missing protocol scheme")
        scheme, rest = match[1].lower(), text[match.end() :]
    rest = rest.partition("?")[0]
    if not rest.startswith("/"):
        if scheme:
            return
        raise _UriError("invalid URI for request")
    if scheme and rest.startswith("//"):
        authority, slash, rest = rest[2:].partition("/")
        _check_authority(scheme, authority)
        rest = slash + rest
    _check_escapes(rest)


def _check_authority(scheme: str, authority: str) -> None:
    user, at, host = authority.rpartition("@")
    _check_host(scheme, host)
    if at and not set(user) <= USER:
        raise _UriError("net/url: invalid userinfo")
    _check_escapes(user)


def _check_host(scheme: str, host: str) -> None:
    bracket = host.rfind("[")
    if bracket > 0:
        raise _UriError("invalid IP-literal")
    if bracket == 0:
        inside, closing, port = host[1:].rpartition("]")
        if not closing:
            raise _UriError("missing ']' in host")
        _check_port(port)
        try:
            IPv6Address(inside)
        except AddressValueError:  # Go's message on addresses and zones is not reproduced
            raise NotPreviewable("format.uri of this host cannot be evaluated here.") from None
        return
    strict = scheme in ("http", "https")
    colon = host.find(":") if strict else host.rfind(":")
    _check_port(host[colon:] if colon >= 0 else "")
    _check_escapes(host, in_host=True)


def _check_port(port: str) -> None:
    if not PORT.fullmatch(port):
        raise _UriError(f"invalid port {json.dumps(port, ensure_ascii=False)} after host")


def _check_escapes(text: str, *, in_host: bool = False) -> None:
    """Raise for the first malformed escape; in a host also for ASCII that is escaped or not allowed."""
    position = 0
    while position < len(text):
        char = text[position]
        if char == "%":
            escape = text[position : position + 3]
            match = ESCAPE.fullmatch(escape)
            if not match or not match[1] or (in_host and int(match[1][0], 16) < 8 and escape != "%25"):
                raise _UriError(f"invalid URL escape {json.dumps(escape, ensure_ascii=False)}")
            position += 3
            continue
        if in_host and char < "\x80" and char not in HOST:
            raise _UriError(f"invalid character {json.dumps(char)} in host name")
        position += 1


FORMATS: dict[str, Callable[[str], Messages]] = {
    "dns1123Label": _dns_label,
    "dns1123Subdomain": _dns_subdomain,
    "dns1035Label": _dns_1035,
    "qualifiedName": _qualified_name,
    "dns1123LabelPrefix": _as_prefix(_dns_label),
    "dns1123SubdomainPrefix": _as_prefix(_dns_subdomain),
    "dns1035LabelPrefix": _as_prefix(_dns_1035),
    "labelValue": _label_value,
    "uri": _uri,
    "uuid": _uuid,
    "byte": _byte,
    "date": _date,
    "datetime": _datetime,
}


def _validate(of: NamedFormat, text: str) -> Optional:
    messages = list(FORMATS[of.name](text))
    return some(messages) if messages else NONE


def _named(name: str) -> Optional:
    return some(NamedFormat(name)) if name in FORMATS else NONE


FORMAT_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "format-validate": _validate,
    "format-named": _named,
    **{f"format.{name}": (lambda name=name: NamedFormat(name)) for name in FORMATS},
}
