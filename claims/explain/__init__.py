"""
Why a claim is where it is, who acts next, and the way from the request to its end: one answer for page and
API.

`scheduling`, `events` and `stages` are data. `scheduler`, `pods` and `fit` read what the scheduler says, what
is seen of the pods of a claim, and what the portal's picture of the cluster has. `answer` and `chain` say it.
"""

from claims.explain.explanation import Explanation, explain

__all__ = ["Explanation", "explain"]
