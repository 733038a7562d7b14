"""Run random programs for a time, and cut down those that fail.

    python -m tests.fuzz --seconds 600 --target cuda --jobs 8 --seed 1 --output failures.jsonl

Programs are drawn by number from `--seed` on, every third of them a gradient, so that `--seed N --count 1` runs one
again. Each is compared with its meaning in float64, gradients in f64 with differences as well (meaning.py, check.py).
`--interpret` runs PTX in the interpreter of the tests, without a GPU. Programs run in processes of their own: one that
dies or takes too long is a failure like another. The exit code is 1 where any failed.
"""

from __future__ import annotations

import sys

from .run import main

if __name__ == "__main__":
    sys.exit(main(__doc__))
