"""A file of profiles, sent as a file or pasted."""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from claims.catalogue.reading import MOST_BYTES

PASTED = "catalogue.yaml"  # what a text without a file is called in messages


class CatalogueFileForm(forms.Form):
    """Cleaned, `text` is what stands in the file, and `name` what messages call it."""

    file = forms.FileField(
        required=False, label=gettext_lazy("File"), widget=forms.FileInput(attrs={"class": "form-control"})
    )
    text = forms.CharField(
        required=False,
        strip=False,
        widget=forms.Textarea(attrs={"rows": 10, "spellcheck": "false", "class": "dg-code"}),
        label=gettext_lazy("… or its text"),
    )
    name = forms.CharField(required=False, max_length=120, widget=forms.HiddenInput)
    prune = forms.BooleanField(
        required=False, label=gettext_lazy("Retire every profile that is not in the file")
    )

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        sent = cleaned.get("file")
        if sent is None:
            if not cleaned.get("text", "").strip():
                self.add_error("file", _("Choose a file, or paste its text."))
            return cleaned | {"name": cleaned.get("name") or PASTED}
        if sent.size > MOST_BYTES:
            values = {"most": MOST_BYTES >> 10, "size": sent.size >> 10}
            self.add_error("file", _("The file has %(size)d KiB; %(most)d are read at most.") % values)
            return cleaned
        try:
            text = sent.read().decode()
        except UnicodeDecodeError:
            self.add_error("file", _("This is not a text in UTF-8."))
            return cleaned
        return cleaned | {"text": text, "name": sent.name}
