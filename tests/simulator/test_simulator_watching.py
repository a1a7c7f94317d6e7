"""Watches: what they tell, when they end, and what they have forgotten."""

from tests.simulator.conftest import CLAIMS, DRA, MERGE, created, events_of, make_claim


def revision(portal):
    return portal.get(CLAIMS).json()["metadata"]["resourceVersion"]


def told(events):
    return [(event["type"], event["object"]["metadata"]["name"]) for event in events]


def test_a_watch_tells_what_came_changed_and_went(portal):
    since = revision(portal)
    portal.post(CLAIMS, json=make_claim("a"))
    portal.patch(f"{CLAIMS}/a", json={"metadata": {"labels": {"x": "1"}}}, headers=MERGE)
    portal.delete(f"{CLAIMS}/a")
    seen = events_of(portal, CLAIMS, resourceVersion=since)
    assert told(seen) == [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a")]
    assert seen[0]["object"]["kind"] == "ResourceClaim"


def test_a_watch_without_a_revision_begins_with_what_is_there(portal):
    portal.post(CLAIMS, json=make_claim("a"))
    assert told(events_of(portal, CLAIMS)) == [("ADDED", "a")]


def test_a_watch_of_one_namespace_hears_nothing_of_others(root):
    created(root.post("/api/v1/namespaces", json={"metadata": {"name": "nlp"}}))
    since = revision(root)
    root.post(CLAIMS.replace("vision", "nlp"), json=make_claim("theirs"))
    root.post(CLAIMS, json=make_claim("ours"))
    assert told(events_of(root, CLAIMS, resourceVersion=since)) == [("ADDED", "ours")]
    everywhere = events_of(root, f"{DRA}/resourceclaims", resourceVersion=since)
    assert told(everywhere) == [("ADDED", "theirs"), ("ADDED", "ours")]


def test_an_object_that_leaves_the_selection_is_deleted_for_the_watch(portal):
    since = revision(portal)
    claim = make_claim("a")
    claim["metadata"]["labels"] = {"team": "vision"}
    portal.post(CLAIMS, json=claim)
    portal.patch(f"{CLAIMS}/a", json={"metadata": {"labels": {"team": "nlp"}}}, headers=MERGE)
    portal.patch(f"{CLAIMS}/a", json={"metadata": {"labels": {"team": "vision"}}}, headers=MERGE)
    seen = events_of(portal, CLAIMS, resourceVersion=since, labelSelector="team=vision")
    assert told(seen) == [("ADDED", "a"), ("DELETED", "a"), ("ADDED", "a")]


def test_bookmarks_come_only_to_who_asks_for_them(portal):
    since = revision(portal)
    assert events_of(portal, CLAIMS, resourceVersion=since) == []
    (bookmark,) = events_of(portal, CLAIMS, resourceVersion=since, allowWatchBookmarks="true")
    assert bookmark["type"] == "BOOKMARK"
    assert int(bookmark["object"]["metadata"]["resourceVersion"]) >= int(since)


def test_a_streamed_list_ends_with_a_marked_bookmark(portal):
    portal.post(CLAIMS, json=make_claim("a"))
    query = {
        "sendInitialEvents": "true",
        "resourceVersionMatch": "NotOlderThan",
        "allowWatchBookmarks": "true",
    }
    added, bookmark, *_rest = events_of(portal, CLAIMS, **query)
    assert added["type"] == "ADDED"
    assert bookmark["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


def test_initial_events_need_the_match(portal):
    answer = portal.get(CLAIMS, params={"watch": "1", "sendInitialEvents": "true"})
    assert answer.status_code == 422
    assert "requires setting resourceVersionMatch to NotOlderThan" in answer.json()["message"]


def test_a_watch_from_too_long_ago_ends_in_the_stream(portal):
    (error,) = events_of(portal, CLAIMS, resourceVersion="1")
    assert error["type"] == "ERROR"
    assert (error["object"]["code"], error["object"]["reason"]) == (410, "Expired")
    assert error["object"]["message"].startswith("too old resource version: 1 (")


def test_compaction_forgets_what_was_known(server, portal):
    since = revision(portal)
    portal.post(CLAIMS, json=make_claim("a"))
    server.do(server.cluster.store.compact)
    (error,) = events_of(portal, CLAIMS, resourceVersion=since)
    assert error["object"]["code"] == 410


def test_a_malformed_revision_is_answered_as_the_real_server_does(portal):
    assert portal.get(CLAIMS, params={"watch": "1", "resourceVersion": "abc"}).status_code == 500
