"""Which threads of the interpreter of PTX run next, what they wait for, and who waits on what when nobody can go on.

The threads that stand first in the program run, all together and straight on until they branch or meet others, which
brings threads together again after a branch. Threads that wait are passed over: for the rest of their warp or
warpgroup, for others at a barrier, for the phase of a barrier in shared memory, or for registers. Bulk copies arrive
when nobody can go on without them: as late as they may.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from tests.support.ptx.arithmetic import Arithmetic, Run, decode
from tests.support.ptx.barriers import CountingBarrier, NamedBarriers, keys_of, name_of
from tests.support.ptx.global_races import GlobalRaces
from tests.support.ptx.program import Instruction
from tests.support.ptx.races import RaceError, Races
from tests.support.ptx.registers import WARPGROUP, Lanes

_REGISTERS = 1 << 16
"""Of a multiprocessor; a kernel of so many threads gets an equal share of them for each, in units of 8."""


class DeadlockError(AssertionError):
    """Threads wait for what will never be."""


@dataclass(kw_only=True)
class Schedule(Arithmetic):
    """The threads of blocks side by side, `place` being the instruction that each one comes to next."""

    place: np.ndarray = field(init=False)
    rank: np.ndarray = field(init=False)
    races: Races = field(init=False)
    watch: GlobalRaces
    named: NamedBarriers = field(init=False)
    # By place in shared memory.
    barriers: dict[int, CountingBarrier] = field(default_factory=dict)
    # Bulk copies under way, in order: each gives its bytes to a barrier.
    transfers: list[Callable[[], None]] = field(default_factory=list)
    # How many threads wait at a place, while nothing has happened that they could wait for.
    asleep: dict[int, int] = field(default_factory=dict)
    # Registers that the blocks' threads have given back.
    spare: dict[int, int] = field(default_factory=dict)
    own_registers: np.ndarray = field(init=False)
    # Where the barriers are that threads have last asked for.
    asked_at: np.ndarray = field(init=False)
    # Whether the blocks of the cluster have waited for each other, and with that for barriers that others count by.
    have_met: bool = False
    # Whether they have arrived where they are to wait for each other.
    have_arrived: bool = False

    @abstractmethod
    def _first_places(
        self, space: str, address: np.ndarray, size: int, active: np.ndarray, unit: int = 0
    ) -> np.ndarray:
        """The index of the first byte in a space for each thread."""

    @abstractmethod
    def _address(self, operand: str, bits: int) -> np.ndarray:
        """The address that an operand in brackets names."""

    @abstractmethod
    def _check_registers(self, item: Instruction, lanes: Lanes) -> None:
        """Refuse what an instruction does with registers of asynchronous products that are under way."""

    @property
    def end(self) -> int:
        """Where threads stand that have returned."""
        return len(self.program.instructions)

    def begin(self) -> None:
        """All threads of all blocks stand at the first instruction."""
        self.place = np.zeros(self.threads, np.int64)
        self.rank = np.arange(self.threads) // self.program.threads
        self.own_registers = np.full(self.threads, _REGISTERS // self.program.threads // 8 * 8)

    def step(self, place: int) -> None:
        """Let the first threads that can run, from those at a place on, go on as far as they get by themselves."""
        while place < self.end:
            lanes = self.team.of(self.place == place)
            beyond = self._first_beyond(place, lanes)
            ready = self._awake(place, lanes) if self.program.is_collective[place] else lanes
            if ready is not None:
                self._go(place, beyond, ready)
                return
            place = beyond
        if not self.transfers:
            raise DeadlockError("threads wait for each other forever:\n" + "\n".join(self._waiting()))
        self.transfers.pop(0)()
        self.asleep.clear()

    def _first_beyond(self, place: int, lanes: Lanes) -> int:
        """The first instruction after a place at which threads stand, all those at the place being `lanes`."""
        if lanes.are_all:
            return self.end
        return int(np.minimum.reduce(np.where(self.place > place, self.place, self.end)))

    def _awake(self, place: int, lanes: Lanes) -> Lanes | None:
        """Those of the threads at a place that may go on; None if nobody may."""
        if self.asleep.get(place) == lanes.count:
            return None
        ready = self._ready(self.program.instructions[place], lanes)
        if ready.count:
            return ready
        self.asleep[place] = lanes.count
        return None

    def _go(self, place: int, limit: int, lanes: Lanes) -> None:
        """Run instructions up to a branch, to what others may wait for, or to where other threads stand."""
        last = min(self.program.stops[place], limit)
        *items, item = self.program.instructions[place:last]
        for before in items:
            run = before.run or self._decode(before)
            if before.is_plain:
                run(self, lanes, before)
            else:
                self._execute_guarded(before, lanes)
        self._stand(last, lanes)
        self._execute_guarded(item, lanes)

    def _stand(self, place: int, lanes: Lanes) -> None:
        """Some threads stand at a place now."""
        if lanes.are_all:
            self.place.fill(place)
        else:
            self.place[lanes.active] = place

    def _execute_guarded(self, item: Instruction, lanes: Lanes) -> None:
        if not item.guard:
            self._execute(item, lanes)
            return
        is_met = self._read(item.guard, 1)
        some = self.team.of(lanes.active & (~is_met if item.negated else is_met))
        if some.count:
            self._execute(item, some)

    def _execute(self, item: Instruction, lanes: Lanes) -> None:
        run = item.run or self._decode(item)
        if item.is_watched:
            self._check_registers(item, lanes)
        self.watch.line = item.line
        try:
            run(self, lanes, item)
        except RaceError as error:
            raise RaceError(f"{item.name} (line {item.line}): {error}") from None

    def _decode(self, item: Instruction) -> Run:
        only_computes, watched = decode(item), self.program.of_products
        item.is_watched = bool(watched) and item.parts[0] != "wgmma" and not watched.isdisjoint(item.names)
        if item.is_watched and item.parts[0] != "st":
            item.of_products = watched.intersection(item.targets)
        item.is_plain = only_computes and not item.guard and not item.is_watched
        assert item.run
        return item.run

    # -- who is ready ------------------------------------------------------------------------------------------------

    def _ready(self, instruction: Instruction, lanes: Lanes) -> Lanes:
        """Those of the threads at an instruction that need not wait for anything more."""
        name, active, team = instruction.name, lanes.active, self.team
        if name.startswith("mbarrier.try_wait"):
            return team.of(self._is_over(instruction.operands, active) & active)
        if name.startswith("barrier.cluster"):
            return lanes if lanes.are_all else team.of(np.zeros_like(active))
        if name.startswith("setmaxnreg.inc"):
            return team.of(lanes.of_whole_groups.active & self._has_spare(instruction, active))
        if _meets(instruction):
            return team.of(self.named.ready(*self._named(instruction.operands), active))
        return lanes.of_whole_groups if name.startswith(("wgmma", "setmaxnreg")) else lanes.of_whole_warps

    def _has_spare(self, instruction: Instruction, active: np.ndarray) -> np.ndarray:
        """Threads that there are registers for, in the order of their numbers."""
        wanted, result = int(instruction.operands[0]), np.zeros(self.threads, np.bool_)
        for first in range(0, self.threads, WARPGROUP):
            group = slice(first, first + WARPGROUP)
            more = (wanted - int(self.own_registers[first])) * WARPGROUP
            if active[first] and more <= self.spare.get(int(self.rank[first]), 0):
                result[group] = True
                break  # another one asks again
        return result

    def _named(self, operands: tuple) -> tuple[np.ndarray, np.ndarray]:
        """For each thread the barrier that these operands name, and for how many threads it is."""
        count = self._read(operands[1], 32) if len(operands) > 1 else np.full(self.threads, self.program.threads)
        return keys_of(self.rank, self._read(operands[0], 32)), count

    def _is_over(self, operands: tuple, active: np.ndarray) -> np.ndarray:
        """Whether the phase that a thread asks for is over. Places of barriers are kept for those that go on."""
        parity = self._read(operands[2], 32)
        places, over = self._barrier_places(operands[1], active), np.zeros(self.threads, np.bool_)
        self.asked_at = places
        for place, here in _by_place(places, active):
            over[here] = self._barrier(place).phase % 2 != parity[here]
        return over

    def _barrier_places(self, operand: str, active: np.ndarray, space: str = "shared") -> np.ndarray:
        return self._first_places(space, self._address(operand, 32), 8, active)

    def _barrier(self, place: int) -> CountingBarrier:
        assert place in self.barriers, f"there is no barrier at {place} of shared memory"
        return self.barriers[place]

    # -- instructions that others wait for ---------------------------------------------------------------------------

    def _do_bra(self, parts: list[str], operands: tuple, active: np.ndarray) -> None:
        self._stand(self.program.labels[operands[0]], self._asked(active))

    def _do_ret(self, parts: list[str], operands: tuple, active: np.ndarray) -> None:
        self._stand(self.end, self._asked(active))

    def _do_bar(self, parts: list[str], operands: tuple, active: np.ndarray) -> None:
        self.asleep.clear()
        if parts[1] == "sync":
            self.named.sync(self._named(operands)[0], active)
        elif parts[1] == "arrive":
            self.named.arrive(self._named(operands)[0], active)
        elif parts[1] == "warp":
            self.races.meet_lanes(np.flatnonzero(active))
        elif parts[1:3] == ["cluster", "arrive"]:
            assert not self.have_arrived, "the blocks of a cluster arrive twice before they wait"
            self.have_arrived = True
            if "relaxed" not in parts:
                self.races.leave_word()
        else:
            assert parts[1:3] == ["cluster", "wait"], parts
            assert self.have_arrived, "the blocks of a cluster wait where they have not arrived"
            self.have_arrived, self.have_met = False, True
            self.races.take_word()

    _do_barrier = _do_bar

    def _do_griddepcontrol(self, parts: list[str], operands: tuple, active: np.ndarray) -> None:
        """Other kernels are over, or have not begun: what may be done before that is checked apart."""
        if parts[1] == "wait":
            self.watch.wait(active)
        else:
            self.watch.let_begin(active)

    def _do_fence(self, parts: list[str], operands: tuple, active: np.ndarray) -> None:
        """All threads see what others did at once; bulk copies do from here on."""
        if parts[1:3] == ["proxy", "async"]:
            self.races.show(np.flatnonzero(active))

    def _do_mbarrier(self, parts: list[str], operands: tuple, active: np.ndarray) -> None:
        assert parts[1] in ("init", "arrive", "try_wait"), f"the machine does not know {'.'.join(parts)}"
        if parts[1] == "try_wait":  # by threads for which `_is_over` has just found that it is
            for barrier, here in _by_place(self.asked_at, active):
                self.races.hear(np.flatnonzero(here), barrier)
            self._write(operands[0], np.ones(self.threads, np.bool_), active)
            return
        place, more = (0, operands[1:]) if parts[1] == "init" else (1, operands[2:])
        places = self._barrier_places(operands[place], active)
        self.asleep.clear()
        numbers = self._read(more[0], 32) if more else np.ones(self.threads, np.int64)
        for barrier, some in _by_place(places, active):
            here = np.flatnonzero(some)
            if parts[1] == "init":
                number = int(numbers[here[-1]])
                self.barriers[barrier] = CountingBarrier(number, partial(self.races.end_phase, barrier))
            elif "expect_tx" in parts:
                for thread in here:
                    self._arrive(here[here == thread], barrier, announced=int(numbers[thread]))
            else:
                self._arrive_some(here, barrier, numbers)

    def _arrive_some(self, threads: np.ndarray, barrier: int, numbers: np.ndarray) -> None:
        """Threads arrive in turn, together as far as that ends no phase before the last of them has come."""
        total, found = int(numbers[threads].sum()), self._barrier(barrier)
        if found.arrived + total <= found.arrivals:
            self._arrive(threads, barrier, count=total)
            return
        for thread in threads:
            self._arrive(threads[threads == thread], barrier, count=int(numbers[thread]))

    def _arrive(self, threads: np.ndarray, barrier: int, **counts: int) -> None:
        self.races.tell(threads, barrier)
        self._barrier(barrier).arrive(**counts)

    def _do_setmaxnreg(self, parts: list[str], operands: tuple, active: np.ndarray) -> None:
        """Registers go from one warpgroup to another."""
        self.asleep.clear()
        for first in np.flatnonzero(active)[::WARPGROUP]:
            more = int(operands[0]) - int(self.own_registers[first])
            assert more >= 0 or parts[1] == "dec", f"a warpgroup gives back {-more} registers by {'.'.join(parts)}"
            block = int(self.rank[first])
            self.spare[block] = self.spare.get(block, 0) - more * WARPGROUP
            self.own_registers[first : first + WARPGROUP] += more

    # -- who waits on what -------------------------------------------------------------------------------------------

    def _waiting(self) -> Iterator[str]:
        """A line for each place where threads wait."""
        for place in np.unique(self.place[self.place < self.end]):
            instruction, active = self.program.instructions[place], self.place == place
            for reason, some in self._reasons(instruction, active):
                yield f"  {_ranges(some)} at line {instruction.line}, {instruction.name}: {reason}"

    def _reasons(self, instruction: Instruction, active: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
        if instruction.name.startswith("mbarrier.try_wait"):
            _, address, asked = instruction.operands
            places, parity = self._barrier_places(address, active), self._read(asked, 32)
            for place in np.unique(places[active]):
                found, here = self._barrier(place), active & (places == place)
                wanted = f"phase {parity[here][0]} of the barrier at {place}, which has seen {found.phase} phases, "
                seen = f"{found.arrived} of {found.arrivals} arrivals, and misses {found.awaited_bytes} bytes"
                yield wanted + seen, here
        elif _meets(instruction):
            keys, counts = self._named(instruction.operands)
            for key in map(int, np.unique(keys[active])):
                here = active & (keys == key)
                come = int(here.sum()) + self.named.arrived.get(key, 0)
                yield f"barrier {name_of(key)}, to which {come} of {counts[here][0]} threads have come", here
        elif instruction.name.startswith("setmaxnreg"):
            yield f"{instruction.operands[0]} registers a thread, and {self.spare} are spare", active
        else:
            yield "the rest of the warp, warpgroup or cluster", active


def _by_place(places: np.ndarray, active: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    """Each place that active threads have, the least one first, and who has it."""
    asked = places[active]
    if np.count_nonzero(asked == asked[:1]) == len(asked):
        yield int(asked[0]), active
        return
    for place in map(int, np.unique(asked)):
        yield place, active & (places == place)


def _meets(instruction: Instruction) -> bool:
    """Whether threads wait for others at a named barrier."""
    return instruction.name.startswith(("bar.sync", "barrier.sync"))


def _ranges(active: np.ndarray) -> str:
    """Threads as text: 0-31, 64."""
    numbers = np.flatnonzero(active)
    runs = np.split(numbers, np.flatnonzero(np.diff(numbers) != 1) + 1)
    return "threads " + ", ".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)
