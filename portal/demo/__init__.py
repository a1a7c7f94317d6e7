"""`make demo`: the whole portal on one machine, from a fresh clone, without Docker and without root."""
