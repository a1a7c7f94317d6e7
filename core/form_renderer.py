"""Forms: options are written without a template for each, since a choice of teams may have hundreds."""

from collections.abc import Mapping
from typing import Any

from django.forms.renderers import DjangoTemplates
from django.http import HttpRequest
from django.utils.safestring import SafeString, mark_safe

from core.markup import attributes, escape


class FormRenderer(DjangoTemplates):
    def render(self, template_name: str, context: dict[str, Any], request: HttpRequest | None = None) -> str:
        if template_name == "django/forms/widgets/select.html":
            return select_element(context["widget"])
        if template_name == "django/forms/widgets/checkbox_select.html":
            return checkbox_list(context["widget"])
        return super().render(template_name, context, request)


def select_element(widget: Mapping[str, Any]) -> SafeString:
    """Return what Django's template `select.html` draws."""
    parts = [f'<select name="{escape(widget["name"])}"{attributes(widget["attrs"])}>']
    for name, options, _index in widget["optgroups"]:
        if name is not None:
            parts.append(f'<optgroup label="{escape(name)}">')
        for option in options:
            value, label = escape(option["value"]), escape(option["label"])
            parts.append(f'<option value="{value}"{attributes(option["attrs"])}>{label}</option>')
        if name is not None:
            parts.append("</optgroup>")
    parts.append("</select>")
    return mark_safe("\n".join(parts))  # noqa: S308 - every part has been escaped above


def checkbox_list(widget: Mapping[str, Any]) -> SafeString:
    """Return what Django's template `checkbox_select.html` draws."""
    whole = {name: value for name in ("id", "class") if (value := widget["attrs"].get(name))}
    parts = [f"<div{attributes(whole)}>"]
    for group, options, _index in widget["optgroups"]:
        if group:
            parts.append(f"<div><label>{escape(group)}</label>")
        for option in options:
            label_for = attributes({"for": option["attrs"]["id"]} if option["attrs"].get("id") else {})
            box = {"type": option["type"], "name": option["name"], "value": option["value"]} | option["attrs"]
            parts.append(
                f"<div><label{label_for}><input{attributes(box)}> {escape(option['label'])}</label></div>"
            )
        if group:
            parts.append("</div>")
    parts.append("</div>")
    return mark_safe("\n".join(parts))  # noqa: S308 - every part has been escaped above
