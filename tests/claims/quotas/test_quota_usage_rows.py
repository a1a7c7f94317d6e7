"""How a quota stands: figures, sentences, lines of a request, and what is kept for others."""

from urllib.parse import urlencode

import pytest
from django.db import connection

from claims.catalogue.availability import refresh
from claims.models import Alternative, Quota, TeamNamespace
from claims.quotas.counts import used_by_all_teams
from claims.quotas.quota_usage import (
    ClassGuarantees,
    GuaranteeShare,
    QuotaLine,
    QuotaUsage,
    charged_quotas,
    class_guarantees,
    contributions,
    lock_quotas,
    quota_breakdown,
    quota_label,
    quota_lines,
    quota_usage,
    reason_for_guarantees,
    team_usage,
)
from claims.states import ClaimState
from teams.models import Team
from tests.claims.quotas.test_quota_usage import make_unmanaged, plugin_pod
from tests.factories import GPU_CLASS, make_claim, make_profile, make_quota, make_team

MIG = "mig.nvidia.com"


def stands(limit, held, reserved=0, unmanaged=0, raised=0, guaranteed=0, **named):
    quota = Quota(
        team=Team(slug="vision"),
        devices=limit,
        guaranteed=guaranteed,
        **named or {"device_class": GPU_CLASS},
    )
    return QuotaUsage(quota, held, reserved, unmanaged, raised)


@pytest.mark.parametrize(
    ("row", "figures"),
    [
        # limit, used, free, over, within, beyond
        (stands(8, 0), (8, 0, 8, 0, 0, 0)),
        (stands(8, 3, 2, 1), (8, 6, 2, 0, 3, 0)),
        (stands(8, 5, 2, 1), (8, 8, 0, 0, 5, 0)),
        (stands(8, 5, 2, 2), (8, 9, 0, 1, 5, 0)),
        (stands(8, 5, 2, 2, raised=3), (11, 9, 2, 0, 5, 0)),
        (stands(8, 3, 1, guaranteed=4), (8, 4, 4, 0, 3, 0)),
        (stands(8, 4, guaranteed=4), (8, 4, 4, 0, 4, 0)),
        (stands(8, 6, 1, guaranteed=4), (8, 7, 1, 0, 4, 2)),
    ],
)
def test_the_figures_of_a_quota_follow_from_what_is_used(row, figures):
    assert (row.limit, row.used, row.free, row.over, row.within, row.beyond) == figures


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (stands(1, 0), "vision holds 0 of 1 gpu.nvidia.com device"),
        (stands(8, 6), "vision holds 6 of 8 gpu.nvidia.com devices"),
        (stands(8, 6, raised=2), "vision holds 6 of 10 gpu.nvidia.com devices"),
        (
            stands(8, 6, 1),
            "vision holds 6 of 8 gpu.nvidia.com devices and 1 is reserved",
        ),
        (stands(8, 6, 0, 1), "vision holds 6 of 8 gpu.nvidia.com devices, plus 1 unmanaged"),
        (
            stands(8, 2, 3, 2),
            "vision holds 2 of 8 gpu.nvidia.com devices, plus 2 unmanaged, and 3 are reserved",
        ),
        (stands(1, 1, counts="claims"), "vision has 1 of 1 claim in use"),
        (stands(4, 1, 2, counts="claims"), "vision has 1 of 4 claims in use and 2 are reserved"),
    ],
)
def test_the_sentence_of_a_quota_names_every_figure(row, said):
    assert row.sentence == said


@pytest.mark.django_db
def test_the_sentence_of_a_quota_of_a_profile_names_the_profile(vision, train):
    (row,) = quota_usage([make_quota(vision, 1, profile=train)])
    assert (row.label, row.sentence) == ("train-80", "vision holds 0 of 1 device of profile train-80")
    Quota.objects.update(devices=2)
    (row,) = team_usage([vision])
    assert row.sentence == "vision holds 0 of 2 devices of profile train-80"
    assert quota_label(Quota(counts="claims")) == "claims"


@pytest.mark.parametrize(
    ("line", "figures"),
    [
        # before, after, limit, lacks
        (QuotaLine("x", None, 3, fits=False, sentence=""), (0, 3, 0, 3)),
        (QuotaLine("x", stands(8, 4, 1, 1), 2, fits=True, sentence=""), (6, 8, 8, 0)),
        (QuotaLine("x", stands(8, 4, 1, 1), 4, fits=False, sentence=""), (6, 10, 8, 2)),
        (QuotaLine("x", stands(8, 4, raised=1), 2, fits=True, sentence=""), (4, 6, 9, 0)),
    ],
)
def test_a_line_says_what_a_request_does_to_a_quota(line, figures):
    assert (line.before, line.after, line.limit, line.lacks) == figures


@pytest.mark.parametrize(
    ("own", "others", "needs", "capacity", "free", "kept"),
    [
        # Without a guarantee of its own: 10 devices, of which 4 are kept.
        (None, [(4, 0)], 6, 10, None, None),
        (None, [(4, 0)], 7, 10, 10, 4),
        (None, [(4, 1)], 6, 10, None, None),  # of one that is used only the rest is kept
        (None, [(4, 1)], 7, 10, 9, 3),
        (None, [(4, 4)], 9, 10, None, None),  # nothing is left to keep: the class may be taken up
        (None, [(4, 5)], 9, 10, None, None),
        (None, [(4, 0)], 99, None, None, None),  # nobody knows how many there are
        (None, [(2, 0), (2, 0)], 7, 10, 10, 4),  # of several teams together
        (None, [(4, 0), (0, 3)], 3, 10, None, None),  # use without a guarantee takes from what is free
        (None, [(4, 0), (0, 3)], 4, 10, 7, 4),
        (None, [(4, 0)], 1, 2, 2, 2),  # never more is named than there is
        (None, [(4, 0), (0, 12)], 1, 10, 0, 0),
        # With one of its own.
        ((4, 0), [(4, 0)], 4, 4, None, None),  # within it, whatever there is
        ((4, 0), [(4, 0)], 6, 10, None, None),
        ((4, 0), [(4, 0)], 7, 10, 10, 4),
        ((4, 4), [(4, 0)], 2, 10, None, None),
        ((4, 4), [(4, 0)], 3, 10, 6, 4),
        ((4, 6), [(4, 0)], 1, 10, 4, 4),  # what is used beyond it already is not its own
    ],
)
def test_what_is_guaranteed_to_others_is_kept(own, others, needs, capacity, free, kept):
    team = Team(slug="vision")
    shares = [GuaranteeShare(Team(slug=f"team-{number}"), *each) for number, each in enumerate(others)]
    if own:
        shares.append(GuaranteeShare(team, *own))
    guarantees = ClassGuarantees(
        [share for share in shares if share.guaranteed], sum(share.used for share in shares)
    )
    said = reason_for_guarantees(team, GPU_CLASS, needs, guarantees, capacity)
    if free is None:
        assert said == ""
        return
    names = ", ".join(share.team.slug for share in shares if share.team != team and share.unused)
    device, are = ("device", "is") if free == 1 else ("devices", "are")
    begin = f"{kept} of the {free} free gpu.nvidia.com {device} {are} guaranteed to {names}; "
    beyond = needs - max(own[0] - own[1], 0) if own else needs
    end = (
        f"this request needs {beyond} beyond vision's own guarantee of {own[0]}."
        if own
        else f"this request needs {beyond}, and vision has no guarantee of its own."
    )
    assert said == begin + end


# Lines of a request.


def shown(lines):
    return [(line.label, line.needs, line.fits, line.sentence, line.request_query) for line in lines]


@pytest.mark.django_db
def test_a_request_has_a_line_for_each_quota_it_counts_against(vision, fra, train, quota):
    other = make_profile("other")
    profile_quota, claims_quota = make_quota(vision, 2, profile=train), Quota(team=vision, counts="claims")
    claims_quota.devices = 1
    claims_quota.save()
    make_quota(vision, 9, profile=other)
    make_quota(vision, 9, device_class="further.example.com")
    make_quota(make_team("nlp"), 9, device_class=MIG)
    make_claim(vision, cluster=fra, profile=train, devices=1, state=ClaimState.ALLOCATED)
    charge, profiles = {MIG: 3, GPU_CLASS: 7, "none.example.com": 0}, {train: 2, make_profile("third"): 1}
    rows = charged_quotas(team=vision, charge=charge, profiles=profiles)
    assert [row.pk for row in rows] == sorted([quota.pk, profile_quota.pk, claims_quota.pk])
    lines = quota_lines(rows, team=vision, charge=charge, profiles=profiles, claims=1)
    assert shown(lines) == [
        (
            GPU_CLASS,
            7,
            True,
            "vision holds 1 of 8 gpu.nvidia.com devices; this request needs 7.",
            "",
        ),
        (
            MIG,
            3,
            False,
            "vision has no quota for mig.nvidia.com devices; this request needs 3.",
            urlencode({"team": "vision", "device_class": MIG, "more": 3}),
        ),
        (
            "train-80",
            2,
            False,
            "Quota of Vision exceeded by 1: 1 of 2 devices of profile train-80 in use or reserved; "
            "this request needs 2.",
            urlencode({"quota": profile_quota.pk, "more": 1}),
        ),
        (
            "claims",
            1,
            False,
            "Quota of Vision exceeded by 1: 1 of 1 claim in use or reserved; this request needs 1.",
            urlencode({"quota": claims_quota.pk, "more": 1}),
        ),
    ]
    assert [line.label for line in quota_lines(rows, team=vision, charge={}, profiles={}, claims=0)] == []


@pytest.mark.django_db
def test_locking_returns_the_rows_that_are_charged_of_the_team_alone(vision, train, quota):
    nlp = make_team("nlp")
    kept = make_quota(nlp, 9)
    Quota.objects.filter(pk=kept.pk).update(guaranteed=1)
    make_quota(vision, 9, device_class="further.example.com")
    own = make_quota(vision, 2, profile=train)
    rows = lock_quotas(team=vision, charge={GPU_CLASS: 1}, profiles=[train])
    assert [row.pk for row in rows] == sorted([quota.pk, own.pk])


@pytest.mark.django_db
@pytest.mark.parametrize("charged", [GPU_CLASS, MIG])
def test_rows_of_other_teams_are_locked_only_for_a_class_with_a_guarantee(
    vision, quota, charged, django_assert_num_queries
):
    """A request for another class waits for nobody, and none for a team without a guarantee."""
    make_quota(vision, 4, device_class=MIG)
    without = make_team("without")
    make_quota(without, 4)
    Quota.objects.create(team=without, counts="claims", devices=3)
    nlp = make_team("nlp")
    Quota.objects.filter(pk=make_quota(nlp, 9).pk).update(guaranteed=1)
    make_quota(nlp, 9, device_class=MIG)
    with django_assert_num_queries(1) as asked:
        lock_quotas(team=vision, charge={charged: 1}, profiles=[])
    sql = asked.captured_queries[0]["sql"]
    with connection.cursor() as cursor:
        cursor.execute(sql)
        found = len(cursor.fetchall())
    assert found == (2 if charged == GPU_CLASS else 1)


@pytest.mark.django_db
def test_guarantees_of_a_class_count_what_all_teams_use(vision, fra, train, quota):
    nlp = make_team("nlp")
    Quota.objects.filter(pk=make_quota(nlp, 9).pk).update(guaranteed=3)
    make_quota(nlp, 9, device_class=MIG)
    make_claim(vision, cluster=fra, profile=train, devices=2, state=ClaimState.ALLOCATED)
    make_claim(vision, cluster=fra, profile=train, devices=1)
    make_unmanaged(fra, "by-hand", 4)
    other = make_team("other")
    TeamNamespace.objects.create(team=other, cluster=fra, namespace="other")
    make_unmanaged(fra, "as-by-hand", 2, namespace="other")
    ended = make_claim(other, cluster=fra, profile=train, devices=4)
    ended.advance(ClaimState.WITHDRAWN, why="Not needed.")
    rows = Quota.objects.filter(guaranteed__gt=0).select_related("team")
    assert used_by_all_teams([GPU_CLASS, MIG]) == {GPU_CLASS: 2 + 1}  # the cluster has yet to be computed
    refresh(fra)
    used = used_by_all_teams([GPU_CLASS, MIG])
    assert used == {GPU_CLASS: 2 + 1 + 4 + 2}
    found = class_guarantees(list(rows), used)
    assert (set(found), found[GPU_CLASS].used) == ({GPU_CLASS}, 9)
    shares = {
        (share.team.slug, share.guaranteed, share.used, share.unused) for share in found[GPU_CLASS].shares
    }
    assert shares == {("nlp", 3, 0, 3)}
    Quota.objects.filter(team=vision, device_class=GPU_CLASS).update(guaranteed=8, devices=9)
    found = class_guarantees(list(rows.all()), used)
    shares = {
        (share.team.slug, share.guaranteed, share.used, share.unused) for share in found[GPU_CLASS].shares
    }
    assert shares == {("vision", 8, 7, 1), ("nlp", 3, 0, 3)}


# Parts.


@pytest.mark.django_db
def test_the_claims_of_a_figure_are_of_the_team_and_quota_oldest_first(vision, fra, train, quota, lena):
    nlp, other = make_team("nlp"), make_profile("other")
    profile_quota, claims_quota = (
        make_quota(vision, 9, profile=train),
        Quota.objects.create(team=vision, counts="claims", devices=9),
    )
    waits = make_claim(vision, cluster=fra, profile=train, devices=2, name="waits")
    runs = make_claim(
        vision,
        cluster=fra,
        profile=other,
        devices=3,
        name="runs",
        state=ClaimState.ALLOCATED,
        decided_by=lena,
    )
    make_claim(vision, cluster=fra, profile=train, state=ClaimState.RELEASED)
    make_claim(nlp, cluster=fra, profile=train, name="theirs")
    template = make_claim(
        vision, cluster=fra, profile=train, devices=1, parallel=2, name="pods", delivery="template"
    )

    def parts(row):
        return [(part.claim, part.devices, part.reserved, part.carried) for part in contributions(row)]

    assert parts(quota) == [(waits, 2, True, 0), (runs, 3, False, 0), (template, 2, True, 0)]
    assert parts(profile_quota) == [(waits, 2, True, 0), (template, 2, True, 0)]
    assert parts(claims_quota) == [(waits, 1, True, 0), (runs, 1, False, 0), (template, 2, True, 0)]
    assert contributions(quota)[1].claim.decided_by == lena
    figures = {row.label: (row.held, row.reserved) for row in team_usage([vision])}
    assert figures == {GPU_CLASS: (3, 4), "train-80": (0, 4), "claims": (1, 3)}


@pytest.mark.django_db
def test_alternatives_count_for_their_own_profiles_and_teams(vision, fra, train, quota):
    """What another team has taken of a profile is no matter of this one."""
    small, nlp = make_profile("small"), make_team("nlp")
    for team in (vision, nlp):
        make_quota(team, 9, profile=small)
        claim = make_claim(team, cluster=fra, profile=train, devices=4, state=ClaimState.ALLOCATED)
        for position, (profile, devices, settled) in enumerate([(train, 4, 0), (small, 2, 1)]):
            Alternative.objects.create(
                claim=claim,
                position=position,
                name=f"gpu/{position}",
                profile_version=profile.current,
                devices=devices,
                settled=settled if team == vision else None,
            )
    used = {(row.team.slug, row.label): row.held for row in team_usage([vision, nlp]) if row.quota.profile_id}
    assert used == {("vision", "small"): 1, ("nlp", "small"): 2}
    (own,) = [row.quota for row in team_usage([vision]) if row.quota.profile_id]
    assert [(part.devices, part.carried) for part in contributions(own)] == [(1, 0)]


@pytest.mark.django_db
def test_unmanaged_use_counts_against_classes_and_claims_and_no_profile(vision, fra, train, quota):
    profile_quota = make_quota(vision, 9, profile=train)
    claims_quota = Quota.objects.create(team=vision, counts="claims", devices=9)
    make_unmanaged(fra, "by-hand", 2)
    make_unmanaged(fra, "other-class", 3, device_class=MIG)
    plugin_pod(fra, "legacy", nvidia_com__gpu=4)

    def parts(row):
        return [(part.use.name, part.devices) for part in quota_breakdown(row).unmanaged]

    assert parts(quota) == [("by-hand", 2), ("legacy", 4)]
    assert parts(profile_quota) == []
    assert parts(claims_quota) == [("by-hand", 1), ("other-class", 1)]
    assert {row.label: row.unmanaged for row in team_usage([vision])} == {
        GPU_CLASS: 6,
        "train-80": 0,
        "claims": 2,
    }
