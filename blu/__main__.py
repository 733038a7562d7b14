"""`python -m blu` is the command `blu`."""

import sys

from blu.compiler.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
