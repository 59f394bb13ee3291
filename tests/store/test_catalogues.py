from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import pytest

from extproc.catalog.model import Catalogue
from extproc.search import ToolIndex
from extproc.store import CatalogueStore, Cold, Warm, catalogues

from .conftest import Builder, Clock, catalogue, tool

Make = Callable[..., CatalogueStore]
A, B = b"a" * 16, b"b" * 16


async def names(store: CatalogueStore, key: bytes) -> list[str] | None:
    view = store.view(key)
    return [tool.name for tool in view.catalogue] if isinstance(view, Warm) else None


async def test_a_learned_list_serves_and_tells_its_age(make: Make, clock: Clock) -> None:
    store = make()
    assert store.view(A) == Cold()
    await store.learn(A, catalogue(["x", "y"]))
    clock.now += 7
    view = store.view(A)
    assert isinstance(view, Warm)
    assert view.age == 7
    assert view.fresh
    assert view.index.catalogue is view.catalogue
    assert store.view(B) == Cold()


async def test_without_a_key_nothing_is_stored_and_the_index_is_still_shared(
    make: Make, builder: Builder
) -> None:
    store = make(caller={"anonymous": "isolate"})
    first = await store.learn(None, catalogue(["x"]))
    second = await store.learn(None, catalogue(["x"]))
    assert first.index is second.index
    assert len(builder.built) == 1
    assert store.view(None) == Cold()
    assert not store.stale(None)
    assert store.callers == 0


async def test_equal_lists_share_one_catalogue_and_one_index(make: Make, builder: Builder) -> None:
    store = make()
    one = await store.learn(A, catalogue(["x", "y"]))
    two = await store.learn(B, catalogue(["y", "x"]))
    assert one.catalogue is two.catalogue
    assert one.index is two.index
    assert len(builder.built) == 1


async def test_different_lists_share_their_tools(make: Make) -> None:
    store = make()
    one = await store.learn(A, catalogue(["x", "y"]))
    two = await store.learn(B, catalogue(["y", "z"]))
    assert one.catalogue.get("y") is two.catalogue.get("y")
    assert store.tools == 3


async def test_one_build_for_many_waiters_and_off_the_loop(make: Make, builder: Builder) -> None:
    store = make()
    release = threading.Event()
    on_loop = threading.get_ident()
    seen: list[int] = []

    def hook() -> None:
        seen.append(threading.get_ident())
        release.wait(5)

    builder.hook = hook
    waiters = [asyncio.ensure_future(store.learn(bytes([n]) * 16, catalogue(["x"]))) for n in range(20)]
    await asyncio.sleep(0.01)
    waiters[0].cancel()
    await asyncio.sleep(0)
    release.set()
    results = await asyncio.gather(*waiters, return_exceptions=True)
    assert isinstance(results[0], asyncio.CancelledError)
    assert all(isinstance(result, Warm) for result in results[1:])
    assert len(builder.built) == 1
    assert seen != [on_loop]


async def test_a_failing_build_reaches_every_waiter_and_is_tried_again(make: Make, builder: Builder) -> None:
    store = make()

    def fail() -> None:
        raise RuntimeError("broken")

    builder.hook = fail
    waiters = (store.learn(key, catalogue(["x"])) for key in (A, B))
    results = await asyncio.gather(*waiters, return_exceptions=True)
    assert [type(result) for result in results] == [RuntimeError, RuntimeError]
    assert store.view(A) == Cold()
    builder.hook = lambda: None
    assert isinstance(await store.learn(A, catalogue(["x"])), Warm)


async def test_a_slow_build_is_answered_by_the_quick_index_and_replaced(
    make: Make, builder: Builder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalogues, "PATIENCE", 0.01)
    quick = Builder()
    store = make(quick=quick)
    release = threading.Event()
    builder.hook = lambda: release.wait(5)
    first = await store.learn(A, catalogue(["x"]))
    second = await store.learn(B, catalogue(["x"]))
    assert first.index is second.index
    assert len(quick.built) == 1
    release.set()
    while store._building:  # noqa: ASYNC110
        await asyncio.sleep(0.002)
    view = store.view(A)
    assert isinstance(view, Warm)
    assert view.index is not first.index
    assert (len(builder.built), store.counters.quick, store.catalogues) == (1, 1, 1)


async def test_a_build_that_fails_after_the_quick_index_leaves_it(
    make: Make, builder: Builder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalogues, "PATIENCE", 0.01)
    store = make(quick=ToolIndex.build)
    release = threading.Event()

    def fail() -> None:
        release.wait(5)
        raise RuntimeError("broken")

    builder.hook = fail
    await store.learn(A, catalogue(["x"]))
    release.set()
    while store._building:  # noqa: ASYNC110
        await asyncio.sleep(0.002)
    assert await names(store, A) == ["x"]
    assert store.counters.failed_builds == 1


async def test_what_is_said_while_an_answer_is_under_way_is_not_forgotten_with_it(
    make: Make, clock: Clock
) -> None:
    """The answer may have been written before the tool went away, or before the client asked again."""
    store = make()
    await store.learn(A, catalogue(["x"]))
    asked = clock.now = clock.now + 1
    clock.now += 1
    store.mark_stale(A)
    store.doubt(A)
    clock.now += 1
    await store.learn(A, catalogue(["x"]), asked=asked)
    assert store.stale(A)
    assert not _fresh(store, searches=True)
    asked = clock.now = clock.now + 1
    await store.learn(A, catalogue(["y"]), asked=asked)
    assert not store.stale(A)
    assert _fresh(store, searches=True)


async def test_a_doubted_list_is_fresh_for_lists_and_not_for_searches(make: Make) -> None:
    store = make()
    store.doubt(A)
    store.doubt(None)
    await store.learn(A, catalogue(["x"]))
    assert _fresh(store, searches=True)
    store.doubt(A)
    assert _fresh(store, searches=False)
    assert not _fresh(store, searches=True)
    assert not store.stale(A)


def _fresh(store: CatalogueStore, *, searches: bool) -> bool:
    view = store.view(A, searches=searches)
    assert isinstance(view, Warm)
    return view.fresh


async def test_life_then_stale_then_gone(make: Make, clock: Clock) -> None:
    store = make(catalog={"ttl": 100, "max_stale": 50})
    await store.learn(A, catalogue(["x"]))
    assert not store.stale(A)
    clock.now += 100
    view = store.view(A)
    assert isinstance(view, Warm)
    assert not view.fresh
    assert store.stale(A)
    clock.now += 50
    assert store.view(A) == Cold()
    assert store.counters.expired == 1


@pytest.mark.parametrize(("ttl_s", "life"), [(None, 600), (60, 60), (9_000, 600), (0, 5), (-4, 5)], ids=str)
async def test_the_shorter_life_wins_and_zero_means_refresh_after(
    make: Make, clock: Clock, ttl_s: float | None, life: float
) -> None:
    store = make()
    await store.learn(A, catalogue(["x"]), ttl_s)
    clock.now += life - 0.001
    view = store.view(A)
    assert isinstance(view, Warm)
    assert view.fresh
    clock.now += 0.002
    view = store.view(A)
    assert isinstance(view, Warm)
    assert not view.fresh


async def test_a_refresh_is_due_before_the_end_of_the_life(make: Make, clock: Clock) -> None:
    store = make(catalog={"ttl": 100})
    keys = [bytes([n]) * 16 for n in range(50)]
    for key in keys:
        await store.learn(key, catalogue(["x"]))
    clock.now += 79
    assert not any(store.stale(key) for key in keys)
    clock.now += 11
    due = sum(store.stale(key) for key in keys)
    assert 0 < due < 50
    clock.now += 10
    assert all(store.stale(key) for key in keys)


async def test_marking_stale_keeps_serving(make: Make) -> None:
    store = make()
    await store.learn(A, catalogue(["x"]))
    store.mark_stale(A)
    store.mark_stale(B)
    store.mark_stale(None)
    view = store.view(A)
    assert isinstance(view, Warm)
    assert not view.fresh
    assert store.stale(A)
    await store.learn(A, catalogue(["x"]))
    assert not store.stale(A)


async def test_a_refusal_forgets_the_caller_and_only_that_caller(make: Make) -> None:
    store = make()
    await store.learn(A, catalogue(["x"]))
    await store.learn(B, catalogue(["x"]))
    store.drop(A)
    store.drop(None)
    assert store.view(A) == Cold()
    assert await names(store, B) == ["x"]


async def test_a_list_asked_for_before_a_refusal_is_not_stored(make: Make, clock: Clock) -> None:
    store = make()
    asked = clock()
    clock.now += 1
    store.drop(A)
    clock.now += 1
    used = await store.learn(A, catalogue(["x"]), asked=asked)
    assert len(used.catalogue) == 1
    assert store.view(A) == Cold()
    await store.learn(A, catalogue(["x"]), asked=clock())
    assert await names(store, A) == ["x"]


async def test_a_refusal_while_the_index_is_built_wins(make: Make, builder: Builder, clock: Clock) -> None:
    store = make()
    release = threading.Event()
    builder.hook = lambda: release.wait(5)
    learning = asyncio.ensure_future(store.learn(A, catalogue(["x"])))
    await asyncio.sleep(0.01)
    clock.now += 1
    store.drop(A)
    release.set()
    await learning
    assert store.view(A) == Cold()


async def test_an_older_answer_does_not_replace_a_newer_one(make: Make, clock: Clock) -> None:
    store = make()
    slow = clock()
    clock.now += 1
    await store.learn(A, catalogue(["new"]), asked=clock())
    await store.learn(A, catalogue(["old"]), asked=slow)
    assert await names(store, A) == ["new"]
    assert store.counters.superseded == 1


async def test_an_incomplete_list_stands_only_until_completed(make: Make) -> None:
    store = make()
    first = await store.learn(A, catalogue(["x"], complete=False))
    assert not first.catalogue.complete
    assert store.stale(A)
    await store.learn(A, catalogue(["x", "y"]))
    assert not store.stale(A)
    used = await store.learn(A, catalogue(["x"], complete=False))
    assert len(used.catalogue) == 2
    assert await names(store, A) == ["x", "y"]
    assert store.stale(A)
    assert store.counters.kept_complete == 1


async def test_an_incomplete_list_replaces_a_complete_one_when_asked_or_over(
    make: Make, clock: Clock
) -> None:
    store = make()
    await store.learn(A, catalogue(["x", "y"]))
    await store.learn(A, catalogue(["x"], complete=False), replace_complete=True)
    assert await names(store, A) == ["x"]
    await store.learn(A, catalogue(["x", "y"]))
    clock.now += 600
    await store.learn(A, catalogue(["x"], complete=False))
    assert await names(store, A) == ["x"]


async def test_a_list_that_lost_tools_is_taken_at_once_and_asked_for_again_soon(
    make: Make, clock: Clock
) -> None:
    store = make()
    await store.learn(A, catalogue(["files__read", "mail__send"]))
    await store.learn(A, catalogue(["files__read"]))
    assert await names(store, A) == ["files__read"]
    clock.now += 30
    assert store.stale(A)
    await store.learn(A, catalogue(["files__read"]))
    clock.now += 30
    assert not store.stale(A)


async def test_callers_are_bounded_by_number_least_recent_first(make: Make) -> None:
    store = make(limits={"callers": 2})
    await store.learn(A, catalogue(["x"]))
    await store.learn(B, catalogue(["x"]))
    store.view(A)
    await store.learn(b"c" * 16, catalogue(["x"]))
    assert await names(store, A) == ["x"]
    assert store.view(B) == Cold()
    assert store.counters.evicted_callers == 1


async def test_catalogues_are_bounded_by_bytes_least_recent_first(make: Make) -> None:
    one, two = (catalogue([f"{letter}tool{n}" for n in range(12)]) for letter in "ab")
    roomy = make()
    await roomy.learn(A, one)
    room = int(roomy.size * 1.5)
    store = make(limits={"cache": room})
    await store.learn(A, one)
    assert 0 < store.size == roomy.size
    await store.learn(B, two)
    assert store.evicted_catalogues == 1
    assert store.size <= room
    assert store.view(A) == Cold()
    assert store.stale(A)
    assert len(await names(store, B) or []) == 12
    assert store.tools == 12


async def test_a_list_larger_than_the_bound_answers_once(make: Make) -> None:
    store = make(limits={"cache": 1_000})
    used = await store.learn(A, catalogue(["x"]))
    assert len(used.catalogue) == 1
    assert store.view(A) == Cold()
    assert store.size == 0
    assert store.tools == 0


async def test_tools_stay_counted_while_another_list_holds_them(make: Make) -> None:
    lists = [catalogue(names) for names in (["x", "y"], ["y", "z"], ["u", "v", "w"])]
    roomy = make()
    await roomy.learn(A, lists[0])
    await roomy.learn(B, lists[1])
    store = make(limits={"cache": roomy.size})
    for key, wanted in zip((A, B, A), lists, strict=True):
        await store.learn(key, wanted)
        assert 0 < store.size <= roomy.size
    views = [store.view(A), store.view(B)]
    held = {tool.digest for seen in views if isinstance(seen, Warm) for tool in seen.catalogue}
    assert store.evicted_catalogues > 0
    assert 0 < store.tools == len(held)


async def test_a_part_of_a_known_list_is_a_mask_over_its_index(make: Make, builder: Builder) -> None:
    store = make()
    everything = [f"files__tool_{n}" for n in range(20)]
    whole = await store.learn(A, catalogue(everything))
    part = await store.learn(B, catalogue(everything[3:9]))
    assert len(builder.built) == 1
    assert store.counters.parts == 1
    found = {hit.tool.name for hit in part.index.search("files tool", 20)}
    assert found == set(everything[3:9])
    assert len(whole.index.search("files tool", 20)) == 20


async def test_many_different_parts_share_a_joined_index(make: Make, builder: Builder) -> None:
    store = make()
    everything = [f"files__tool_{n}" for n in range(64)]
    for n in range(100):
        chosen = [name for place, name in enumerate(everything) if (place * 7 + n * 13) % 5 < 3]
        key = bytes([n]) * 16
        await store.learn(key, catalogue(chosen))
        assert await names(store, key) == sorted(chosen)
        view = store.view(key)
        assert isinstance(view, Warm)
        assert {hit.tool.name for hit in view.index.search("files tool", 100)} == set(chosen)
    assert len(builder.built) <= 5
    assert store.tools == 64


async def test_lists_that_differ_about_a_tool_are_not_joined(make: Make, builder: Builder) -> None:
    store = make()
    same = [tool(f"t{n}") for n in range(6)]
    await store.learn(A, Catalogue.of([*same, tool("x", "one thing"), tool("a")]))
    other = await store.learn(B, Catalogue.of([*same, tool("x", "another thing"), tool("b")]))
    described = other.catalogue.get("x")
    assert described is not None
    assert described.description == "another thing"
    assert len(builder.built) == 2
    assert [hit.tool.name for hit in other.index.search("another", 1)] == ["x"]
    assert other.index.catalogue.get("a") is None


async def test_a_whole_is_not_dropped_before_its_parts(make: Make) -> None:
    store = make()
    everything = [f"files__tool_{n}" for n in range(20)]
    await store.learn(A, catalogue(everything))
    await store.learn(B, catalogue(everything[:10]))
    pool = store._pool
    store.view(B)
    assert [shared.root is None for shared in pool._shared.values()] == [False, True]
