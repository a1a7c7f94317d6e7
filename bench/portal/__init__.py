"""The portal measured whole: a fleet, two years of claims and a PostgreSQL of their own."""
