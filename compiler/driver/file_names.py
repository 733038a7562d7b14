"""Names of the files that runs of passes leave."""

from __future__ import annotations

import re


def file_name(pass_name: str) -> str:
    """A pass name as part of a file name: letters, digits, `_`, `.` and `-`, at most 80 characters."""
    return re.sub(r"[^\w.-]+", "-", pass_name).strip("-")[:80]
