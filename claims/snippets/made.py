"""The snippets of a claim with the options that were chosen."""

from __future__ import annotations

from dataclasses import dataclass

from claims.manifests import use_of
from claims.models import Claim
from claims.snippets.kinds import KINDS, Group, SnippetKind
from claims.snippets.notes import commented, notes_of
from claims.snippets.scripts import script_of
from dra.manifests import to_yaml
from dra.workloads import Options, Use

ENDINGS = {"yaml": "yaml", "python": "py", "shell": "sh"}


@dataclass(frozen=True, slots=True)
class Snippet:
    """`image` is what its container runs, "" for none; `filename` is the name under which it is saved."""

    key: str
    title: str
    language: str  # "yaml", "shell", "python"
    text: str
    group: Group
    filename: str
    image: str


def snippets_of(
    claim: Claim, *, base_url: str, options: Options | None = None, maker: str = ""
) -> list[Snippet]:
    """
    Return the snippets that the cluster of the claim can take.

    `base_url` is that of the portal, without a slash at its end; `maker` is that of the devices that match.
    """
    use, chosen = use_of(claim, maker=maker), options or Options()
    served = claim.cluster.discovery.get("kinds") or ()
    return [
        _made(kind, claim, use, chosen, base_url=base_url)
        for kind in KINDS
        if kind.offered(use, chosen, served)
    ]


def _made(kind: SnippetKind, claim: Claim, use: Use, options: Options, *, base_url: str) -> Snippet:
    if kind.made is None:
        text = script_of(kind.key, claim, use, options, base_url=base_url)
    else:
        text = to_yaml(*kind.made(use, options))
    if kind.image and kind.language != "shell":
        text = commented(text, notes_of(kind, use, options))
    return Snippet(
        kind.key,
        str(kind.title),
        kind.language,
        text,
        kind.group,
        f"{claim.name}-{kind.key}.{ENDINGS[kind.language]}",
        kind.runs(use, options),
    )
