"""Makes `import blu` work from this checkout, without installing it: import this module first.

The folders beside `blu` are its subpackages (pyproject.toml, package-dir). As a script it is the command `blu`, which
`python -m blu` is only where Blu is installed:

    python bench/gpu/checkout.py bench attention --target cuda
"""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

import blu  # noqa: E402

if str(ROOT) not in blu.__path__:
    blu.__path__.append(str(ROOT))

if __name__ == "__main__":
    from blu.compiler.cli.main import main

    sys.exit(main())
