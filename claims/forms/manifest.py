"""A manifest, pasted or from a file."""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from claims.request.importing import LONGEST

MOST_BYTES = 4 * LONGEST  # of UTF-8, in the worst case


class ManifestForm(forms.Form):
    """Cleaned, `manifest` is the text whichever way it came, and `source` what to call it in a sentence."""

    text = forms.CharField(
        required=False,
        strip=False,
        widget=forms.Textarea(attrs={"rows": 14, "spellcheck": "false", "class": "dg-code"}),
        label=gettext_lazy("Manifest"),
        help_text=gettext_lazy(
            "A ResourceClaim or ResourceClaimTemplate; or a Pod, Job or Deployment with what it names."
        ),
    )
    file = forms.FileField(required=False, label=gettext_lazy("Or a file"))

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        upload = cleaned.get("file")
        if not upload:  # False where somebody sends the box that clears a file
            cleaned |= {"manifest": cleaned.get("text", ""), "source": _("The text")}
        elif upload.size > MOST_BYTES:
            raise forms.ValidationError(
                _("%(file)s has %(count)d bytes; %(most)d are read at most.")
                % {"file": upload.name, "count": upload.size, "most": MOST_BYTES}
            )
        else:
            cleaned |= {"manifest": self._decoded(upload), "source": upload.name}
        if not str(cleaned["manifest"]).strip():
            raise forms.ValidationError(_("Paste a manifest or choose a file."))
        return cleaned

    def _decoded(self, upload: Any) -> str:
        try:
            text: str = upload.read().decode()
        except UnicodeDecodeError:
            raise forms.ValidationError(_("%(file)s is not text.") % {"file": upload.name}) from None
        return text
