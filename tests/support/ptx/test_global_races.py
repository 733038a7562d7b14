"""The check for races in global memory, in the interpreter of PTX: it refuses them, and nothing that is in order."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.ptx import machine as ptx_machine
from tests.support.ptx.global_races import GlobalRaces
from tests.support.ptx.launch_order import LaunchOrder, OrderError
from tests.support.ptx.races import RaceError

KERNEL = """
.visible .entry kernel(.param .u64 kernel_param_0, .param .u64 kernel_param_1)
.reqntid 64
{cluster}
{{
ld.param.b64 %rd1, [kernel_param_0];
ld.param.b64 %rd2, [kernel_param_1];
mov.u32 %r1, %tid.x;
mov.u32 %r2, %ctaid.x;
shl.b32 %r3, %r2, 6;
add.s32 %r4, %r3, %r1;
mul.wide.u32 %rd3, %r4, 4;
add.s64 %rd4, %rd1, %rd3;
xor.b32 %r5, %r4, 64;
mul.wide.u32 %rd5, %r5, 4;
add.s64 %rd6, %rd1, %rd5;
xor.b32 %r6, %r4, 32;
mul.wide.u32 %rd7, %r6, 4;
add.s64 %rd8, %rd1, %rd7;
mul.wide.u32 %rd9, %r1, 4;
add.s64 %rd10, %rd1, %rd9;
add.s64 %rd11, %rd2, %rd3;
{body}
ret;
}}
"""
# Of two blocks of two warps: a thread's own number, that of another block or warp, and one for both blocks.
STORE, LOAD = "st.global.b32 [%rd4], %r4;", "ld.global.b32 %r7, [%rd4];"
OF_BLOCK, OF_WARP, TO_BOTH = "ld.global.b32 %r7, [%rd6];", "ld.global.b32 %r7, [%rd8];", "st.global.b32 [%rd10], %r4;"
CONSTANT, SYNC = "ld.global.nc.b32 %r7, [%rd4];", "bar.sync 0;"
ARRIVE, AWAIT = "barrier.cluster.arrive.aligned;", "barrier.cluster.wait.aligned;"
PASS_ON = "st.global.b32 [%rd11], %r7;"
COPY, OTHER = "cp.async.ca.shared.global [%r8], [%rd6], 4;", "st.global.b32 [%rd11], %r4;"


def run(*body: str, cluster: int = 1) -> None:
    """Run two blocks, which write to one array of 128 numbers or to another."""
    lines = "mov.u32 %r8, 0;\nsetp.eq.u32 %p0, %r4, 1000;\n" + "\n".join(body)
    text = KERNEL.format(cluster=f".reqnctapercluster {cluster}" if cluster > 1 else "", body=lines)
    arrays = [np.zeros(128, np.int32) for _ in range(2)]
    ptx_machine.run(text, [2], arrays, shared_bytes=16)


RACES = {
    "two blocks that write": (TO_BOTH,),
    "a read of what another block wrote": (STORE, OF_BLOCK, PASS_ON),
    "a barrier of each block": (STORE, SYNC, OF_BLOCK, PASS_ON),
    "a write over what another block reads": (OF_BLOCK, PASS_ON, STORE),
    "a read of what another warp wrote": (STORE, OF_WARP, PASS_ON),
    "a write over what another warp has read": (OF_WARP, PASS_ON, STORE),
    "a barrier of the warp only": (STORE, "bar.warp.sync -1;", OF_WARP, PASS_ON),
    "constants that are written": (CONSTANT, SYNC, STORE),
    "what was written as a constant": (STORE, SYNC, CONSTANT),
}
IN_CLUSTERS = {
    "a cluster without a barrier": (STORE, OF_BLOCK, PASS_ON),
    "an arrival only": (STORE, ARRIVE, OF_BLOCK, AWAIT, PASS_ON),
    "a write after the arrival": (ARRIVE, STORE, AWAIT, OF_BLOCK, PASS_ON),
}
ORDERED = {
    "one's own": (LOAD, STORE, LOAD),
    "a barrier": (STORE, SYNC, OF_WARP, PASS_ON),
    "a barrier between a read and a write": (OF_WARP, SYNC, PASS_ON, STORE),
    "what is not made use of": (STORE, OF_BLOCK, OF_WARP, "selp.b32 %r7, %r7, 0, %p0;", PASS_ON),
    "reads by all": (LOAD, OF_BLOCK, OF_WARP),
    "another array": (OF_BLOCK, CONSTANT, OTHER),
}


@pytest.mark.parametrize("body", RACES.values(), ids=list(RACES))
def test_races_are_refused(body: tuple[str, ...]) -> None:
    with pytest.raises(RaceError, match=r"\(line \d+\): thread \d+ of block [01] .* of argument 0, which"):
        run(*body)


@pytest.mark.parametrize("body", IN_CLUSTERS.values(), ids=list(IN_CLUSTERS))
def test_clusters_meet_at_their_barrier_only(body: tuple[str, ...]) -> None:
    with pytest.raises(RaceError, match="another thread has written"):
        run(*body, cluster=2)


@pytest.mark.parametrize("body", ORDERED.values(), ids=list(ORDERED))
def test_what_is_in_order_is_not(body: tuple[str, ...]) -> None:
    run(*body)


def test_blocks_of_a_cluster_see_what_was_written_before_the_barrier() -> None:
    run(STORE, ARRIVE, AWAIT, OF_BLOCK, PASS_ON, cluster=2)


def test_copies_read_what_they_copy() -> None:
    with pytest.raises(RaceError, match="another thread has read"):
        run("setp.eq.u32 %p0, %r1, 0;", "@%p0 " + COPY, STORE)


def test_arrays_that_overlap_are_one() -> None:
    """The second argument is the first one's, from the second block's numbers on."""
    text, array = KERNEL.format(cluster="", body=f"{LOAD}\n{PASS_ON}"), np.zeros(192, np.int32)
    parts = [array[:128], array[64:]]
    with pytest.raises(RaceError, match="which another thread has"):
        ptx_machine.run(text, [2], [part.copy() for part in parts], watch=watch_of(*parts))
    ptx_machine.run(text, [2], [part.copy() for part in parts], watch=watch_of(array[:128], np.zeros(128, np.int32)))


def watch_of(*arrays: np.ndarray) -> GlobalRaces:
    return GlobalRaces([array.ctypes.data for array in arrays])


WAIT, BEGIN = "griddepcontrol.wait;", "griddepcontrol.launch_dependents;"
WAITS = (WAIT, BEGIN)
NUMBERS = np.zeros(400, np.int32)
A, B, C = NUMBERS[:128], NUMBERS[128:256], NUMBERS[256:384]
NEAR_A = NUMBERS[64:192]
"""Memory of A used again, in part."""


def enqueue(
    *launches: tuple[tuple[str, ...], np.ndarray, np.ndarray], are_early: bool = True, first_is: bool = False
) -> None:
    """Launches of two blocks: what they do, and the two arrays that it is done with."""
    order = LaunchOrder()
    for number, (body, *arrays) in enumerate(launches):
        watch, text = watch_of(*arrays), KERNEL.format(cluster="", body="\n".join(body))
        ptx_machine.run(text, [2], [array.copy() for array in arrays], watch=watch)
        order.add(f"launch {number}", are_early and (number > 0 or first_is), watch)


WRITES, READS_FIRST, WRITES_FIRST = (*WAITS, STORE), (LOAD, *WAITS, OTHER), (STORE, *WAITS)
BEGINS_FIRST, ENDS_FIRST = (BEGIN, WAIT, STORE), (BEGIN,)
REFUSED = {
    "a read too early": [(WRITES, A, B), (READS_FIRST, A, C)],
    "a write too early": [(WRITES, A, B), (WRITES_FIRST, A, C)],
    "a write over what is read": [((*WAITS, LOAD, OTHER), A, B), (WRITES_FIRST, A, C)],
    "no wait": [(WRITES, A, B), ((LOAD, OTHER), A, C)],
    "memory used again": [(WRITES, NEAR_A, C), (READS_FIRST, A, B)],
    "a wait of one block": [(WRITES, A, B), (("setp.eq.u32 %p0, %r2, 0;", f"@%p0 {WAIT}", LOAD), A, C)],
    "three beside each other": [(WRITES, A, B), (BEGINS_FIRST, B, C), (READS_FIRST, A, C)],
    "four beside each other": [(WRITES, A, B), (BEGINS_FIRST, B, C), (BEGINS_FIRST, C, B), (READS_FIRST, A, C)],
    "one that is over first": [(WRITES, A, B), ((BEGIN,), B, C), ((*WAITS, LOAD), A, C)],
    "one that lets none begin, and does not wait": [(WRITES, A, B), ((), B, C), ((*WAITS, LOAD), A, C)],
}
TAKEN = {
    "reads after the wait": [(WRITES, A, B), ((*WAITS, LOAD, OTHER), A, C)],
    "other memory": [(WRITES, B, C), (READS_FIRST, A, C)],
    "what was written before": [(WRITES, A, B), (WRITES, B, C), (READS_FIRST, A, C)],
    "reads of both": [((*WAITS, LOAD), A, B), (READS_FIRST, A, C)],
    "one that lets the next begin first": [(WRITES, A, B), (BEGINS_FIRST, B, C), ((*WAITS, LOAD), A, C)],
    "one that lets none begin": [(WRITES, A, B), ((WAIT, OTHER), B, C), (READS_FIRST, A, B)],
}


@pytest.mark.parametrize("launches", REFUSED.values(), ids=list(REFUSED))
def test_what_is_done_before_others_are_over_is_refused(launches: list) -> None:
    with pytest.raises(OrderError, match=r"launch \d (reads|writes) \d+ bytes .* that launch 0, which may run"):
        enqueue(*launches)
    enqueue(*launches, are_early=False)


@pytest.mark.parametrize("launches", TAKEN.values(), ids=list(TAKEN))
def test_launches_in_order_are_not(launches: list) -> None:
    enqueue(*launches)


@pytest.mark.parametrize("body", [READS_FIRST, WRITES_FIRST, (LOAD, OTHER), (BEGIN, OTHER), ()])
def test_a_program_that_begins_early_waits_for_what_is_not_known(body: tuple[str, ...]) -> None:
    enqueue((body, A, B))
    with pytest.raises(OrderError, match="launch 0 does not wait for what came before the program"):
        enqueue((body, A, B), first_is=True)
    enqueue(((*WAITS, LOAD, OTHER), A, B), ((*WAITS, STORE), A, B), first_is=True)
