"""Browser and system of a `User-Agent`, in words; enough to recognize one's own."""

import re

# The first that a text has; most browsers also name those that they descend from, which come after them.
BROWSERS = {
    "Edge": r"\bEdg(e|A|iOS)?/",
    "Opera": r"\b(OPR|Opera)/",
    "Samsung Internet": r"\bSamsungBrowser/",
    "Firefox": r"\b(Firefox|FxiOS)/",
    "Chrome": r"\b(Headless)?(Chrome|CriOS|Chromium)/",
    "Safari": r"\bSafari/",
    "curl": r"^curl/",
    "Python": r"^python-",
}
SYSTEMS = {
    "iPhone": r"\biPhone\b",
    "iPad": r"\biPad\b",
    "Android": r"\bAndroid\b",
    "Windows": r"\bWindows\b",
    "ChromeOS": r"\bCrOS\b",
    "macOS": r"\bMac(intosh| OS X)\b",
    "Linux": r"\b(Linux|X11)\b",
}


def browser_in_words(user_agent: str) -> str:
    """Return "Firefox on Linux", or as much of it as is known."""
    browser, system = (
        next((name for name, pattern in names.items() if re.search(pattern, user_agent)), "")
        for names in (BROWSERS, SYSTEMS)
    )
    if browser and system:
        return f"{browser} on {system}"
    return browser or (f"Browser on {system}" if system else "Unknown browser")
