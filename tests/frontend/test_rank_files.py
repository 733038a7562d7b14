"""Arrays that ranks have parts of: written by all of them, read again in any other arrangement, bit for bit."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from blu.errors import CheckpointError, WeightsError
from blu.frontend.io.checkpoints import checkpoint
from blu.frontend.io.checkpoints.by_ranks import RankSnapshot, write_by_ranks
from blu.frontend.io.checkpoints.checkpoints import Checkpoints
from blu.frontend.io.checkpoints.write import Form
from blu.frontend.io.rank_files import INDEX, RankParts, load_rank_files, rank_file
from blu.plan.arrange import arrange
from blu.plan.mesh import Mesh
from blu.plan.sharding import Sharding

RULES = {"up": "*, tp/3", "down": "tp, *", "bias": "tp/3"}
SHAPES = {"up": (4, 12), "down": (8, 6), "bias": (12,), "norm": (4,), "odd": (3, 5)}
MESHES = ["dp=2,tp=2", "tp=2", "dp=4", "tp=4", "dp=2", "tp=2,dp=2", ""]
RNG = np.random.default_rng(5)
WHOLE = {f"model.{name}": RNG.standard_normal(shape).astype(np.float32) for name, shape in SHAPES.items()}
WHOLE["optimizer.step"] = np.int32(7) * np.ones((), np.int32)


def shardings(mesh: Mesh) -> dict[str, str]:
    return {f"model.{name}": text for name, text in arrange(SHAPES, mesh, RULES, over="dp").items()}


def part(name: str, mesh: Mesh, rank: int) -> np.ndarray:
    text = shardings(mesh).get(name)
    sharding = Sharding.parse(text) if text else Sharding.whole(WHOLE[name].ndim)
    return WHOLE[name][np.ix_(*sharding.indices(WHOLE[name].shape, mesh, rank))]


class Meetings:
    """Ranks that are threads of one process."""

    def __init__(self, count: int):
        self.barrier = threading.Barrier(count)
        self.said: dict[str, dict[int, bytes]] = {}

    def of(self, rank: int, go_on: threading.Event | None = None) -> Any:
        """Where a rank meets the others, once it may."""
        meetings = self

        class Meeting:
            def __init__(self) -> None:
                self.rank = rank

            def gathered(self, name: str, value: bytes) -> list[bytes]:
                assert go_on is None or go_on.wait(20)
                meetings.said.setdefault(name, {})[rank] = value
                meetings.barrier.wait(20)
                return [meetings.said[name][other] for other in range(meetings.barrier.parties)]

        return Meeting()


def save(directory: Path, text: str, step: int = 3, broken: int | None = None) -> list[str]:
    """What each rank of a mesh has to say of its saving: nothing, or an error."""
    mesh = Mesh.of_text(text)
    meetings, said = Meetings(mesh.size), [""] * mesh.size

    def run(rank: int) -> None:
        arrays = {name: part(name, mesh, rank) for name in WHOLE}
        if rank == broken:
            arrays["model.up"] = np.array([object()])
        snapshot = RankSnapshot(step, RankParts(mesh, rank, arrays, shardings(mesh)), json.dumps({"seed": 1}))
        try:
            write_by_ranks(directory, snapshot, Form(), meetings.of(rank))
        except CheckpointError as error:
            said[rank] = str(error)

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(mesh.size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return said


@pytest.mark.parametrize("text", MESHES)
def test_what_ranks_save_is_read_in_every_other_arrangement(text: str, tmp_path: Path) -> None:
    assert not any(save(tmp_path, text))
    found = checkpoint.load(tmp_path)
    assert (found.step, found.metadata, found.optimizer["step"].take_parts([])) == (3, {"seed": 1}, 7)
    for name in SHAPES:
        np.testing.assert_array_equal(np.asarray(found.model[name]), WHOLE[f"model.{name}"])
        for other in map(Mesh.of_text, MESHES):
            sharding = Sharding.parse(shardings(other).get(f"model.{name}") or ", ".join("*" * len(SHAPES[name])))
            for rank in range(other.size):
                own = found.model[name].take_parts(sharding.indices(SHAPES[name], other, rank))
                np.testing.assert_array_equal(own, part(f"model.{name}", other, rank), strict=True)


def test_a_part_that_several_ranks_have_is_written_once(tmp_path: Path) -> None:
    save(tmp_path, "dp=2,tp=2")
    sizes = [(tmp_path / "step-00000003" / rank_file(rank)).stat().st_size for rank in range(4)]
    arrays = sum(array.nbytes for array in WHOLE.values())
    assert sum(sizes) < arrays + 4 * 700
    assert sizes[0] > sizes[3]


def test_where_one_rank_cannot_write_all_hear_of_it_and_the_last_checkpoint_stays(tmp_path: Path) -> None:
    save(tmp_path, "dp=2,tp=2", step=1)
    said = save(tmp_path, "dp=2,tp=2", step=2, broken=1)
    assert all("rank 1" in text and "cannot be saved" in text for text in said), said
    assert checkpoint.load(tmp_path).step == 1
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".step")]


def test_ranks_that_die_while_they_write_leave_the_last_checkpoint(tmp_path: Path) -> None:
    save(tmp_path, "dp=2", step=1)
    half = tmp_path / ".step-00000002.0123456789ab.tmp"
    half.mkdir()
    (half / rank_file(0)).write_bytes(b"half")
    assert checkpoint.load(tmp_path).step == 1
    checkpoint.save(tmp_path, 3, {"x": np.ones(2, np.float32)}, {})
    assert checkpoint.load(tmp_path).step == 3


def test_arrays_may_change_while_their_files_are_written(tmp_path: Path) -> None:
    """No rank waits for another, or for its own file; until all have written theirs, there is nothing to see."""
    mesh, go_on = Mesh.of_text("tp=2"), threading.Event()
    meetings = Meetings(mesh.size)
    save(tmp_path, "tp=2", step=1)
    saving = [Checkpoints(tmp_path) for _ in range(mesh.size)]
    for rank, checkpoints in enumerate(saving):
        arrays = {name: np.array(part(name, mesh, rank)) for name in WHOLE}
        parts = RankParts(mesh, rank, arrays, shardings(mesh))
        checkpoints.save_parts_async(2, parts, {"seed": 1}, meetings.of(rank, go_on))
        for array in arrays.values():
            array[...] = 0
    assert checkpoint.load(tmp_path).step == 1
    go_on.set()
    for checkpoints in saving:
        checkpoints.close()
    found = checkpoint.load(tmp_path)
    assert found.step == 2
    for name in SHAPES:
        np.testing.assert_array_equal(np.asarray(found.model[name]), WHOLE[f"model.{name}"])


def test_all_ranks_hear_in_the_end_of_what_one_could_not_write_in_the_background(tmp_path: Path) -> None:
    mesh = Mesh.of_text("tp=2")
    meetings = Meetings(mesh.size)
    saving = [Checkpoints(tmp_path) for _ in range(mesh.size)]
    for rank, checkpoints in enumerate(saving):
        arrays = {name: part(name, mesh, rank) for name in WHOLE}
        if rank == 1:
            arrays["model.up"] = np.array([object()])
        checkpoints.save_parts_async(2, RankParts(mesh, rank, arrays, shardings(mesh)), {}, meetings.of(rank))
    for checkpoints in saving:
        with pytest.raises(CheckpointError, match="cannot be saved: rank 1"):
            checkpoints.close()
    assert not [path for path in tmp_path.iterdir() if "step" in path.name]


@pytest.mark.parametrize("how", ["missing", "swapped", "other step"])
def test_files_that_do_not_belong_together_are_refused(how: str, tmp_path: Path) -> None:
    save(tmp_path, "dp=2,tp=2")
    save(tmp_path / "more", "dp=2,tp=2", step=4)
    place = tmp_path / "step-00000003"
    first, second = place / rank_file(1), place / rank_file(2)
    if how == "missing":
        first.unlink()
    elif how == "swapped":
        data = first.read_bytes()
        first.write_bytes(second.read_bytes())
        second.write_bytes(data)
    else:
        first.write_bytes((tmp_path / "more" / "step-00000004" / rank_file(0)).read_bytes())
    with pytest.raises(CheckpointError, match=r"rank-00001.safetensors"):
        checkpoint.load(tmp_path, step=3)


@pytest.mark.parametrize("change", [{"mesh": "dp=100000"}, {"mesh": "dp=x"}, {"tensors": 3}, {"mesh": "tp=2"}])
def test_an_index_that_does_not_fit_its_files_is_refused(change: dict, tmp_path: Path) -> None:
    save(tmp_path, "dp=2,tp=2")
    path = tmp_path / "step-00000003" / INDEX
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(WeightsError, match=INDEX):
        load_rank_files(path.parent, "model.")
