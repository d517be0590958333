"""REST, a memory over time and as a graph: timelines, profiles, changes, entities and what links them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("jsonschema")
sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long.serving import Client, app_of, served, told

BASE = "/v1/users/ana"


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """A client of an app in which Ana has told something; for tests that only read."""
    with served(app_of(tmp_path_factory.mktemp("forest"))) as made:
        told(made)
        yield made


@pytest.fixture
def own(folder: Path) -> Iterator[Client]:
    """The same for a test that writes."""
    with served(app_of(folder)) as made:
        told(made)
        yield made


def entries(found: object) -> list[dict[str, object]]:
    """Return the entries of a timeline."""
    assert isinstance(found, (list, dict))
    return found if isinstance(found, list) else list(found["entries"])


def test_where_somebody_lived_when(client: Client) -> None:
    """One place ends when the next begins; only one attribute where it is named."""
    found = entries(client("GET", f"{BASE}/timeline/Ana?attribute=residence", 200))
    assert [(one["value"], one["end"] is None) for one in found] == [("Davis", False), ("Miami", True)]
    early = entries(client("GET", f"{BASE}/timeline/ana?attribute=residence&said_by=2024-05-02", 200))
    assert [one["value"] for one in early] == ["Davis"]
    client("GET", f"{BASE}/timeline/Zoe", 404)


def test_states_or_events_alone_with_what_they_stand_on(client: Client) -> None:
    """As pages of their own; what ended a state is told with its fact, and another kind is refused."""
    page = client("GET", f"{BASE}/timeline/Ana?kind=state", 200)
    assert isinstance(page, dict)
    assert {one["kind"] for one in page["entries"]} == {"state"}
    assert "residence" in page["attributes"]
    davis = next(one for one in page["entries"] if one["value"] == "Davis")
    assert davis["ended_by"]["value"] == "Miami"
    client("GET", f"{BASE}/facts/{davis['ended_by']['fact_id']}", 200)
    events = client("GET", f"{BASE}/timeline/Ana?kind=event", 200)
    assert {one["kind"] for one in entries(events)} <= {"event"}
    client("GET", f"{BASE}/timeline/Ana?kind=value", 422)


def test_what_differs_between_two_times(client: Client) -> None:
    """By valid time, each entry with its sources."""
    found = client("GET", f"{BASE}/diff?a=2024-05-02&b=2024-05-30", 200)
    moved = [one for one in found["entries"] if one["attribute"] == "residence"]
    assert [(one["change"], one["before"], one["after"]) for one in moved] == [("changed", "Davis", "Miami")]
    until_now = client("GET", f"{BASE}/diff?a=2024-05-02", 200)
    assert until_now["b"] == "2024-06-01T12:00:00+00:00"
    client("GET", f"{BASE}/diff", 422)
    client("GET", f"{BASE}/diff?a=2024-05-02&b=2024-05-30&entity=Zoe", 404)


def test_what_was_learnt_since(client: Client) -> None:
    """In pages, that together are the whole."""
    whole = client("GET", f"{BASE}/changes?since=2024-01-01", 200)["changes"]
    assert {"stored", "learnt"} <= {one["kind"] for one in whole}
    found, after = [], ""
    while True:
        page = client("GET", f"{BASE}/changes?since=2024-01-01&limit=2{after}", 200)
        found += page["changes"]
        if page["next"] is None:
            break
        after = f"&after={page['next']}"
    assert found == whole
    client("GET", f"{BASE}/changes?since=2024-01-01&after=nonsense", 422)
    client("GET", f"{BASE}/changes?since=2024-02-01&until=2024-01-01", 422)


def test_a_profile(client: Client) -> None:
    """Of whom the graph knows most, or of one by name; a model is asked for it only where there is one."""
    found = client("POST", f"{BASE}/profile", 200)
    assert "sections" in found
    one = client("POST", f"{BASE}/profile", 200, json={"participant": "Ana", "index": "graph"})
    assert [section["participant"].lower() for section in one["sections"]] == ["ana"]
    client("POST", f"{BASE}/profile", 422, json={"written": True})
    client("POST", f"{BASE}/profile", 404, json={"participant": "Zoe"})


def test_entities_are_listed(client: Client) -> None:
    """Those that most statements name first; by kind, and by words of a name."""
    page = client("GET", f"{BASE}/entities", 200)
    names = [one["name"].lower() for one in page["entities"]]
    assert "ana" in names
    assert page["total"] == len(names)
    assert len(client("GET", f"{BASE}/entities?limit=1", 200)["entities"]) == 1
    found = client("GET", f"{BASE}/entities?query=mia", 200)["entities"]
    assert all("mia" in one["name"].lower() for one in found)
    client("GET", f"{BASE}/entities?kind=dragon", 422)


def test_how_entities_are_linked(client: Client) -> None:
    """Their relations, the way from one to another, and the picture of all."""
    found = client("GET", f"{BASE}/relations/Ana", 200)
    assert {one["target"] for one in found} & {"Davis", "Miami"}
    way = client("GET", f"{BASE}/path?a=Davis&b=Miami&hops=4", 200)
    assert (way["found"], way["source"]) == (True, "Davis")
    picture = client("GET", f"{BASE}/graph", 200)
    assert len(picture["nodes"]) == picture["entities"]
    client("GET", f"{BASE}/path?a=Davis&b=Miami&hops=9", 422)
    client("GET", f"{BASE}/path?a=Davis&b=Zoe", 404)
    client("GET", f"{BASE}/relations/Zoe", 404)


def test_who_is_who_is_decided(own: Client) -> None:
    """Two names are one until they are split again; both decisions are told."""
    turns = [
        {
            "speaker": "Bob",
            "content": "Melanie works at Acme. Tink works at Globex.",
            "timestamp": "2024-05-21",
        }
    ]
    own("PUT", f"{BASE}/sessions/third", 201, json={"turns": turns})
    one = own("POST", f"{BASE}/entities/merge", 200, json={"a": "Melanie", "b": "Tink"})
    assert {"Melanie", "Tink"} <= set(one["names"])
    assert [made["verdict"] for made in own("GET", f"{BASE}/entities/choices", 200)] == ["same"]
    split = own("POST", f"{BASE}/entities/split", 200, json={"entity": "Melanie", "name": "Tink"})
    assert "Melanie" not in split["names"] or "Tink" not in split["names"]
    assert [made["verdict"] for made in own("GET", f"{BASE}/entities/choices", 200)] == ["apart"]
    own("POST", f"{BASE}/entities/merge", 404, json={"a": "Melanie", "b": "Zoe"})
    own("POST", f"{BASE}/entities/merge", 422, json={"a": "Melanie"})
