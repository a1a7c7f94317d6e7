"""What a person pastes to use a claim: manifests, configuration, commands and a notebook cell."""

from claims.snippets.kinds import GROUPS, KINDS, Group
from claims.snippets.made import Snippet, snippets_of
from claims.snippets.places import check_of, landing_of

__all__ = ["GROUPS", "KINDS", "Group", "Snippet", "check_of", "landing_of", "snippets_of"]
