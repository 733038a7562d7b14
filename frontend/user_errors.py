"""Errors as the user sees them: placed in the user's program, without Blu's own frames in the traceback."""

from __future__ import annotations

import os
from types import TracebackType

from blu.errors import BluError
from blu.frontend.user_location import user_line, user_traceback


class shown_to_the_user:  # noqa: N801 (used as a function is)
    """Around what a user calls: a BluError that leaves the block names a line of the user's, and shows only theirs.

    `BLU_TRACEBACK=full` keeps the traceback as it is.
    """

    __slots__ = ()

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, traceback: TracebackType | None) -> None:
        if not isinstance(error, BluError):
            return
        error.location = error.location or user_line()
        if os.environ.get("BLU_TRACEBACK") != "full":
            error.__traceback__ = user_traceback(traceback)
