"""The shape of what people send; whether it may be done is decided by `claims.services`."""

from claims.forms.decision import ApproveForm, AwayForm, ChangeForm, DenyForm, EndForm
from claims.forms.profile import ProfileForm
from claims.forms.quota import QuotaForm
from claims.forms.request import RequestForm

__all__ = [
    "ApproveForm",
    "AwayForm",
    "ChangeForm",
    "DenyForm",
    "EndForm",
    "ProfileForm",
    "QuotaForm",
    "RequestForm",
]
