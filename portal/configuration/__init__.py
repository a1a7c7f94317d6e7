"""
What platform admins set, as YAML: the installation, clusters, profiles, teams, approval rules and rates.

One document per object, as in the file of the catalogue. A key that a document leaves out stays as it is; a
list or mapping that it has is complete: a member or quota that it does not name is removed. `plan.read_plan`
writes nothing; `plan.apply_plan` calls the services of the pages, one after the other, so everything is
checked and recorded as there, and a second run has nothing to do. Secrets are neither written nor read.
"""
