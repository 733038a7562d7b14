"""The public test suite of the array-API standard (data-apis/array-api-tests) on `blu.array_api`.

    python bench/conformance/array_api.py --suite FOLDER [--examples N] [--files NAMES] [--save array-api]
    python bench/conformance/array_api.py --suite FOLDER --module numpy     # the same of another namespace

FOLDER is a checkout of the suite with its submodule; the suite's requirements and Blu are installed. What fails has to
be in the table of docs/array-api.md that says why it does, by the beginning of its name: the exit code is 1 where
something else fails. Numbers are drawn from a fixed seed. With 100 examples, as the suite has them, it takes some ten
minutes.
"""

from __future__ import annotations

import argparse
import datetime
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
from bench.gpt2_cpu import describe_machine, report  # noqa: E402 (makes bench importable first)

DOCUMENT = ROOT / "docs/array-api.md"
# Where numbers come from, and nothing that is kept between runs.
OPTIONS = ("-q", "-p", "no:cacheprovider", "--hypothesis-seed=0", "--hypothesis-disable-deadline")


class Outcome(NamedTuple):
    """What came of a test: `kind` is passed, failed, skipped or xfailed; `why` is the first line of what it says."""

    test: str
    kind: str
    why: str


def run_suite(folder: Path, files: Sequence[str], examples: int, environment: dict[str, str]) -> list[Outcome]:
    """Run the suite's files (all where none are named) in a process of its own.

    Raises:
        RuntimeError: pytest could not run them.
    """
    with tempfile.TemporaryDirectory() as temporary:
        found = Path(temporary) / "found.xml"
        options = (*OPTIONS, f"--max-examples={examples}", f"--junitxml={found}")
        places = [f"array_api_tests/{name}" for name in files] or ["array_api_tests"]
        kept = {"HYPOTHESIS_STORAGE_DIRECTORY": temporary, "PYTHONDONTWRITEBYTECODE": "1"}
        environment = os.environ | kept | environment
        command = [sys.executable, "-m", "pytest", *options, *places]
        ended = subprocess.run(command, cwd=folder, env=environment, stdout=sys.stderr, check=False)
        if ended.returncode not in (0, 1):
            raise RuntimeError(f"pytest ended with {ended.returncode} in the suite's folder")
        return list(outcomes(found.read_text()))


def outcomes(xml: str) -> Iterator[Outcome]:
    """What a report of pytest's says of each test."""
    for case in ElementTree.fromstring(xml).iter("testcase"):
        module, *classes = case.attrib["classname"].partition("array_api_tests.")[2].split(".")
        test = "::".join([f"{module}.py", *classes, case.attrib["name"]])
        said = next((item for item in case if item.tag in ("failure", "error", "skipped")), None)
        if said is None:
            yield Outcome(test, "passed", "")
            continue
        skipped = "xfailed" if said.get("type") == "pytest.xfail" else "skipped"
        why = said.get("message", "").partition("\n")[0]
        yield Outcome(test, skipped if said.tag == "skipped" else "failed", why)


def reasons(document: str) -> dict[str, str]:
    """Why tests fail, by the beginnings of their names: the rows of the document's table that name some."""
    rows = re.findall(r"^\| (`test_\w+\.py::.*?`) \| (.*) \|$", document, re.MULTILINE)
    return {name: reason for names, reason in rows for name in re.findall(r"`([^`]+)`", names)}


def counted(found: list[Outcome], known: dict[str, str]) -> dict[str, Any]:
    """How many tests there are of each kind, those that fail by the reason why, and the counts of each file."""
    files: dict[str, dict[str, int]] = {}
    failed: dict[str, list[str]] = {}
    for item in found:
        kinds = files.setdefault(item.test.partition("::")[0], {})
        kinds[item.kind] = kinds.get(item.kind, 0) + 1
        if item.kind == "failed":
            reason = next((known[name] for name in known if item.test.startswith(name)), f"unknown: {item.why}")
            failed.setdefault(reason, []).append(item.test)
    kinds = {kind: sum(counts.get(kind, 0) for counts in files.values()) for kind in ("passed", "failed", "xfailed")}
    skipped = {item.test: item.why for item in found if item.kind == "skipped"}
    return {"tests": len(found), **kinds, "skipped": skipped, "failed for": failed, "files": files}


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--suite", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--of", default="", metavar="WORDS", help="the suite's version (git's, if left out)")
    parser.add_argument("--files", nargs="+", default=[], metavar="NAME")
    parser.add_argument("--examples", type=int, default=100)
    parser.add_argument("--module", default="blu.array_api")
    parser.add_argument("--version", default="2025.12", help="of the standard")
    parser.add_argument("--save", metavar="NAME")
    return parser.parse_args()


def _git_version(folder: Path) -> str:
    command = ["git", "-C", str(folder), "describe", "--tags", "--always"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def main() -> None:
    arguments = _arguments()
    began = time.perf_counter()
    environment = {"ARRAY_API_TESTS_MODULE": arguments.module, "ARRAY_API_TESTS_VERSION": arguments.version}
    found = run_suite(arguments.suite, arguments.files, arguments.examples, environment)
    said = ("SUITE" if word == str(arguments.suite) else word for word in sys.argv)
    counts = counted(found, reasons(DOCUMENT.read_text()))
    result = {
        "command": " ".join(["python", *said]),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "suite": arguments.of or _git_version(arguments.suite),
        "standard": arguments.version,
        "examples": arguments.examples,
        "machine": describe_machine(),
        "seconds": round(time.perf_counter() - began, 1),
        **counts,
    }
    report(result, arguments.save)
    sys.exit(any(reason.startswith("unknown") for reason in counts["failed for"]))


if __name__ == "__main__":
    main()
