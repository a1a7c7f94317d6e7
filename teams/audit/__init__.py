"""The audit log: who did what to what, from where; sealed in a hash chain (docs/audit.md)."""
