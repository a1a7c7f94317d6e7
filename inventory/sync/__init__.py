"""From what a cluster says to the rows of the mirror, and never the other way round. See docs/sync.md."""
