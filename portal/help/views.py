"""The pages below /help/, for everybody who is signed in."""

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from core.glossary import GLOSSARY
from portal.help.pages import CONTENTS, all_pages, contents


@require_safe
def help_contents(request: HttpRequest) -> HttpResponse:
    """Show what the help has."""
    return render(request, "help/page.html", {"page": all_pages()[CONTENTS], "chapters": contents()})


@require_safe
def help_page(request: HttpRequest, slug: str) -> HttpResponse:
    """Show a page of docs/user, with the contents beside it."""
    page = all_pages().get(slug)
    if page is None or slug == CONTENTS:
        raise Http404(f"There is no help page “{slug}”.")
    return render(request, "help/page.html", {"page": page, "chapters": contents()})


@require_safe
def terms(request: HttpRequest) -> HttpResponse:
    """Show every term of the glossary."""
    return render(request, "help/terms.html", {"groups": GLOSSARY, "chapters": contents()})
