"""How ranks find each other: values that they leave, rounds that they come to, and everything that can go wrong."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from blu.errors import RankError, RankLostError
from blu.runtime.ranks import frames
from blu.runtime.ranks.agreement import agree
from blu.runtime.ranks.beside import MeetingBeside
from blu.runtime.ranks.server import StoreServer, listen
from blu.runtime.ranks.store import Store
from blu.runtime.ranks.verdicts import Position
from blu.runtime.ranks.world import World

TOKEN = b"secret"


@contextmanager
def serving(size: int, timeout: float = 30.0) -> Iterator[StoreServer]:
    server = StoreServer(listen(("127.0.0.1", 0)), size, TOKEN, timeout)
    yield server
    server.close(0.0)


def in_parallel(size: int, do: Callable[[int], object]) -> list[object]:
    """What each rank returns or raises, in a thread of its own."""

    def caught(rank: int) -> object:
        try:
            return do(rank)
        except RankError as error:
            return error

    with ThreadPoolExecutor(size) as pool:
        return list(pool.map(caught, range(size)))


def wait_until(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not is_so() and time.monotonic() < end:
        time.sleep(0.005)


def with_stores(size: int, do: Callable[[Store], object], seconds: float = 10.0) -> list[object]:
    """What all ranks get from what they do with their stores; they leave when all have done it."""
    everybody = threading.Barrier(size)

    def run(rank: int) -> object:
        with Store(server.address, World(rank, size), TOKEN, seconds) as store:
            try:
                return do(store)
            finally:
                everybody.wait(20)
                store.leave()

    with serving(size) as server:
        return in_parallel(size, run)


def test_ranks_leave_each_other_values():
    def do(store: Store) -> object:
        rank = store.world.rank
        store.set(f"from {rank}", bytes([rank] * rank))
        return store.get(f"from {(rank + 1) % 4}"), store.broadcast("best", b"%d" % rank, root=2)

    assert with_stores(4, do) == [(bytes([(r + 1) % 4] * ((r + 1) % 4)), b"2") for r in range(4)]


def test_a_count_is_shared():
    counts = with_stores(4, lambda store: [store.add("tickets"), store.add("tickets", 10)][0])
    assert len(set(counts)) == 4  # type: ignore


def test_rounds_of_one_name_follow_each_other():
    values = [b"", b"\0" * 3, b"x" * 200_000, b"z"]

    def do(store: Store) -> object:
        store.barrier("start")
        first = store.gather("all", values[store.world.rank])
        return first, store.gather("all", b"again %d" % store.world.rank)

    assert with_stores(4, do) == [(values, [b"again %d" % rank for rank in range(4)])] * 4


def test_a_value_that_nobody_sets_is_missed_in_time():
    [error, _] = with_stores(2, lambda store: store.world.rank or store.get("x", 0.2))
    assert isinstance(error, RankError) and "nobody has set 'x' within 0.2 s" in str(error)


def test_who_does_not_come_to_a_round_is_named_and_where_it_is():
    both = threading.Barrier(2)

    def run(rank: int) -> object:
        with Store(server.address, World(rank, 3), TOKEN, 10.0) as store:
            if rank == 2:
                return store.get("the moon", 60.0)
            wait_until(lambda: "the moon" in server._members[2].asks)
            try:
                return store.gather("round a", b"", 0.3)
            finally:
                both.wait(20)
                store.set("the moon", b"")
                store.leave()

    with serving(3) as server:
        errors = in_parallel(3, run)[:2]
    for error in errors:
        assert "rank 2 of 3 did not come to round a within 0.3 s; rank 2 (" in str(error)
        assert "waits for 'the moon'" in str(error)


def test_ranks_that_never_connect_are_named():
    def run(index: int) -> object:
        if index == 0:
            wait_until(lambda: 2 in server._rounds.get("the start#1", {}))
        return Store(server.address, World(index * 2, 4), TOKEN, (0.4, 60.0)[index])

    with serving(4) as server:
        errors = in_parallel(2, run)
    for error in errors:
        assert isinstance(error, RankError)
        assert "ranks 1, 3 of 4 did not come to the start within" in str(error)
        assert "ranks 1, 3 never connected" in str(error)


def test_a_late_rank_is_waited_for():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = probe.getsockname()
    servers = []

    def join(rank: int) -> object:
        if rank == 0:
            time.sleep(0.3)
            servers.append(StoreServer(listen(address), 2, TOKEN, 30.0))
        with Store(address, World(rank, 2), TOKEN, 10.0):
            return rank

    assert in_parallel(2, join) == [0, 1]
    servers[0].close(0.0)


def test_nobody_listens():
    with pytest.raises(RankError, match=r"rank 1 of 2 found nobody at 127.0.0.1:1 within 0.2 s \(Connection refused\)"):
        Store(("127.0.0.1", 1), World(1, 2), TOKEN, 0.2)
    with pytest.raises(RankError, match=r"found nobody at no.such.host.invalid:5"):
        Store(("no.such.host.invalid", 5), World(1, 2), TOKEN, 0.1)


def test_a_port_that_is_taken():
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        with pytest.raises(RankError, match=f"port {other.getsockname()[1]} of 127.0.0.1, where .* is taken"):
            listen(other.getsockname())


def test_what_listens_is_no_store():
    """A server that greets in its own way, and one that says nothing."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()

        def answer() -> None:
            connection, _ = other.accept()
            connection.sendall(b"220 smtp.example.com ready for mail\r\n")
            connection.close()

        threading.Thread(target=answer, daemon=True).start()
        with pytest.raises(RankError, match="is not rank 0 of this run"):
            Store(other.getsockname(), World(1, 2), TOKEN, 5.0)


def test_a_rank_of_another_run_is_refused():
    with serving(1) as server:
        with pytest.raises(RankError, match=r"the token is another run's\n.*BLU_RANK_TOKEN"):
            Store(server.address, World(0, 1), b"other", 5.0)
        Store(server.address, World(0, 1), TOKEN, 5.0).close()


@pytest.mark.parametrize("rubbish", [b"GET / HTTP/1.1\r\n\r\n", b"\0\0\0\2\0\0\0\0[]", b"\xff" * 64, b""])
def test_a_stranger_is_refused_and_disturbs_nobody(rubbish: bytes):
    with serving(1) as server:
        with socket.create_connection(server.address) as stranger:
            stranger.sendall(rubbish)
            stranger.shutdown(socket.SHUT_WR)
            greeting, _ = frames.receive(stranger)
            assert greeting["blu"] == "store"
            assert stranger.recv(1) == b""
        with Store(server.address, World(0, 1), TOKEN, 5.0) as store:
            assert store.add("x") == 1


def test_ranks_that_disagree_about_their_number():
    with serving(2) as server:
        errors = in_parallel(2, lambda rank: Store(server.address, World(rank, 2 + rank), TOKEN, 5.0))
    for error in errors:
        assert isinstance(error, RankError)
        assert "says that there are 3 ranks, and rank 0 that there are 2" in str(error)


def test_two_processes_with_one_rank():
    start = time.monotonic()
    with serving(3) as server:
        errors = in_parallel(3, lambda index: Store(server.address, World(min(index, 1), 3), TOKEN, 20.0))
    assert time.monotonic() - start < 10
    for error in errors:
        assert isinstance(error, RankError) and "two processes have one rank" in str(error)


@pytest.mark.parametrize("world", [World(1, 2), World(2, 3)], ids=["same", "larger"])
def test_who_comes_when_all_are_there_ends_nobody(world: World):
    """Another run of the same user at the same port."""
    with serving(2) as server:

        def run(rank: int) -> object:
            with Store(server.address, World(rank, 2), TOKEN, 10.0) as store:
                if rank == 0:
                    with pytest.raises(RankError, match=r"all 2 ranks were there already(.|\n)*another port"):
                        Store(server.address, world, TOKEN, 5.0)
                store.barrier("refused")
                store.leave()
                return rank

        assert in_parallel(2, run) == [0, 1]


def test_a_rank_that_fails_frees_those_that_wait():
    def do(store: Store) -> object:
        if store.world.rank == 1:
            time.sleep(0.1)
            return store.fail("ValueError: no", Position(step=4))
        return store.get("what rank 1 would set", 20.0)

    for error in with_stores(3, do)[::2]:
        assert isinstance(error, RankLostError) and "failed in step 4: ValueError: no" in str(error)


def test_a_store_that_is_gone():
    with serving(1) as server:
        store = Store(server.address, World(0, 1), TOKEN, 5.0)
    with store, pytest.raises(RankLostError, match=r"rank 0, which keeps the store at 127.0.0.1:[0-9]+, is gone"):
        store.add("x")


SAME = b"first\nsecond\nthird"
# What four ranks have, and what is said if that differs.
VALUES = [
    ([SAME] * 4, ""),
    (
        [SAME, SAME, b"first\nzweite\nthird", SAME],
        "rank 2 of 4 has another plan, from line 2 on:\n  ranks 0, 1, 3: second\n  rank 2: zweite",
    ),
    (
        [SAME, SAME, SAME + b"\nfourth", SAME],
        "rank 2 of 4 has another plan, from line 4 on:\n  ranks 0, 1, 3: (nothing)\n  rank 2: fourth",
    ),
    ([b"1", b"2", b"2", b"2"], "rank 0 of 4 has another plan:\n  ranks 1, 2, 3: 2\n  rank 0: 1"),
    ([b"1", b"1", b"2", b"3"], "ranks 2, 3 of 4 have another plan:\n  ranks 0, 1: 1\n  rank 2: 2"),
    ([b"", b"", b"", b"\xff\xfe"], "rank 3 of 4 has another plan:\n  ranks 0, 1, 2: \n  rank 3: 2 bytes, fffe..."),
]


@pytest.mark.parametrize("values, message", VALUES)
def test_ranks_compare_what_they_have(values: list[bytes], message: str):
    for result in with_stores(4, lambda store: agree(store, "plan", values[store.world.rank])):
        assert (result is None) if not message else str(result) == message


def test_rounds_that_all_have_read_are_forgotten():
    """A run of days meets at each checkpoint: what the store keeps must not grow with their number."""
    sizes = []

    def do(store: Store) -> None:
        rank = store.world.rank
        meeting = MeetingBeside(rank, 3, store)
        for number in range(5):
            assert meeting.gathered("saved", b"%d" % rank) == [b"0", b"1", b"2"]
            assert store.gather("bits", bytes([rank])) == [b"\0", b"\1", b"\2"]
            store.barrier(f"read {number}")
            sizes.append(server.kept)
            store.barrier(f"measured {number}")

    def run(rank: int) -> object:
        with Store(server.address, World(rank, 3), TOKEN, 10.0) as store:
            found = do(store)
            store.leave()
            return found

    with serving(3) as server:
        assert in_parallel(3, run) == [None] * 3
    assert max(sizes) <= 9 and len(sizes) == 15, sizes


def test_what_all_ranks_were_told_is_forgotten():
    """Who tells waits for nobody; each round is kept until the last rank has read it, and no longer."""
    rounds = 5

    def run(rank: int) -> object:
        with Store(server.address, World(rank, 3), TOKEN, 10.0) as store:
            if rank == 1:
                for number in range(rounds):
                    store.broadcast("place", b"%d" % number, root=1)
                assert server.kept >= rounds, "others have not asked yet"
            store.barrier("told")
            if rank != 1:
                assert [store.broadcast("place", root=1) for _ in range(rounds)] == [b"%d" % i for i in range(rounds)]
            store.barrier("read")
            kept = server.kept
            store.barrier("measured")
            store.leave()
            return kept

    with serving(3) as server:
        kept = in_parallel(3, run)
    assert all(isinstance(number, int) and number <= 2 for number in kept), f"{kept}, of which two may be barriers"


def test_who_is_alone_tells_nobody():
    with serving(1) as server, Store(server.address, World(0, 1), TOKEN, 5.0) as store:
        assert store.broadcast("place", b"here") == b"here"
        store.set("kept", b"until it is dropped")
        assert [store.get("kept") for _ in range(3)] == [b"until it is dropped"] * 3
        assert server.kept == 1
        store.drop("kept")
        assert server.kept == 0
