"""The people, teams and namespaces of the demo."""

from django.contrib.auth.hashers import make_password

from claims.models import TeamNamespace
from inventory.models import Cluster
from teams.models import Membership, Role, Team, User

PASSWORD = "demo"  # noqa: S105, of sample people on a loopback address

TEAMS = {"vision": "Vision", "nlp": "Language", "speech": "Speech", "robotics": "Robotics"}
# username → first name, {team: role}
PEOPLE: dict[str, tuple[str, dict[str, Role]]] = {
    "engineer": ("Mira", {"vision": Role.MEMBER}),
    "lead": ("Aylin", {"vision": Role.LEAD}),
    "outsider": ("Theo", {"nlp": Role.MEMBER}),
    "admin": ("Lukas", {}),
    "noor": ("Noor", {"vision": Role.OWNER}),
    "jonas": ("Jonas", {"vision": Role.MEMBER}),
    "emil": ("Emil", {"vision": Role.VIEWER}),
    "ines": ("Ines", {"nlp": Role.LEAD}),
    "lena": ("Lena", {"nlp": Role.MEMBER}),
    "ravi": ("Ravi", {"speech": Role.LEAD}),
    "sofia": ("Sofia", {"speech": Role.MEMBER}),
    "kenji": ("Kenji", {"robotics": Role.OWNER}),
}
DECIDERS = {"vision": "lead", "nlp": "ines", "speech": "ravi"}  # team → who decides on its requests


def load_people() -> None:
    """Create who is missing; leave alone whom somebody has changed since."""
    hashed = make_password(PASSWORD)
    teams = {}
    for series, (slug, title) in enumerate(TEAMS.items(), start=1):
        teams[slug], _ = Team.objects.get_or_create(slug=slug, defaults={"title": title, "series": series})
    for username, (first_name, roles) in PEOPLE.items():
        chief = username == "admin"
        user, _ = User.objects.get_or_create(
            username=username,
            defaults={
                "first_name": first_name,
                "email": f"{username}@example.org",
                "password": hashed,
                "is_staff": chief,
                "is_superuser": chief,
            },
        )
        for slug, role in roles.items():
            Membership.objects.get_or_create(user=user, team=teams[slug], defaults={"role": role})


def load_namespaces(cluster: Cluster) -> None:
    """Every team works in the namespace of its name; that of robotics in lab-2 was never made."""
    for team in Team.objects.filter(slug__in=TEAMS):
        missing = (team.slug, cluster.name) == ("robotics", "lab-2")
        name = "robotics-lab" if missing else team.slug
        TeamNamespace.objects.get_or_create(team=team, cluster=cluster, defaults={"namespace": name})
