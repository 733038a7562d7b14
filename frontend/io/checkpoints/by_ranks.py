"""Checkpoints that all ranks write together: each its own parts, in a directory that the first makes and publishes.

    step-00000250/
        rank-00000.safetensors, rank-00001.safetensors, ...     and ranks.json (blu.frontend.io.rank_files)
        config.json, state.json, manifest.json                  as in any other checkpoint; the manifest is written last

Nothing is there under the checkpoint's name before all ranks have written and synced all of it. If one dies meanwhile,
the others end with it, and the next run removes the half. All may write in the background (`copied_parts` is what they
write then), if where their threads meet does not keep those that train from meeting.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from blu.dataclass import dataclass, field
from blu.errors import BluError, CheckpointError
from blu.frontend.io.atomic import replacing
from blu.frontend.io.checkpoints import directory as layout
from blu.frontend.io.checkpoints.manifest import checksum, write_manifest
from blu.frontend.io.checkpoints.write import Form, check_space, copied_array, make_directory, remove_older, write_state
from blu.frontend.io.huggingface import save_config
from blu.frontend.io.rank_files import INDEX, RankParts, rank_file
from blu.frontend.io.safetensors import save_file

ADVICE = "the checkpoints before it are as they were; free some space, or keep fewer of them"
Answer = dict[str, Any]


class Meeting(Protocol):
    """Where ranks tell each other how far they are."""

    rank: int

    def gathered(self, name: str, value: bytes) -> list[bytes]:
        """What each rank says under a name."""
        ...


@dataclass(frozen=True)
class RankSnapshot:
    """What one rank saves. Names of its arrays begin with "model." or "optimizer."; `metadata` is JSON text."""

    step: int
    parts: RankParts = field(repr=False)
    metadata: str = field(repr=False)


def copied_parts(taken: RankSnapshot, buffers: RankSnapshot | None = None) -> RankSnapshot:
    """What later changes of the arrays that this rank writes do not reach, in the memory of `buffers` where it fits."""
    old = {} if buffers is None else buffers.parts.arrays
    copies = {name: copied_array(array, old.get(name)) for name, array in taken.parts.own.items()}
    return replace(taken, parts=replace(taken.parts, arrays={**taken.parts.arrays, **copies}))


def write_by_ranks(directory: Path, taken: RankSnapshot, form: Form, meeting: Meeting) -> Path:
    """Make what all ranks have a durable checkpoint; all of them call this. Its path.

    Raises CheckpointError on all of them, with nothing of it left, where one cannot write.
    """
    final = layout.step_directory(directory, taken.step)
    is_first = meeting.rank == 0
    with ExitStack() as lock, ExitStack() as half:

        def begin() -> Answer:
            if not is_first:
                return {}
            make_directory(directory)
            lock.enter_context(layout.locked(directory))
            check_space(directory, sum(array.nbytes for array in taken.parts.own.values()) * taken.parts.mesh.size)
            return {"half": half.enter_context(layout.publishing(directory, taken.step)).name}

        def finish() -> Answer:
            if is_first:
                _complete(place, taken, form, files)
                half.close()  # which publishes it
                layout.move_latest(directory, taken.step)
                remove_older(directory, taken.step, form.keep_last)
            return {}

        place = directory / _told(meeting, final, "a place", begin)[0]["half"]
        files = _told(meeting, final, "parts", lambda: _written(place, taken))
        _told(meeting, final, "all of it", finish)
    return final


def _told(meeting: Meeting, final: Path, what: str, do: Callable[[], Answer]) -> list[Answer]:
    """What came of it on all ranks. CheckpointError on all of them where one has failed."""
    try:
        answer = do()
    except (OSError, BluError) as error:
        answer = {"error": str(error)}
    answers = [json.loads(item) for item in meeting.gathered(f"{final.name}: {what}", json.dumps(answer).encode())]
    for rank, item in enumerate(answers):
        if "error" in item:
            message = f"{final}: the checkpoint cannot be saved: rank {rank}: {item['error']}"
            raise CheckpointError(message, advice=ADVICE)
    return answers


def _written(directory: Path, taken: RankSnapshot) -> Answer:
    """Write and sync the file of this rank: its name, bytes and SHA-256."""
    path = directory / rank_file(taken.parts.rank)
    save_file(taken.parts.own, path)
    return {"name": path.name, "bytes": path.stat().st_size, "sha256": checksum(path)}


def _complete(directory: Path, taken: RankSnapshot, form: Form, files: list[Answer]) -> None:
    """Write and sync what there is one of, the manifest last."""
    with replacing(directory / INDEX) as temporary:
        temporary.write_text(json.dumps(taken.parts.index()) + "\n")
    if form.config is not None:
        save_config(directory, form.config, tokenizer_from=form.tokenizer_from)
    write_state(directory, taken.step, taken.metadata)
    write_manifest(directory, taken.step, {item.pop("name"): item for item in files})
