"""The check for races in the interpreter of PTX: it refuses them, and nothing that barriers keep apart."""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np
import pytest

from tests.support.ptx import machine as ptx_machine
from tests.support.ptx.races import RaceError, Races

KERNEL = """
.visible .entry kernel(.param .u64 kernel_param_0)
.reqntid {threads}
{{
ld.param.b64 %rd1, [kernel_param_0];
mov.u32 %r1, %tid.x;
shl.b32 %r2, %r1, 2;
shr.u32 %r3, %r1, 5;
setp.eq.u32 %p0, %r3, 0;
setp.eq.u32 %p1, %r3, 1;
setp.eq.u32 %p2, %r3, 2;
xor.b32 %r4, %r2, 128;
mul.wide.u32 %rd2, %r1, 4;
add.s64 %rd3, %rd1, %rd2;
{body}
ret;
}}
"""


def run(body: str, threads: int = 64) -> np.ndarray:
    """Run instructions where %r2 is four times the thread, %r4 the same of another warp, %rd3 the thread's number in
    memory, %p0 to %p2 whether it is in the warp; what they leave in memory, which was 0, 1, 2 .. before."""
    memory = np.arange(threads, dtype=np.int32)
    lines = "\n".join(line.strip() for line in body.splitlines())
    ptx_machine.run(KERNEL.format(threads=threads, body=lines), [1], [memory], shared_bytes=4 * threads)
    return memory


STORE, LOAD_OTHER, LOAD = "st.shared.b32 [%r2], %r1;", "ld.shared.b32 %r5, [%r4];", "ld.shared.b32 %r5, [%r2];"
COPY, ARRIVED = "cp.async.ca.shared.global [%r2], [%rd3], 4;", "cp.async.wait_all;"
SYNC, LANES = "bar.sync 0;", "bar.warp.sync -1;"
NEXT, LOAD_NEXT = "xor.b32 %r6, %r2, 4;", "ld.shared.b32 %r5, [%r6];"
MATRICES = "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r7, %r8, %r9, %r10}, [%r6];"

RACES = {
    "a read of what another warp wrote": (STORE, LOAD_OTHER),
    "a write over what another warp wrote": (STORE, "st.shared.b32 [%r4], %r1;"),
    "a write over what another warp has read": (STORE, SYNC, LOAD_OTHER, STORE),
    "two warps that write at a time": ("mov.u32 %r6, 0;", "st.shared.b32 [%r6], %r1;"),
    "a barrier of the warp only": (STORE, "bar.warp.sync -1;", LOAD_OTHER),
    "a read of what another lane wrote": (STORE, NEXT, LOAD_NEXT),
    "a write over what another lane has read": (NEXT, LOAD_NEXT, STORE),
    "two lanes that write at a time": ("shl.b32 %r6, %r3, 7;", "st.shared.b32 [%r6], %r1;"),
    "lanes that share a matrix": (STORE, "and.b32 %r6, %r2, 240;", MATRICES),
    "a copy that is read": (COPY, LOAD),
    "a copy that is written over": (COPY, STORE),
    "a copy that another copy follows": (COPY, COPY),
    "a copy with a barrier only": (COPY, SYNC, LOAD),
    "a copy waited for, without a barrier": (COPY, ARRIVED, LOAD_OTHER),
    "a copy waited for after the barrier": (COPY, SYNC, ARRIVED, LOAD_OTHER),
    "a copy in a group that may be late": (COPY, "cp.async.commit_group;", "cp.async.wait_group 1;", LOAD),
    "a copy in no group": (COPY, "cp.async.wait_group 0;", LOAD),
    "a copy that only another warp waited for": (COPY, "@%p0 bra $over;", ARRIVED, "$over:", SYNC, LOAD_OTHER),
}

ORDERED = {
    "a barrier": (STORE, SYNC, LOAD_OTHER),
    "a barrier before and after": (STORE, SYNC, LOAD_OTHER, SYNC, STORE),
    "a barrier of the warp": (STORE, LANES, NEXT, LOAD_NEXT, LANES, STORE),
    "what the warp has read before": (NEXT, LOAD_NEXT, LANES, LOAD, STORE),
    "lanes that share a matrix after a barrier": (STORE, LANES, "and.b32 %r6, %r2, 240;", MATRICES),
    "lanes that write the same": ("shl.b32 %r6, %r3, 7;", "st.shared.b32 [%r6], %r3;"),
    "one's own": (STORE, LOAD, STORE),
    "reads by several": (SYNC, LOAD, LOAD_OTHER, SYNC, STORE),
    "a copy waited for": (COPY, ARRIVED, SYNC, LOAD_OTHER),
    "a group waited for": (COPY, "cp.async.commit_group;", "cp.async.wait_group 0;", LOAD),
    "a barrier with a name": (STORE, "bar.sync 3, 64;", LOAD_OTHER),
}


@pytest.mark.parametrize("body", RACES.values(), ids=list(RACES))
def test_races_are_refused(body: tuple[str, ...]) -> None:
    with pytest.raises(RaceError, match=r"\(line \d+\): (warp \d .* of block 0|lanes write what is not the same)"):
        run("\n".join(body))


@pytest.mark.parametrize("body", ORDERED.values(), ids=list(ORDERED))
def test_what_is_in_order_is_not(body: tuple[str, ...]) -> None:
    run("\n".join(body))


@pytest.mark.parametrize("bystander", [False, True])
def test_a_barrier_of_two_warps_is_none_for_the_third(bystander: bool) -> None:
    """Warps 0 and 1 exchange numbers; warp 2, which was not at their barrier, reads or does not."""
    reads = "@%p2 ld.shared.b32 %r5, [%r6];" if bystander else ""
    body = f"""
        mov.u32 %r6, 0;
        @%p2 bra $over;
        st.shared.b32 [%r2], %r1;
        bar.sync 1, 64;
        ld.shared.b32 %r5, [%r4];
        st.global.b32 [%rd3], %r5;
        $over:
        {reads}
    """
    if bystander:
        with pytest.raises(RaceError, match="another warp has written"):
            run(body, threads=96)
    else:
        assert list(run(body, threads=96)) == [*range(32, 64), *range(32), *range(64, 96)]


@pytest.mark.parametrize("told", [False, True])
def test_who_arrives_at_a_barrier_tells_and_does_not_hear(told: bool) -> None:
    """Warp 0 writes and arrives; warp 1 waits for it and reads. What warp 1 wrote before, warp 0 may not read."""
    body = f"""
        @%p1 bra $waits;
        st.shared.b32 [%r2], %r1;
        bar.arrive 2, 64;
        {"" if told else LOAD_OTHER}
        bra $over;
        $waits:
        st.shared.b32 [%r2], %r1;
        bar.sync 2, 64;
        ld.shared.b32 %r5, [%r4];
        st.global.b32 [%rd3], %r5;
        $over:
        bar.sync 0;
    """
    if told:
        assert list(run(body)) == [*range(32), *range(32)]
    else:
        with pytest.raises(RaceError):
            run(body)


def test_what_a_barrier_in_memory_counts_is_seen_by_those_who_wait_for_it() -> None:
    """Two blocks of one warp: the second sends to the first, which may read it once it has seen the phase's end."""
    races, place, barrier = Races(threads=32, blocks=2, shared_bytes=64), np.array([[0, 1, 2, 3]]), 8
    races.meet(np.arange(64))
    races.tell(np.array([32]), barrier)
    races.begin_copy(place, np.array([32]))
    with pytest.raises(RaceError, match="on its way"):
        races.read(place, np.array([0]))
    races.end_counted_copy(place, barrier)
    races.end_phase(barrier)
    assert races.unseen_copies() == 4
    with pytest.raises(RaceError, match="no barrier since"):
        races.read(place, np.array([0]))
    races.hear(np.array([0]), barrier)
    races.read(place, np.array([0]))
    assert races.unseen_copies() == 0
    with pytest.raises(RaceError, match="no barrier since"):  # the sender does not know that it was read
        races.begin_copy(place, np.array([32]))


@pytest.mark.parametrize("meets", [False, True])
def test_a_lane_that_arrives_at_a_barrier_in_memory_speaks_for_itself(meets: bool) -> None:
    """Both lanes of a warp read; one of them tells the other warp, which writes there."""
    races, places, barrier = Races(threads=64, blocks=1, shared_bytes=64), np.array([[0, 1, 2, 3], [4, 5, 6, 7]]), 8
    races.read(places, np.array([0, 1]))
    if meets:
        races.meet_lanes(np.arange(32))
    races.tell(np.array([0]), barrier)
    races.end_phase(barrier)
    races.hear(np.array([32]), barrier)
    races.write(places[:1], np.array([32]))
    if meets:
        races.write(places[1:], np.array([32]))
    else:
        with pytest.raises(RaceError, match="another warp has read with no barrier since"):
            races.write(places[1:], np.array([32]))


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("barrier.cluster.wait.acquire.aligned;", "wait where they have not arrived"),
        ("barrier.cluster.arrive.aligned;\nbarrier.cluster.arrive.aligned;", "arrive twice before they wait"),
        (2 * "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\n", ""),
    ],
)
def test_blocks_of_a_cluster_wait_once_for_what_they_have_arrived_at(body: str, message: str) -> None:
    with pytest.raises(AssertionError, match=message) if message else nullcontext():
        run(body)
