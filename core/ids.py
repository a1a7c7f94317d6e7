"""Public ids: UUIDv7 (RFC 9562 §5.7), which sort by time of birth and cannot be guessed or counted."""

import os
import time
import uuid


def uuid7() -> uuid.UUID:
    """Return a UUID of 48 bits of Unix milliseconds and 74 random bits."""
    value = int.from_bytes((time.time_ns() // 1_000_000).to_bytes(6, "big") + os.urandom(10), "big")
    value = (value & ~(0xF000 << 64)) | (0x7000 << 64)
    value = (value & ~(0xC000 << 48)) | (0x8000 << 48)
    return uuid.UUID(int=value)
