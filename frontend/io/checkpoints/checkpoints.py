"""`Checkpoints`: the checkpoints of one run, saved in the background while training goes on.

with Checkpoints("runs/first", keep_last=3, config=config) as checkpoints:
    found = checkpoints.resume(model=model.state_dict(), optimizer=state)
    if found:
        model.load_state_dict(found.model)
    ...
    checkpoints.save_async(step, model.state_dict(), state, {"data": batches.state()})
"""

from __future__ import annotations

import atexit
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from blu.errors import CheckpointError
from blu.frontend.io.checkpoints import checkpoint
from blu.frontend.io.checkpoints import directory as checkpoint_directory
from blu.frontend.io.checkpoints.by_ranks import Meeting, RankSnapshot, copied_parts, write_by_ranks
from blu.frontend.io.checkpoints.latest import latest, warn
from blu.frontend.io.checkpoints.write import Form, Snapshot, copied, make_directory, metadata_text, view, write
from blu.frontend.io.rank_files import RankParts


class Checkpoints:
    """The checkpoints in `directory`, of which the last `keep_last` stay (all with None); see `checkpoint.save`.

    Creating one creates the directory, and removes what killed processes have left behind half-written: only the
    process that saves should. At most one save runs in the background; the interpreter waits for it when it ends.
    The memory for its copy is kept for the next save until `close`.
    """

    def __init__(
        self,
        directory: str | Path,
        *,
        keep_last: int | None = 3,
        config: Mapping[str, Any] | None = None,
        tokenizer_from: str | Path | None = None,
    ):
        self.directory = Path(directory)
        self._form = Form(config, tokenizer_from, keep_last)
        self._thread: threading.Thread | None = None
        self._failure: Exception | None = None
        self._copy: Snapshot | None = None
        self._parts_copy: RankSnapshot | None = None
        try:
            make_directory(self.directory)
            checkpoint_directory.sweep(self.directory)
        except OSError as error:
            message = f"{self.directory}: cannot hold checkpoints: {error}"
            raise CheckpointError(message, advice="choose a directory that you may write to") from error
        atexit.register(self._finish)

    def save(
        self,
        step: int,
        model_state: Mapping[str, Any],
        optimizer_state: Any = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Path:
        """Save now, after the save in the background; on return the checkpoint is durable. Its path.

        Raises CheckpointError when this save fails; the failure of one before is a CheckpointWarning.
        """
        self._finish()
        return write(self.directory, view(step, model_state, optimizer_state, metadata), self._form)

    def save_async(
        self,
        step: int,
        model_state: Mapping[str, Any],
        optimizer_state: Any = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        """Copy the arrays and save them in the background: afterwards they may be changed in place.

        Waits while the save before is still running. If that one failed, its CheckpointError is raised here, after
        this save has been started.
        """
        self._join()
        self._copy = taken = copied(view(step, model_state, optimizer_state, metadata), self._copy)
        self._begin(step, lambda: write(self.directory, taken, self._form))

    def save_parts(self, step: int, parts: RankParts, metadata: Mapping[str, Any], meeting: Meeting) -> Path:
        """Save what all ranks have, now; all of them call this. Its path. CheckpointError on all where one fails."""
        self._finish()
        taken = RankSnapshot(step, parts, metadata_text(metadata))
        return write_by_ranks(self.directory, taken, self._form, meeting)

    def save_parts_async(self, step: int, parts: RankParts, metadata: Mapping[str, Any], meeting: Meeting) -> None:
        """The same in the background, with copies of the arrays; all ranks call this. As `save_async` otherwise.

        Threads of all ranks come to the `meeting`: it must not keep those that train from meeting each other.
        """
        self._join()
        snapshot = RankSnapshot(step, parts, metadata_text(metadata))
        self._parts_copy = taken = copied_parts(snapshot, self._parts_copy)
        self._begin(step, lambda: write_by_ranks(self.directory, taken, self._form, meeting))

    @property
    def is_saving(self) -> bool:
        """Whether a save is running in the background."""
        return self._thread is not None and self._thread.is_alive()

    def wait(self) -> None:
        """Wait for the save in the background. Raises its CheckpointError if it failed."""
        self._join()
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def close(self) -> None:
        """Wait for the save in the background, for the last time. Raises its CheckpointError if it failed."""
        atexit.unregister(self._finish)
        self._join()
        self._copy = self._parts_copy = None
        self.wait()

    def latest(self) -> Path | None:
        """The path of the latest checkpoint, None where there is none; see `latest_checkpoint.latest`."""
        self._join()
        return latest(self.directory)

    def resume(self, **options: Any) -> checkpoint.Checkpoint | None:
        """As `load`, but None where there is no checkpoint at all."""
        self._join()
        return self.load(**options) if checkpoint_directory.has_any(self.directory) else None

    def load(self, **options: Any) -> checkpoint.Checkpoint:
        """Load the latest sound checkpoint, or that of `step`; see `checkpoint.load`."""
        self._join()
        return checkpoint.load(self.directory, **options)

    def __enter__(self) -> Checkpoints:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if kind is None:
            self.close()
        else:  # what went wrong in the body comes first
            self._finish()
            self.close()

    def _begin(self, step: int, save: Callable[[], Path]) -> None:
        """Save in the background; then raise what went wrong with the save before."""
        failure, self._failure = self._failure, None
        # Not a daemon: the interpreter waits for it.
        self._thread = threading.Thread(target=self._run, args=(save,), name=f"blu-checkpoint-{step}")
        self._thread.start()
        # After the start, so that one full disk costs one checkpoint and not two.
        if failure is not None:
            raise failure

    def _run(self, save: Callable[[], Path]) -> None:
        try:
            save()
        except Exception as error:  # whatever it is, the training thread has to hear of it
            self._failure = error

    def _join(self) -> None:
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _finish(self) -> None:
        """Wait, and report a failure where nobody can catch it any more."""
        self._join()
        failure, self._failure = self._failure, None
        if failure is not None:
            warn(str(failure))
