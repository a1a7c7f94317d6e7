"""The form in which a person chooses the channels of each kind of notice."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from django import forms
from django.forms.boundfield import BoundField
from django.http import QueryDict

from notify.models import Mail, NoticeKind
from notify.preferences import ABOUT, REQUIRED, Preference


@dataclass(frozen=True, slots=True)
class KindRow:
    """A kind of notice with its two fields; `required` says why nothing of it can be switched off."""

    label: str
    about: str
    required: str
    in_portal: BoundField
    mail: BoundField


class PreferencesForm(forms.Form):
    """A check box and a choice per kind. Those of required kinds are disabled: what is sent is ignored."""

    def __init__(self, preferences: Mapping[NoticeKind, Preference], data: QueryDict | None = None) -> None:
        super().__init__(data)
        self.kinds = list(preferences)
        for kind, wanted in preferences.items():
            fixed = kind in REQUIRED
            self.fields[f"portal-{kind}"] = forms.BooleanField(
                required=False,
                disabled=fixed,
                initial=wanted.in_portal,
                widget=forms.CheckboxInput({"aria-label": f"{kind.label}: in the portal"}),
            )
            self.fields[f"mail-{kind}"] = forms.ChoiceField(
                choices=Mail,
                disabled=fixed,
                initial=wanted.mail,
                widget=forms.Select({"aria-label": f"{kind.label}: email", "class": "form-select dg-auto"}),
            )

    def rows(self) -> Iterator[KindRow]:
        for kind in self.kinds:
            yield KindRow(
                kind.label,
                ABOUT[kind],
                REQUIRED.get(kind, ""),
                self[f"portal-{kind}"],
                self[f"mail-{kind}"],
            )

    def preferences(self) -> dict[NoticeKind, Preference]:
        """Return what a valid form chose."""
        chosen = self.cleaned_data
        return {
            kind: Preference(chosen[f"portal-{kind}"], Mail(chosen[f"mail-{kind}"])) for kind in self.kinds
        }
