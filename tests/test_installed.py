"""Versions of installed packages and what these offer, beside importlib.metadata."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from importlib import metadata
from pathlib import Path

import pytest

import blu.installed as installed


def package(folder: Path, description: str, offers: str = "") -> None:
    """Lay out what an installer leaves of a package, besides its code."""
    place = folder / description
    place.mkdir(parents=True)
    name, _, version = description.removesuffix(".dist-info").partition("-")
    (place / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    (place / "entry_points.txt").write_text(offers)


@pytest.mark.parametrize("name", ["blu", "numpy", "torch-mlir", "Torch_MLIR", "ml.dtypes"])
def test_versions_are_those_of_metadata(name: str) -> None:
    assert installed.version_of(name) == metadata.version(name)


def test_a_package_that_is_not_there_has_no_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert installed.version_of("a-package-that-is-not-there") == ""
    monkeypatch.syspath_prepend(str(tmp_path))
    package(tmp_path, "there_now-1.5rc1.dist-info")
    installed._folders.cache_clear()
    assert installed.version_of("there-now") == "1.5rc1" and installed.version_of("there") == ""


@pytest.mark.parametrize("description", ["offering-1.0.dist-info", "offering.egg-info", "offering.egg/EGG-INFO"])
def test_what_packages_offer_is_found(description: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert installed.entry_points("blu.a_group") == ()
    package(tmp_path, description, "[blu.a_group]\none = some.module:One\n")
    monkeypatch.syspath_prepend(str(tmp_path / "offering.egg" if "egg/" in description else tmp_path))
    installed._folders.cache_clear()
    [found] = installed.entry_points("blu.a_group")
    assert (found.name, found.value) == ("one", "some.module:One")
    assert installed.entry_points("blu.another_group") == ()


def test_packages_in_archives_are_asked_as_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with zipfile.ZipFile(tmp_path / "archive.zip", "w") as archive:
        archive.writestr("zipped-2.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: zipped\nVersion: 2.0\n")
        archive.writestr("zipped-2.0.dist-info/entry_points.txt", "[blu.a_group]\none = some.module\n")
    monkeypatch.syspath_prepend(str(tmp_path / "archive.zip"))
    assert installed.version_of("zipped") == "2.0"
    assert [item.value for item in installed.entry_points("blu.a_group")] == ["some.module"]


def test_a_program_is_compiled_without_reading_metadata() -> None:
    code = "import sys, numpy, blu; blu.jit(lambda x: x + 1)(numpy.ones(3)); print('importlib.metadata' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"
