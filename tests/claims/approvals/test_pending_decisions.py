"""Rows of undecided requests: who decides, after each service; compared with the plain computation."""

from datetime import timedelta
from itertools import count
from random import Random

import pytest
from django.utils import timezone

from claims import tasks
from claims.approvals import authority, decide, escalation, pending, services
from claims.lifecycle import services as lifecycle
from claims.lifecycle.expiry import end_overdue
from claims.models import (
    Approval,
    Claim,
    Delegation,
    Extension,
    PendingDecision,
    QuotaRequest,
    RequestStatus,
)
from claims.plans.changes import WantedChange
from claims.quotas import quota_requests
from claims.quotas import services as quotas
from claims.states import ClaimState
from teams import services as teams
from teams.models import Role, User
from tests.factories import make_claim, make_extension, make_profile, make_quota_request, make_team, make_user
from tests.recomputed import failed_check, recompute

pytestmark = pytest.mark.django_db

DAY, HOUR = timedelta(days=1), timedelta(hours=1)
LEAD, ADMIN, BOTH = Approval.LEAD, Approval.ADMIN, Approval.BOTH


def audience(request):
    """Return who decides by the row: leads, admins, both in two steps, requesters; None without a row."""
    row = PendingDecision.objects.filter(pk=request.pk).first()
    if row is None:
        return None
    columns = ("for_leads", "for_admins", "two_approvals", "self_approval")
    return {column for column in columns if getattr(row, column)}


def waiting(*people):
    return [{row.pk for row in pending.waiting_for(person)} for person in people]


@pytest.fixture
def held(vision, fra, train, alice):
    return make_claim(
        vision,
        by=alice,
        cluster=fra,
        profile=train,
        state=ClaimState.PROVISIONED,
        expires_at=timezone.now() + DAY,
    )


def test_requested_claim_has_a_row_for_leads(ask, alice, vision, lena, lars, root, eve):
    claim = ask()
    row = PendingDecision.objects.get()
    assert (row.pk, row.kind, row.claim, row.team, row.requester) == (claim.pk, "claim", claim, vision, alice)
    assert (row.requested_at, row.extension, row.quota_request, row.first_approver) == (
        claim.created_at,
        None,
        None,
        None,
    )
    assert audience(claim) == {"for_leads"}
    assert waiting(lena, lars, alice, root, eve) == [{claim.pk}, {claim.pk}, set(), set(), set()]


def test_automatically_approved_claim_has_no_row(ask, vision, root):
    services.save_rule(by=root, team=vision, approval=Approval.AUTOMATIC)
    assert audience(ask()) is None


def test_decided_claim_has_no_row(ask, lena, alice):
    approved, denied, withdrawn, expired = claims = [ask() for _ in range(4)]
    decide.approve(claim=approved, by=lena, spec_hash=approved.spec_hash)
    decide.deny(claim=denied, by=lena, reason="No.")
    lifecycle.withdraw(claim=withdrawn, by=alice)
    Claim.objects.filter(pk=expired.pk).update(decide_by=timezone.now())
    assert [audience(claim) for claim in claims] == [None, None, None, {"for_leads"}]
    end_overdue(timezone.now())
    assert audience(expired) is None


def test_returned_claim_has_a_row_again(ask, lena):
    claim = ask()
    claim = decide.approve(claim=claim, by=lena, spec_hash=claim.spec_hash)
    claim.advance(ClaimState.REQUESTED, why="The quota is exceeded.")
    assert audience(claim) == {"for_leads"}


def test_first_approval_moves_the_row_to_other_admins(ask, vision, root, lena, alice):
    services.save_rule(by=root, team=vision, approval=BOTH)
    vision.memberships.create(user=root, role=Role.LEAD)
    ada = make_user("ada", admin=True)
    claim = ask()
    assert audience(claim) == {"for_leads", "two_approvals"}
    assert waiting(lena, root, ada) == [{claim.pk}, {claim.pk}, set()]
    decide.approve(claim=claim, by=root, spec_hash=claim.spec_hash)
    assert audience(claim) == {"for_admins", "two_approvals"}
    assert PendingDecision.objects.get().first_approver == root
    assert waiting(lena, root, ada) == [set(), set(), {claim.pk}]


def test_change_by_an_approver_needs_a_first_approval_again(ask, vision, root, lena):
    services.save_rule(by=root, team=vision, approval=BOTH)
    claim = ask(devices=2)
    decide.approve(claim=claim, by=lena, spec_hash=claim.spec_hash)
    decide.approve_with_changes(
        claim=claim, by=root, spec_hash=claim.spec_hash, wanted=WantedChange(devices=1)
    )
    assert audience(claim) == {"for_leads", "two_approvals"}
    claim.refresh_from_db()
    decide.approve_with_changes(
        claim=claim, by=lena, spec_hash=claim.spec_hash, wanted=WantedChange(duration=HOUR)
    )
    assert audience(claim) == {"for_admins", "two_approvals"}
    assert PendingDecision.objects.get().first_approver == lena


def test_escalated_claim_has_a_row_for_admins_too(ask, vision, root, lena):
    services.save_rule(by=root, team=vision, approval=LEAD, escalate_after=HOUR)
    claim = ask()
    assert waiting(root) == [set()]
    assert escalation.escalate_overdue(timezone.now() + 2 * HOUR) == 1
    assert audience(claim) == {"for_leads", "for_admins"}
    assert waiting(root, lena) == [{claim.pk}, {claim.pk}]


def test_extension_has_a_row_until_it_is_decided(held, alice, lena, root):
    def extend():
        until = held.expires_at + 100 * DAY
        return lifecycle.extend(claim=held, by=alice, until=until, key=f"k{Extension.objects.count()}")

    extension = extend()
    row = PendingDecision.objects.get()
    assert (row.kind, row.claim, row.extension, row.requester) == ("extension", held, extension, alice)
    assert (audience(extension), row.requested_at) == ({"for_leads"}, extension.requested_at)
    assert waiting(lena, root, alice) == [{extension.pk}, set(), set()]
    lifecycle.withdraw_extension(extension=extension, by=alice)
    assert audience(extension) is None
    lifecycle.deny_extension(extension=(denied := extend()), by=lena, reason="No.")
    lifecycle.approve_extension(extension=(approved := extend()), by=lena)
    assert [audience(denied), audience(approved)] == [None, None]


def test_quota_request_has_a_row_for_admins_until_it_is_decided(vision, alice, root, lena, quota):
    def request():
        return quotas.request_quota(
            by=alice, team=vision, device_class="gpu.nvidia.com", devices=20,
            key=f"k{QuotaRequest.objects.count()}", reason="Paper.",
        )  # fmt: skip

    quota_request = request()
    row = PendingDecision.objects.get()
    assert (row.kind, row.quota_request, row.claim, row.team) == ("quota", quota_request, None, vision)
    assert audience(quota_request) == {"for_admins"}
    assert waiting(root, lena) == [{quota_request.pk}, set()]
    quotas.withdraw_quota_request(quota_request=quota_request, by=alice)
    quotas.deny_quota_request(quota_request=(denied := request()), by=root, reason="No.")
    QuotaRequest.objects.filter(pk=(expired := request()).pk).update(decide_by=timezone.now())
    quota_requests.end_overdue(timezone.now())
    quotas.approve_quota_request(quota_request=(approved := request()), by=root)
    assert [audience(row) for row in (quota_request, denied, expired, approved)] == [None] * 4


@pytest.mark.parametrize("scope", ["team", "profile", "both"])
def test_approval_rules_change_rows_when_saved_and_removed(ask, held, alice, vision, train, root, scope):
    claim = ask(alternatives=[make_profile("slice-20")])
    extension = make_extension(held, by=alice)
    of_rule = {"team": {"team": vision}, "profile": {"profile": train}}.get(scope) or {
        "team": vision,
        "profile": train,
    }
    rule = services.save_rule(by=root, approval=ADMIN, **of_rule)
    assert [audience(claim), audience(extension)] == [{"for_admins"}, {"for_admins"}]
    services.remove_rule(by=root, rule=rule)
    assert [audience(claim), audience(extension)] == [{"for_leads"}, {"for_leads"}]


def test_self_approval_lets_leads_decide_on_their_own_requests(ask, vision, lena, root):
    claim = ask(by=lena)
    assert waiting(lena) == [set()]
    services.save_rule(by=root, team=vision, approval=LEAD, self_approval=True)
    assert (audience(claim), waiting(lena)) == ({"for_leads", "self_approval"}, [{claim.pk}])


def test_admins_decide_while_no_lead_can(ask, vision, lena, lars, alice, root):
    of_lead, of_member = ask(by=lena), ask()
    both = {"for_leads", "for_admins"}
    teams.remove_member(by=lars, team=vision, member=vision.memberships.get(user=lars))
    assert [audience(of_lead), audience(of_member)] == [both, {"for_leads"}]
    lena.is_active = False
    lena.save()
    assert audience(of_member) == both
    lena.is_active = True
    lena.save(update_fields=["is_active"])
    assert audience(of_member) == {"for_leads"}
    teams.change_role(by=root, team=vision, member=vision.memberships.get(user=lena), role=Role.MEMBER)
    assert audience(of_member) == both
    teams.add_member(by=root, team=vision, username="lars", role=Role.LEAD)
    assert [audience(of_lead), audience(of_member)] == [{"for_leads"}, {"for_leads"}]


def test_delegate_sees_requests_only_during_the_delegation(ask, vision, lena, alice, bob):
    mira = make_user("mira")
    teams.Membership.objects.create(team=vision, user=mira, role=Role.MEMBER)
    claim, own, of_lead = ask(), ask(by=mira), ask(by=lena)
    delegation = services.delegate(
        by=lena, team=vision, to=mira, starts_at=timezone.now(), ends_at=timezone.now() + DAY
    )
    assert waiting(mira) == [{claim.pk}]
    assert waiting(lena) == [{claim.pk, own.pk}]
    assert audience(of_lead) == {"for_leads"}
    services.end_delegation(by=lena, delegation=delegation)
    assert waiting(mira) == [set()]


def test_rows_are_ordered_by_request_time_then_id(vision, alice, root):
    at = timezone.now()
    rows = [
        make_quota_request(vision, number, by=alice, counts="claims", requested_at=at - number * HOUR)
        for number in (1, 3, 2)
    ]
    tied = make_quota_request(vision, 9, by=alice, counts="claims", requested_at=at - 3 * HOUR)
    expected = sorted([*rows, tied], key=lambda row: (row.requested_at, row.pk))
    assert [row.pk for row in pending.waiting_for(root)] == [row.pk for row in expected]
    assert not pending.waiting_for(alice).exists()


# Compared with the plain computation.


def is_responsible(person, claim, requester_id=None):
    """Whether the claim waits for this person. Platform admins may decide on more than waits for them."""
    if person.reason_not_to_decide(claim, requester_id=requester_id):
        return False
    rule = person.rules.for_claim(claim)
    stage, _first_approval = authority.approval_stage(claim, rule)
    if stage == Approval.ADMIN or claim.team_id in person.teams:
        return True
    return person._replaces_leads(claim, rule, requester_id or claim.requested_by_id)


def plainly_waiting_for(user):
    """Return the ids of what waits for `user`, from the claims themselves."""
    person = authority.ApprovalAuthority(user)
    claims = Claim.objects.filter(state=ClaimState.REQUESTED).prefetch_related("alternatives", "steps")
    ids = {claim.pk for claim in claims if is_responsible(person, claim)}
    for extension in Extension.objects.filter(status=RequestStatus.WAITING).select_related("claim"):
        if is_responsible(person, extension.claim, extension.requested_by_id):
            ids.add(extension.pk)
    if user.is_superuser:
        undecided = QuotaRequest.objects.filter(status=RequestStatus.WAITING).exclude(requested_by=user)
        ids |= set(undecided.values_list("pk", flat=True))
    return ids


class World:
    """Two teams, nine people and three profiles, on which random operations are done."""

    def __init__(self, seed, cluster, quota_team):
        self.random, self.numbers, self.cluster = Random(seed), count(), cluster
        self.root = make_user("root", admin=True)
        self.people = [self.root, make_user("ada", admin=True)]
        self.people += [make_user(f"p{number}") for number in range(7)]
        self.teams = [quota_team, make_team("nlp")]
        self.profiles = [make_profile(f"by-{kind}", approval=kind) for kind in (LEAD, ADMIN, BOTH)]

    def pick(self, rows):
        rows = list(rows)
        return self.random.choice(rows) if rows else None

    def step(self):
        name = self.random.choice([name for name in dir(self) if name.startswith("do_")])
        getattr(self, name)()
        return name

    def do_request(self):
        profiles = self.random.sample(self.profiles, 2)
        make_claim(
            self.pick(self.teams), by=self.pick(self.people), cluster=self.cluster, profile=profiles[0],
            created_at=timezone.now() - self.random.randrange(9) * HOUR,
        )  # fmt: skip

    do_request_again = do_request

    def do_extend(self):
        claim = make_claim(
            self.pick(self.teams), by=self.pick(self.people), cluster=self.cluster,
            profile=self.pick(self.profiles), state=ClaimState.PROVISIONED, expires_at=timezone.now() + DAY,
        )  # fmt: skip
        make_extension(claim, by=self.pick(self.people))

    def do_request_quota(self):
        team, person = self.pick(self.teams), self.pick(self.people)
        make_quota_request(team, 1 + next(self.numbers), by=person, counts="claims")

    def do_approve(self):
        claim = self.pick(Claim.objects.filter(state=ClaimState.REQUESTED))
        able = [person for person in self.people if claim and authority.may_decide(person, claim)]
        able = [person for person in able if person.is_superuser or claim.team.members.contains(person)]
        if person := self.pick(able):
            decide.approve(claim=claim, by=person, spec_hash=claim.spec_hash)

    do_approve_again = do_approve

    def do_deny(self):
        claim = self.pick(Claim.objects.filter(state=ClaimState.REQUESTED))
        person = self.pick(self.people)
        if claim and person.is_superuser and authority.may_decide(person, claim):
            decide.deny(claim=claim, by=person, reason="No.")

    def do_decide_extension(self):
        if extension := self.pick(Extension.objects.filter(status=RequestStatus.WAITING)):
            extension.decide(RequestStatus.DENIED, by=self.root)

    def do_escalate(self):
        escalation.escalate_overdue(timezone.now() + self.random.choice([HOUR, 3 * HOUR]))

    def do_save_rule(self):
        team, profile = self.pick([None, *self.teams]), self.pick([None, *self.profiles])
        if team or profile:
            services.save_rule(
                by=self.root, team=team, profile=profile, approval=self.pick(["", LEAD, ADMIN, BOTH]),
                self_approval=self.pick([True, False]), escalate_after=self.pick([None, 2 * HOUR]),
            )  # fmt: skip

    def do_remove_rule(self):
        if rule := self.pick(services.ApprovalRule.objects.all()):
            services.remove_rule(by=self.root, rule=rule)

    def do_join(self):
        team, person = self.pick(self.teams), self.pick(self.people)
        if not team.memberships.filter(user=person).exists():
            username, role = person.username, self.pick(Role)
            if person.is_active:
                teams.add_member(by=self.root, team=team, username=username, role=role)

    do_join_again = do_join

    def do_change_membership(self):
        if member := self.pick(teams.Membership.objects.all()):
            try:
                if self.random.random() < 0.5:
                    teams.change_role(by=self.root, team=member.team, member=member, role=self.pick(Role))
                else:
                    teams.remove_member(by=self.root, team=member.team, member=member)
            except teams.Conflict:
                pass  # the last owner

    def do_delegate(self):
        team = self.pick(self.teams)
        lead, other = self.random.sample(self.people, 2)
        begins = timezone.now() + self.pick([-2, 2]) * HOUR
        Delegation.objects.create(
            team=team, lead=lead, to=other, starts_at=begins, ends_at=begins + self.pick([1, 5]) * HOUR
        )

    do_delegate_again = do_delegate

    def do_end_delegation(self):
        if delegation := self.pick(Delegation.objects.all()):
            Delegation.objects.filter(pk=delegation.pk).update(ends_at=timezone.now() + 2 * HOUR)

    def do_switch_person(self):
        person = self.pick(self.people[1:])
        person.is_active = not person.is_active
        person.save()

    def do_switch_admin(self):
        person = self.pick(self.people[2:])
        person.is_superuser = not person.is_superuser
        person.save()


@pytest.mark.parametrize("seed", range(3))
def test_rows_match_the_plain_computation_after_random_operations(seed, fra, vision, gateway):
    world = World(seed, fra, vision)
    pairs = 0
    for number in range(45):
        operation = world.step()
        assert pending.find_differences() == pending.RowDifferences(), operation
        for user in User.objects.all() if number % 5 == 4 else ():
            ids = {row.pk for row in pending.waiting_for(user)}
            assert ids == plainly_waiting_for(user), (operation, user)
            pairs += len(ids)
    assert pairs > 30


# Repair.


def test_recompute_repairs_deleted_altered_and_obsolete_rows(ask, held, vision, alice, lena, root):
    kept, deleted, altered, decided = [ask() for _ in range(4)]
    quota_request, extension = make_quota_request(vision, by=alice), make_extension(held, by=alice)
    assert recompute("decisions") == "decisions: 6 undecided requests, 0 rows repaired.\n"
    before = list(PendingDecision.objects.values())
    PendingDecision.objects.filter(pk__in=[deleted.pk, quota_request.pk]).delete()
    PendingDecision.objects.filter(pk=altered.pk).update(for_leads=False, requester=lena)
    PendingDecision.objects.filter(pk=extension.pk).update(for_admins=True)
    Claim.objects.filter(pk=decided.pk).update(state=ClaimState.WITHDRAWN)
    kinds = "2 missing, 2 altered, 1 obsolete"
    assert failed_check("decisions") == f"decisions: 4 undecided requests, 5 rows to repair: {kinds}.\n"
    assert recompute("decisions") == f"decisions: 5 undecided requests, 5 rows repaired: {kinds}.\n"
    assert list(PendingDecision.objects.values()) == [row for row in before if row["id"] != decided.pk]
    assert recompute("decisions", "--check") == "decisions: 5 undecided requests, 0 rows to repair.\n"
    assert audience(kept) == {"for_leads"}


def test_periodic_task_repairs_rows(ask):
    claim = ask()
    PendingDecision.objects.all().delete()
    tasks.repair_pending_decisions()
    assert audience(claim) == {"for_leads"}
