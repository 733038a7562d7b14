"""`bench/conformance/array_api.py`: the counts of a suite's tests, and reasons why some fail."""

from __future__ import annotations

from pathlib import Path

from bench.conformance.array_api import DOCUMENT, counted, reasons, run_suite

TESTS = """
import os
import pytest

class TestKinds:
    @pytest.mark.parametrize("kind", ["x is +0", "x is -0"])
    def test_signs(self, kind):
        assert kind != "x is -0", "a zero's sign\\nis lost"

def test_names(pytestconfig):
    assert os.environ["MODULE"] == "numpy" and pytestconfig.getoption("--max-examples") == 3

@pytest.mark.skip(reason="of another version")
def test_others():
    pass

@pytest.mark.xfail
def test_known():
    raise ValueError

def test_made(missing):
    pass
"""
OPTIONS = """
def pytest_addoption(parser):
    parser.addoption("--max-examples", type=int)
    parser.addoption("--hypothesis-disable-deadline", action="store_true")
"""


def test_tests_of_a_suite_are_counted_with_the_reasons_why_they_fail(tmp_path: Path) -> None:
    suite = tmp_path / "array_api_tests"
    suite.mkdir()
    (suite / "__init__.py").touch()
    (suite / "test_some.py").write_text(TESTS)
    (tmp_path / "conftest.py").write_text(OPTIONS)
    known = reasons("| test | why |\n|---|---|\n| `test_some.py::TestKinds::test_signs[` `test_x.py::t` | zeros |\n")
    found = counted(run_suite(tmp_path, ["test_some.py"], 3, {"MODULE": "numpy"}), known)
    assert (found["tests"], found["passed"], found["failed"], found["xfailed"]) == (6, 2, 2, 1)
    assert found["skipped"] == {"test_some.py::test_others": "of another version"}
    [zeros, other] = found["failed for"].items()
    assert zeros == ("zeros", ["test_some.py::TestKinds::test_signs[x is -0]"])
    assert other[0].startswith("unknown") and other[1] == ["test_some.py::test_made"]
    assert found["files"] == {"test_some.py": {"passed": 2, "failed": 2, "skipped": 1, "xfailed": 1}}


def test_the_document_says_why_tests_fail() -> None:
    known = reasons(DOCUMENT.read_text())
    assert known and all(name.startswith("test_") and len(why) > 20 for name, why in known.items())
