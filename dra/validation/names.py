"""The kinds of names that the API knows (apimachinery `pkg/util/validation`, resource/v1 `types.go`)."""

import re

LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", re.ASCII)
SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII)
IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,31}", re.ASCII)
LABEL_KEY = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?", re.ASCII)
LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?", re.ASCII)


def is_label(text: str) -> bool:
    """A DNS label, as names of requests are."""
    return LABEL.fullmatch(text) is not None


def is_subdomain(text: str, most: int = 253) -> bool:
    """A DNS subdomain, as names of classes (253) and drivers (63) are."""
    return len(text) <= most and SUBDOMAIN.fullmatch(text) is not None


def is_qualified(text: str) -> bool:
    """A QualifiedName: an identifier without hyphen, with or without a domain before it."""
    domain, slash, name = text.rpartition("/")
    return IDENTIFIER.fullmatch(name) is not None and (not slash or is_subdomain(domain, 63))


def is_fully_qualified(text: str) -> bool:
    """A QualifiedName with its domain, as constraints need."""
    return "/" in text and is_qualified(text)


def is_label_key(text: str) -> bool:
    """A key of a label or taint, with or without a domain before it."""
    domain, slash, name = text.rpartition("/")
    return LABEL_KEY.fullmatch(name) is not None and (not slash or is_subdomain(domain))


def is_label_value(text: str) -> bool:
    return LABEL_VALUE.fullmatch(text) is not None
