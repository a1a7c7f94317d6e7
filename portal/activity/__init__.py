"""Who did what, to what, from where: in a team, or in all of them."""
