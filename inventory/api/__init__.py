"""The API of `inventory`: what there is, read-only. Credentials of clusters are in no answer."""
