"""Errors as the user sees them: placed in the user's program, without Blu's own frames in the traceback."""

from __future__ import annotations

from types import TracebackType

from blu import settings
from blu.errors import BluError, SettingError
from blu.frontend.tracing.user_location import user_line, user_traceback


class shown_to_the_user:  # noqa: N801 (used as a function is)
    """Around what a user calls: a BluError that leaves the block names a line of the user's, and shows only theirs.

    `BLU_TRACEBACK=full` keeps the traceback as it is, with what has led to the error. A setting that is wrong is a note
    at the error.
    """

    __slots__ = ()

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, traceback: TracebackType | None) -> None:
        if not isinstance(error, BluError):
            return
        error.location = error.location or user_line()
        if _is_shown_in_full(error):
            error.__suppress_context__ = False
        else:
            error.__traceback__ = user_traceback(traceback)


def _is_shown_in_full(error: BluError) -> bool:
    try:
        return settings.current().traceback == "full"
    except SettingError as wrong:
        if not isinstance(error, SettingError):
            error.add_note(str(wrong))
        return False
