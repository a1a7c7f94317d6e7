"""
Who holds a device, for those who may know it: a person sees what their own teams hold, by name.

A label can be written by anybody, so an object is that of a claim only in the claim's own cluster and
namespace, as in `claims.observed.sightings`. What a team made by hand in its namespace is its own as well;
there is no page for it.
"""

from collections.abc import Iterable
from typing import cast
from uuid import UUID

from django.contrib.auth.models import AnonymousUser
from django.urls import reverse

from claims.models import Claim, TeamNamespace
from claims.observed.labels import ids
from inventory.masking import Holder, Person
from inventory.models import ResourceClaim
from teams.models import Team, User


def holders_of(person: Person, held: Iterable[ResourceClaim]) -> dict[int, Holder]:
    """
    Return the holders that `person` may know of by primary key: the portal's claims with their page, others
    by namespace and name. Two queries, however many are asked for.
    """
    held, reader = list(held), cast(User | AnonymousUser, person)
    claims = Claim.objects.visible_to(reader).filter(pk__in=ids({row.owner for row in held}))
    by_place: dict[tuple[str, UUID, str], Claim] = {
        (str(claim.pk), claim.cluster_id, claim.namespace): claim
        for claim in claims.only("name", "cluster", "namespace")
    }
    spaces = TeamNamespace.objects.filter(team__in=Team.objects.visible_to(reader))
    own = set(spaces.values_list("cluster", "namespace"))
    found: dict[int, Holder] = {}
    for row in held:
        claim = by_place.get((row.owner, row.cluster_id, row.namespace))
        if claim is not None:
            found[row.pk] = Holder(claim.name, reverse("claims:detail", args=[claim.pk]))
        elif (row.cluster_id, row.namespace) in own:
            found[row.pk] = Holder(f"{row.namespace}/{row.name}")
    return found
