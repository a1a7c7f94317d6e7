"""The audit log for platform admins: page, CSV, API."""
