"""From the objects of a cluster to the rows of the mirror, in this direction only. See docs/sync.md."""
