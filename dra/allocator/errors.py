"""The ways in which an allocation cannot even be tried; each message is a sentence."""

from __future__ import annotations


class AllocationError(Exception):
    """
    The claims cannot be tried at all, whatever is free.

    Upstream, the pod is unschedulable with an error then, and not merely waiting.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class NodeFailed(AllocationError):
    """The claims do not fit this node, of which an invalid pool may be the reason; others may still do."""


class SearchGivenUp(AllocationError):
    """There may be a way, but finding it takes longer than a search may: upstream times out likewise."""
