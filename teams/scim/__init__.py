"""
SCIM 2.0 (RFC 7643, RFC 7644): an identity provider keeps its people and groups here (docs/scim.md).

`resources` says what is served, `people` and `groups` write, `filters` reads filters, `views` is the
protocol.
"""
