"""How lit runs the tests of this folder: `python -c 'from lit.main import main; main()' -v lit_tests`."""

import sys
import tempfile

import lit.formats

config.name = "blu"  # noqa: F821 (lit puts `config` here)
config.test_format = lit.formats.ShTest(execute_external=False)  # noqa: F821
config.suffixes = [".mlir"]  # noqa: F821
config.test_exec_root = tempfile.mkdtemp(prefix="blu-lit-")  # noqa: F821
config.excludes = ["inputs"]  # noqa: F821
config.substitutions += [  # noqa: F821
    # Without the child process that outlives crashes: lit notices those itself, and starts each command faster.
    # pytest calls these modules in its own process (tests/support/lit_in_process.py).
    ("%blu-opt", f"{sys.executable} -m blu.compiler.cli.opt --no-isolate"),
    ("%blu-compile", f"{sys.executable} -m blu.compiler.cli.compile --no-isolate"),
    ("%filecheck", f"{sys.executable} -m filecheck"),
]
