"""The streams: nothing is lost or doubled, whoever commits, however often a client comes back."""

import asyncio
import random
import re
import shutil
from contextlib import closing
from pathlib import Path

import aiohttp
import pytest
from serving import PATIENCE, Sent, Serving, collect, make_repo, read_stream, serving

from headgate.core import Event, StoreRestored, Task
from headgate.engine import Activity
from headgate.log import Bus, Draft, Store
from headgate.server import feed as feeds


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    return make_repo(tmp_path)


def numbers(sent: list[Sent]) -> list[int]:
    return [each.id for each in sent if each.id is not None]


async def test_milestones_by_default_and_everything_with_detail(repo: Path) -> None:
    async with serving(repo) as server:
        await server.submit("one")
        await server.until("t1", "SUCCESS")
        stored = server.service.engine.store.events("t1")
        last = stored[-1].seq
        brief = await collect(server, "/api/tasks/t1/events", lambda sent: last in numbers(sent))
        full = await collect(server, "/api/tasks/t1/events?detail=1", lambda sent: last in numbers(sent))
    told = [each.data for each in brief if each.name == "milestone"]
    assert [each["text"] for each in told][-1].startswith("SUCCESS")
    assert "body" not in told[0]
    assert numbers(full) == [event.seq for event in stored]
    as_stored = [event.as_json() for event in stored]
    sent = [each.data for each in full if each.id]
    assert [{**each, "text": data["text"]} for each, data in zip(as_stored, sent, strict=True)] == sent
    assert [data["text"] for data in sent if data["text"]] == [data["text"] for data in told]


async def test_a_client_that_comes_back_at_random_loses_and_doubles_nothing(repo: Path) -> None:
    luck = random.Random(1)
    async with serving(repo) as server:
        for number in range(6):
            await server.submit(f"task {number}")

        async def follow(by_header: bool) -> list[int]:
            found: list[int] = []
            while not found or server.service.engine.store.events("t6", found[-1]) or not _is_over(server):
                after = {} if by_header or not found else {"after": found[-1]}
                headers = {"Last-Event-ID": str(found[-1])} if by_header and found else {}
                url = f"{server.url}/api/events?detail=1"
                params = after or ({"after": 0} if not found else {})
                async with server.client.get(url, params=params, headers=headers) as response:
                    left = luck.randrange(1, 9)
                    async for sent in read_stream(response):
                        if sent.id is not None:
                            found.append(sent.id)
                            left -= 1
                        if not left or (
                            _is_over(server) and found[-1] == server.service.engine.store.last_seq()
                        ):
                            break
            return found

        async with asyncio.timeout(PATIENCE):
            followed = await asyncio.gather(*(follow(number % 2 == 0) for number in range(8)))
        stored = [event.seq for event in server.service.engine.store.events()]
    assert all(found == stored for found in followed)


def _is_over(server: Serving) -> bool:
    return not server.service.engine.store.unsettled()


async def test_events_of_another_process_come_as_well(repo: Path) -> None:
    async with serving(repo, works=False) as server:
        await server.submit("one")
        reading = asyncio.create_task(
            collect(server, "/api/events?detail=1", lambda sent: bool(numbers(sent)))
        )
        while not server.service.feed.clients:
            await asyncio.sleep(0.01)
        with closing(Store(server.service.engine.store.path)) as other:
            (event,) = await other.append("t1", [Draft("", 0, 1.0, StoreRestored(sentence="x"))])
        found = await reading
    assert numbers(found) == [event.seq]


async def test_a_slow_client_holds_up_nobody_and_reads_on_in_the_log(repo: Path) -> None:
    count = 2 * feeds.KEPT + 500
    async with serving(repo, works=False) as server:
        await server.submit("one")
        store = server.service.engine.store
        connector = aiohttp.TCPConnector(force_close=True)
        async with aiohttp.ClientSession(connector=connector, read_bufsize=2**10) as slow:
            url = f"{server.url}/api/tasks/t1/events?detail=1"
            async with slow.get(url) as behind:
                lines = read_stream(behind)
                assert (await anext(lines)).name == "queue"
                reading = asyncio.create_task(
                    collect(server, "/api/tasks/t1/events?detail=1", lambda sent: len(numbers(sent)) == count)
                )
                body = StoreRestored(sentence="x" * 1_500)
                for _ in range(count // 100):
                    await store.append("t1", [Draft("", 0, 1.0, body) for _ in range(100)])
                    await asyncio.sleep(0)
                fast = numbers(await reading)  # while the other one has read nothing
                assert len(server.service.feed._recent) <= 2 * feeds.KEPT
                found: list[int] = []
                async for sent in lines:
                    found += [sent.id] if sent.id is not None else []
                    if len(found) == count:
                        break
        from_the_log = await collect(
            server, "/api/tasks/t1/events?detail=1", lambda sent: len(numbers(sent)) == count
        )
    assert fast == found == numbers(from_the_log) == list(range(fast[0], fast[0] + count))


async def test_the_queue_is_told_without_an_id(repo: Path) -> None:
    async with (
        serving(repo, works=False) as server,
        server.client.get(f"{server.url}/api/events") as response,
    ):
        stream = read_stream(response)

        async def told() -> list[str]:
            async with asyncio.timeout(PATIENCE):
                async for sent in stream:
                    if sent.name == "queue":
                        assert sent.id is None
                        return list(sent.data["queued"])
            raise AssertionError("the stream has ended")

        assert await told() == []
        await server.submit("task")
        assert await told() == ["t1"]
        await server.submit("task")
        assert await told() == ["t1", "t2"]
        await server.ask("DELETE", "/api/tasks/t1")
        assert await told() == ["t2"]


async def test_a_client_hears_heartbeats_while_there_is_news_for_others_only(repo: Path) -> None:
    async with serving(repo, works=False) as server:
        await server.submit("one")
        await server.submit("two")
        server.service.feed.heartbeat_seconds = 0.2

        async def keep_busy() -> None:
            while True:
                await server.service.engine.store.append(
                    "t2", [Draft("", 0, 1.0, StoreRestored(sentence="x"))]
                )
                server.service.feed.wake()
                await asyncio.sleep(0.02)

        busy = asyncio.create_task(keep_busy())
        url = f"{server.url}/api/tasks/t1/events"
        async with asyncio.timeout(5), server.client.get(url) as response:
            while await response.content.readline() != b": still here\n":
                pass
        busy.cancel()


async def test_a_client_that_is_ahead_of_the_log_hears_of_the_queue(repo: Path) -> None:
    async with serving(repo, works=False) as server:
        found = await collect(server, "/api/events?after=1000000", bool)
    assert [sent.name for sent in found] == ["queue"]


async def test_the_feed_goes_on_after_it_has_failed(repo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    failures = [RuntimeError("no luck"), RuntimeError("no luck")]

    def fail(event: Event) -> None:
        if failures:
            raise failures.pop()

    async with serving(repo, works=False) as server:
        await server.submit("one")
        server.service.feed.on_event = fail
        drafts = [Draft("", 0, 1.0, StoreRestored(sentence="x")) for _ in range(5)]
        stored = [event.seq for event in await server.service.engine.store.append("t1", drafts)]
        found = await collect(
            server, "/api/tasks/t1/events?detail=1", lambda sent: len(numbers(sent)) == len(stored)
        )
    assert numbers(found) == stored
    assert capsys.readouterr().out == "Headgate itself failed: RuntimeError: no luck\n"


async def test_half_a_character_of_a_model_does_no_harm(repo: Path) -> None:
    with closing(Store(repo / "store.db")) as store:
        bus, clock = Bus(), [1.0]
        feed = feeds.Feed(store, bus, now=lambda: clock[0])
        store.add_task(lambda name: Task(id=name, text="x", goal="x"), 0.0)
        store.claim()
        await store.append("t1", [Draft("", 0, 1.0, StoreRestored(sentence="x"))])
        feed.catch_up()
        clock[0] += feeds.ACTIVITY_SECONDS
        bus.pulse("text", "a\ud83d")
        assert feed.activity["lines"] == ["a?"]


async def test_streams_end_when_the_server_stops(repo: Path) -> None:
    async with (
        serving(repo, works=False) as server,
        server.client.get(f"{server.url}/api/events") as response,
    ):
        await response.content.readline()
        server.service.feed.close()
        async with asyncio.timeout(PATIENCE):
            assert b"queue" in await response.content.read()
        assert server.service.feed.clients == 0


async def test_the_time_before_a_task_does_not_count_as_waiting(repo: Path) -> None:
    async with serving(repo) as server:
        server.service.feed._activity = Activity(lambda: 0.0)  # as if the server had run for long
        await server.submit("one")
        await server.until("t1", "SUCCESS")
        found = await collect(
            server, "/api/tasks/t1/events", lambda sent: any("SUCCESS" in str(each.data) for each in sent)
        )
    said = [each.data["text"] for each in found if each.name == "activity"]
    assert not any(re.search(r", \d{3,} s", text) for text in said)


async def test_a_deleted_store_takes_no_tasks(repo: Path) -> None:
    async with serving(repo, works=False) as server:
        shutil.rmtree(repo / ".headgate")
        for method, path, body in (("POST", "/api/tasks", {"text": "a"}), ("GET", "/healthz", None)):
            status, problem = await server.ask(method, path, json=body)
            assert (status, "was deleted" in problem["detail"]) == (503, True)
