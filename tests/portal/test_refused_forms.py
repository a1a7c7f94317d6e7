"""What is wrong with a form stands beside its field, and the field is marked: it gets the focus."""

import re
from pathlib import Path

from django.conf import settings

TEMPLATES = Path(settings.BASE_DIR, "templates")
BY_HAND = re.compile(r"for error in ([\w.]+)\.errors|_errors\.html\" with bound=([\w.]+)")


def test_each_error_drawn_by_hand_has_a_field_that_is_marked():
    bare, checked = [], 0
    for path in TEMPLATES.rglob("*.html"):
        text = path.read_text()
        near = "".join(other.read_text() for other in path.parent.glob("*.html"))
        names = {first or second for first, second in BY_HAND.findall(text)}
        for name in names - {"bound", "field"}:
            checked += 1
            drawn = (f"{{% field {name}", f"{{{{ {name} }}}}", f"in {name} %}}")
            if f"{name}|invalid" not in near and not any(way in text for way in drawn):
                bare.append(f"{path.relative_to(TEMPLATES)}: {name}")
    assert bare == []
    assert checked > 15
