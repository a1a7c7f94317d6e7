"""The API of `claims`: the same services and the same sentences as the pages, in JSON."""
