"""What is sent to the request form."""

import pytest


@pytest.fixture
def request_fields(vision, fra, train, quota, gateway):
    """What alice sends."""
    return {
        "profile": "train-80",
        "devices": "2",
        "delivery": "claim",
        "duration": "24h",
        "team": "vision",
        "cluster": "fra-1",
        "name": "sam2",
        "reason": "Fine-tuning.",
        "key": "k-1",
    }
