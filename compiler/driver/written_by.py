"""Which Blu has written a file of IR. It says so on the module (`blu.version`), and a reproducer in its header, so that
what another Blu cannot read or compile is not taken for a mistake of the reader's."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import blu.installed as installed
from blu.errors import BluError

ATTRIBUTE = "blu.version"
_WRITTEN = (
    re.compile(r"^// versions: blu ([^\s,]+),", re.MULTILINE),
    re.compile(rf'\b{re.escape(ATTRIBUTE)} = "([^"\\\n]+)"'),
)


@cache
def this_version() -> str:
    """The version of this Blu."""
    return installed.version_of("blu") or "0+unknown"  # run from a folder that was never installed


def version_in(text: str | bytes) -> str | None:
    """The version of the Blu that wrote a text of IR, or None where it does not say, as bytecode does not."""
    if isinstance(text, bytes):
        return None
    found = (pattern.search(text) for pattern in _WRITTEN)
    return next((match[1] for match in found if match), None)


@contextmanager
def telling_who_wrote(name: str, version: str | None) -> Iterator[None]:
    """Let errors about a file of IR say that another Blu has written it, if one has."""
    try:
        yield
    except BluError as error:
        ours = this_version()
        if version not in (None, ours):
            line = (
                f"{name} was written by Blu {version}, and this is Blu {ours}: "
                f"write it anew with this one, or read it with Blu {version}."
            )
            error.advice = "\n  ".join(filter(None, (error.advice, line)))
        raise
