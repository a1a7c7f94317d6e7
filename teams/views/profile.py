"""The page of a person about themselves."""

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods

from teams.access import asker
from teams.forms import ProfileForm
from teams.models import Membership
from teams.views.preferences import remember


@require_http_methods(["GET", "HEAD", "POST"])
def profile(request: HttpRequest) -> HttpResponse:
    person = asker(request)
    form = ProfileForm(request.POST or None, instance=person)
    if request.method == "POST" and form.is_valid():
        person.save(update_fields=list(form.cleaned_data))
        messages.success(request, "Your profile is saved.")
        return remember(request, redirect("teams:profile"), "theme", person.theme)
    memberships = Membership.objects.filter(user=person).select_related("team").order_by("team__slug")
    page = {"form": form, "memberships": memberships}
    return render(request, "teams/profile.html", page, status=422 if form.errors else 200)
