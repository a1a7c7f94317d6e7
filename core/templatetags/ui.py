"""
Template tags and filters of the look; a builtin in every template, so no {% load %}.

docs/design-system.md shows what each one draws. Every value is escaped here: `format_html` makes the markup.
"""

import re
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import lru_cache
from typing import Any
from uuid import UUID

from django import template
from django.contrib.messages.storage.base import Message
from django.forms import BoundField, CheckboxInput, CheckboxSelectMultiple, RadioSelect, Select
from django.templatetags.static import static
from django.urls import reverse
from django.utils import timezone
from django.utils.html import conditional_escape, escape, format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe

from core import text as texts
from core import times, undo
from core.glossary import TERMS
from core.markup import joined, markup
from core.text import DASH

register = template.Library()

DOT_OF_NAME = re.compile(r"(?<=[a-z])([./])(?=[a-z])")
YAML_LINE = re.compile(r"^(\s*(?:- )*)([\w./-]+)(:)(.*)$")

for function in (
    times.ago,
    times.elapsed,
    times.at,
    times.at_day,
    times.at_short,
    times.local_times,
    texts.gib,
    texts.percent,
    texts.quantity,
):
    register.filter(function)


@register.simple_tag
@lru_cache(maxsize=1024)  # a list draws the same few in every row
def icon(name: str, size: str = "", *, label: str = "") -> SafeString:
    """Draw an icon of the sprite: `size` "s" 14, "" 16, "l" 20, "xl" 28 px; `label` for screen readers."""
    speech = format_html('role="img" aria-label="{}"', label) if label else mark_safe('aria-hidden="true"')
    return format_html(
        '<svg class="icon{}" {}><use href="{}#{}"></use></svg>',
        f" icon-{size}" if size else "",
        speech,
        static("vendor/icons.svg"),
        name,
    )


@register.simple_tag
@lru_cache(maxsize=1024)
def state_badge(family: str, icon_name: str, text: str, *, quiet: bool = False) -> SafeString:
    """Draw a state. `family` says who acts next: wait, you, work, held, bad, over, or unknown."""
    return format_html(
        '<span class="dg-badge {}{}">{}{}</span>', family, " quiet" if quiet else "", icon(icon_name), text
    )


@register.simple_tag
@lru_cache(maxsize=256)
def term(name: str, text: str = "") -> SafeString:
    """
    Draw a term of docs/glossary.md, or `text` in its place: a link to its line on the page of terms, with its
    definition on hover, focus and touch.
    """
    defined = TERMS[name]
    address = f"{reverse('help_terms')}#{defined.slug}"
    return format_html(
        '<a class="dg-term" href="{}" data-term="{}">{}</a>', address, defined.plain, text or name
    )


@register.filter
def marked(text: str, words: Sequence[str]) -> SafeString:
    """Mark each of the words, in any case, in a text."""
    if not words:
        return escape(text)
    pattern = "|".join(map(re.escape, sorted(words, key=len, reverse=True)))
    parts = re.split(f"({pattern})", text, flags=re.IGNORECASE)  # every second part is a word
    return format_html_join(
        "",
        "{}",
        ((format_html("<mark>{}</mark>", part) if odd % 2 else part,) for odd, part in enumerate(parts)),
    )


@register.filter
def breakable(text: str) -> SafeString:
    """Let a name such as gpu.nvidia.com break after its dots, and only there, where a line is too short."""
    return mark_safe(DOT_OF_NAME.sub(r"\1<wbr>", escape(text)))  # noqa: S308 - escaped


@register.filter
def badge(look: tuple[str, str, str]) -> SafeString:
    """Draw a state from its color family, icon and label."""
    return state_badge(*look)


@register.simple_tag
def meter(total: float, *, label: str, size: str = "", **segments: float | None) -> SafeString:
    """
    Draw shares of `total` in the given order; the rest of the track is free.

    Segments are held, borrow, pend, this, over, used, idle, none, taken, c1 to c5; `label` is the text of it.
    If their sum exceeds `total`, the bar is as long as the sum.
    """
    parts = [(name, float(value)) for name, value in segments.items() if value and value > 0]
    length = max(float(total), sum(value for name, value in parts)) or 1.0
    rects, at = [], 0.0
    for name, value in parts:
        width = 100 * value / length
        rects.append((f"{at:.2f}%", f"{width:.2f}%", f"dg-m-{name}"))
        at += width
    gaps = [left for left, *rest in rects[1:]]
    return markup(
        '<svg class="dg-meter{}" role="img" aria-label="{}">{}{}</svg>',
        f" {size}" if size else "",
        label,
        joined(
            "", (markup('<rect x="{}" width="{}" height="100%" class="{}"></rect>', *rect) for rect in rects)
        ),
        joined(
            "",
            (markup('<rect x="{}" width="1.5" height="100%" class="dg-m-gap"></rect>', gap) for gap in gaps),
        ),
    )


@register.simple_tag
def sparkline(values: list[float | None], *, label: str, top: float = 1.0) -> SafeString:
    """Draw a line of 64 × 18 px; None is a gap, never 0."""
    step = 64 / max(len(values) - 1, 1)
    pieces: list[list[str]] = [[]]
    for index, value in enumerate(values):
        if value is None:
            pieces.append([])
        else:
            pieces[-1].append(f"{index * step:.1f},{17 - 16 * min(value / top, 1):.1f}")
    lines = [(" ".join(piece),) for piece in pieces if len(piece) > 1]
    return format_html(
        '<svg class="dg-spark" viewBox="0 0 64 18" role="img" aria-label="{}">{}</svg>',
        label,
        format_html_join("", '<polyline points="{}"></polyline>', lines),
    )


@register.filter
def duration(value: timedelta | None) -> str:
    return times.duration(value) if value is not None else DASH


@register.filter
def utc_day(instant: datetime) -> date:
    """Return the day of UTC, in which billing periods are counted, whatever the reader's zone is."""
    return instant.astimezone(UTC).date()


@register.filter
def money(value: Decimal | float | None, currency: str = texts.DEFAULT_CURRENCY) -> str:
    """Show "€5.80"."""
    return texts.money(Decimal(str(value)), currency) if value is not None else DASH


@register.filter
def euros(value: Decimal | float | None, currency: str = texts.DEFAULT_CURRENCY) -> str:
    """Show "€26,912": a headline, without cents."""
    return texts.money(Decimal(str(value)), currency, digits=0) if value is not None else DASH


@register.filter
def message(text: object) -> SafeString:
    """Show a message; lines after its first, such as a caret below an expression, keep their columns."""
    first, _newline, listing = str(text).partition("\n")
    if not listing:
        return conditional_escape(first)
    return format_html('{}<pre class="dg-code dg-mt" tabindex="0">{}</pre>', first, listing)


@register.simple_tag
def copy_button(text: str, label: str = "") -> SafeString:
    """
    Draw a button that copies `text`; hidden without JavaScript.

    Its label is the text that it copies, unless that has several lines.
    """
    name = "Copy" if "\n" in text.strip() else f"Copy {text}"
    return format_html(
        '<button type="button" class="btn btn-ghost btn-sm btn-icon" data-copy="{}" aria-label="{}" hidden>'
        "{}</button>",
        text,
        label or name,
        icon("copy"),
    )


@register.simple_tag
def short_id(value: UUID | str, *, length: int = 8) -> SafeString:
    """Show the first characters of an id with a button that copies all of it."""
    text = str(value)
    short = text if len(text) <= length else text[:length]
    return format_html('<span class="dg-id" title="{}">{}</span>{}', text, short, copy_button(text))


@register.filter
def yaml(text: str) -> SafeString:
    """Color keys, values and comments of YAML."""
    lines = []
    for line in text.splitlines():
        body, hash_sign, comment = ("", "#", line[1:]) if line[:1] == "#" else line.partition(" #")
        if match := YAML_LINE.match(body):
            lead, key, colon, value = map(escape, match.groups())
            colored = f'{lead}<span class="k">{key}</span>{colon}' + (
                f'<span class="s">{value}</span>' if value else ""
            )
        else:
            colored = escape(body)
        lines.append(colored + (f'<span class="c">{escape(hash_sign + comment)}</span>' if hash_sign else ""))
    return mark_safe("\n".join(lines))  # noqa: S308 - every part has been escaped above


@register.inclusion_tag("_code.html")
def code(text: str, language: str = "", *, label: str = "") -> dict[str, Any]:
    """Draw a block of code with a button that copies it; `language` "yaml" is colored."""
    return {
        "text": text,
        "shown": yaml(text) if language == "yaml" else conditional_escape(text),
        "label": label,
    }


@register.inclusion_tag("_field.html")
def field(bound: BoundField, *, label: str = "", marks_optional: bool = True) -> dict[str, Any]:
    """
    Draw a form field: label above, hint below, the error between them; one of two fields has no mark.

    A form with few required fields has `marks_required = True`: these are marked instead of the others. A
    time names the zone in which it is read.
    """
    widget, is_required = bound.field.widget, bound.field.required
    if getattr(bound.form, "marks_required", False):
        mark = "required" if is_required and not isinstance(widget, Select) else ""
    else:
        mark = "optional" if marks_optional and not is_required else ""
    if getattr(widget, "input_type", "") == "datetime-local":  # the browser shows no zone
        mark = ", ".join(filter(None, (mark, timezone.get_current_timezone_name())))
    return {
        "field": bound,
        "label": label or bound.label,
        "mark": mark,
        "is_check": isinstance(widget, CheckboxInput),
        "is_group": isinstance(widget, RadioSelect | CheckboxSelectMultiple),
    }


@register.filter
def invalid(bound: BoundField) -> SafeString:
    """The attributes of a hand-written input of a field: those of its error, "" without one."""
    if not bound.errors:
        return SafeString("")
    return format_html(' aria-invalid="true" aria-describedby="{}_error"', bound.auto_id)


@register.simple_block_tag
def text(content: SafeString) -> SafeString:
    """Store the text between the tags for another tag: `{% text as title %}{{ team }}{% endtext %}`."""
    return content


@register.inclusion_tag("_empty.html")
def empty(icon_name: str, title: str, sentence: str = "", url: str = "", action: str = "") -> dict[str, Any]:
    """Draw an empty state: one bold line, one sentence with a number, the next step."""
    return {"icon_name": icon_name, "title": title, "sentence": sentence, "url": url, "action": action}


@register.filter
def offer(message: Message) -> undo.UndoAction | None:
    """Return the button of a message, None without one."""
    return undo.undo_action(message)
