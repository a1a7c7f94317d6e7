"""How each cluster is heard: the age of its mirror, and of its telemetry."""

from dataclasses import dataclass

from inventory.freshness import OF_DEVICES, Age, ages
from usage.models import Collection


@dataclass(frozen=True, slots=True)
class ClusterRow:
    """`collection` is None where telemetry has never been read."""

    age: Age
    collection: Collection | None

    @property
    def has_source(self) -> bool:
        return bool(self.age.cluster.metrics_url or self.age.cluster.prometheus_url)


def clusters() -> list[ClusterRow]:
    """Return the clusters that are synchronised, by name; three queries."""
    collections = {row.cluster_id: row for row in Collection.objects.all()}
    return [ClusterRow(age, collections.get(age.cluster.pk)) for age in ages(OF_DEVICES)]
