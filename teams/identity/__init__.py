"""
People and groups of identity providers: who signs in through one, and which roles its groups give.

`groups` writes groups and their members, whatever told of them; `rules` plans and applies what they give.
"""
