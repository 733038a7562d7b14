"""The `.blu` file: deterministic, verified, and refused with a reason when it is damaged or hostile."""

import io
import json
import zipfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blu.errors import BluError, CacheError
from blu.runtime import Artifact, Program, write_artifact
from blu.runtime.artifact import FORMAT, MANIFEST, make_manifest
from tests.support.kernels import native_code as native

MEMBERS = {"plan.json": b"{}", "kernels.o": bytes(range(256)) * 40, "constants.bin": b"", "gpu/gemm.cubin": b"cubin"}
DETAILS = {"target": {"name": "x"}, "versions": {"blu": "0.1.0"}}


@pytest.fixture
def path(tmp_path):
    write_artifact(tmp_path / "model.blu", MEMBERS, DETAILS)
    return tmp_path / "model.blu"


def test_what_is_written_is_read(path):
    artifact = Artifact.open(path)
    assert {name: artifact.read(name) for name in artifact.names()} == MEMBERS
    assert artifact.manifest["versions"] == {"blu": "0.1.0"} and artifact.manifest["format"] == FORMAT
    assert artifact.size("kernels.o") == 10240 and artifact.size("missing") == 0
    buffer = np.empty(10240, np.uint8)
    artifact.read_into("kernels.o", buffer)
    assert buffer.tobytes() == MEMBERS["kernels.o"]
    artifact.verify()
    assert zipfile.ZipFile(path).testzip() is None, "any zip tool reads it"


def test_the_same_members_give_the_same_bytes(tmp_path, path):
    write_artifact(tmp_path / "again.blu", dict(reversed(MEMBERS.items())), DETAILS)
    assert (tmp_path / "again.blu").read_bytes() == path.read_bytes()


def test_writing_replaces_at_once_or_not_at_all(tmp_path, path, monkeypatch):
    before = path.read_bytes()
    monkeypatch.setattr("os.fsync", lambda _: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(CacheError, match=r"model.blu: cannot be written: No space left on device"):
        write_artifact(path, {"plan.json": b"other"}, {})
    assert path.read_bytes() == before and [file.name for file in tmp_path.iterdir()] == ["model.blu"]
    with pytest.raises(CacheError, match="cannot be written"):
        write_artifact(tmp_path / "no" / "folder.blu", MEMBERS, {})


def test_a_file_that_need_not_be_durable_is_whole(tmp_path, path, monkeypatch):
    monkeypatch.setattr("os.fsync", lambda _: pytest.fail("waits for the disk"))
    write_artifact(tmp_path / "again.blu", MEMBERS, DETAILS, is_durable=False)
    assert (tmp_path / "again.blu").read_bytes() == path.read_bytes()


def test_missing_files_and_members(tmp_path, path):
    with pytest.raises(CacheError, match=r"nothing.blu: cannot be read: No such file"):
        Artifact.open(tmp_path / "nothing.blu")
    with pytest.raises(CacheError, match="cannot be read"):
        Artifact.open(tmp_path)
    with pytest.raises(CacheError, match=r"'pool.o' is missing"):
        Artifact.open(path).read("pool.o")


def test_another_format_version_is_refused_with_both_versions(tmp_path):
    manifest = make_manifest(MEMBERS, {}) | {"format": 99}
    file = make_zip(tmp_path, {MANIFEST: json.dumps(manifest).encode(), **MEMBERS})
    with pytest.raises(CacheError, match=f"format version 99, this Blu reads version {FORMAT}"):
        Artifact.open(file)


def make_zip(folder, members, compression=zipfile.ZIP_STORED):
    path = folder / "hostile.blu"
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, data in members.items() if isinstance(members, dict) else members:
            archive.writestr(zipfile.ZipInfo(name) if compression == zipfile.ZIP_STORED else name, data)
    return path


def whole(members=None):
    members = members or MEMBERS
    return {MANIFEST: json.dumps(make_manifest(members, {})).encode(), **members}


@pytest.mark.parametrize(
    "name", ["../evil", "/etc/passwd", "a/../b", "a\\b", ".hidden", "a//b", "", "a/", "C:x", "x" * 300]
)
def test_names_that_leave_the_folder_are_refused(tmp_path, name):
    with pytest.raises(CacheError, match=r"not allowed"):
        Artifact.open(make_zip(tmp_path, whole() | {name: b"x"}))


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_duplicates_compression_and_strangers_are_refused(tmp_path):
    with pytest.raises(CacheError, match="twice"):
        Artifact.open(make_zip(tmp_path, [*whole().items(), ("plan.json", b"other")]))
    with pytest.raises(CacheError, match="compressed"):
        Artifact.open(make_zip(tmp_path, whole(), zipfile.ZIP_DEFLATED))
    with pytest.raises(CacheError, match=r"holds no manifest.json"):
        Artifact.open(make_zip(tmp_path, MEMBERS))
    with pytest.raises(CacheError, match=r"members missing, added.*: stranger"):
        Artifact.open(make_zip(tmp_path, whole() | {"stranger": b"x"}))
    missing = whole()
    del missing["plan.json"]
    with pytest.raises(CacheError, match=r"members missing.*: plan.json"):
        Artifact.open(make_zip(tmp_path, missing))
    with pytest.raises(CacheError, match=r"not a \.blu file"):
        Artifact.open(make_text(tmp_path, b"hello"))


def make_text(folder, data):
    (folder / "text.blu").write_bytes(data)
    return folder / "text.blu"


@pytest.mark.parametrize(
    "manifest",
    [b"", b"[]", b"{}", b"[" * 100_000, b'{"format": 2}', b'{"format": 2, "members": {"a": 3}}',
     b'{"format": 2, "members": {"a": {"bytes": -1, "sha256": ""}}}', b"\xff\xfe"],
)  # fmt: skip
def test_damaged_manifests_are_refused(tmp_path, manifest):
    with pytest.raises(CacheError):
        Artifact.open(make_zip(tmp_path, {MANIFEST: manifest, **MEMBERS}))


def test_a_changed_member_is_noticed(tmp_path):
    changed = whole() | {"kernels.o": MEMBERS["kernels.o"][:-1] + b"\0"}
    artifact = Artifact.open(make_zip(tmp_path, changed))
    with pytest.raises(CacheError, match=r"'kernels.o' does not have the hash"):
        artifact.read("kernels.o")
    with pytest.raises(CacheError):
        Artifact.of(whole() | {"plan.json": b"[]"}).verify()


def archive_bytes():
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, data in whole().items():
            archive.writestr(zipfile.ZipInfo(name), data)
    return file.getvalue()


ARCHIVE = archive_bytes()


def judge(path):
    """Either it is refused with a CacheError, or every member is what was written."""
    try:
        artifact = Artifact.open(path)
        artifact.verify()
    except CacheError as error:
        assert str(path) in str(error)
        return
    assert {name: artifact.read(name) for name in artifact.names()} == MEMBERS


@settings(max_examples=150, deadline=None)
@given(st.integers(0, len(ARCHIVE) - 1))
def test_truncated_files_are_refused(tmp_path_factory, size):
    path = make_text(tmp_path_factory.getbasetemp(), ARCHIVE[:size])
    with pytest.raises(CacheError):
        Artifact.open(path).verify()


@settings(max_examples=400, deadline=None)
@given(st.data())
def test_changed_files_are_refused_or_whole(tmp_path_factory, data):
    directory = ARCHIVE.index(b"PK\x01\x02")
    places = st.integers(directory, len(ARCHIVE) - 1) | st.integers(0, len(ARCHIVE) - 1)
    changed = bytearray(ARCHIVE)
    for at, value in data.draw(st.lists(st.tuples(places, st.integers(0, 255)), min_size=1, max_size=4)):
        changed[at] = value
    judge(make_text(tmp_path_factory.getbasetemp(), bytes(changed)))


def test_a_program_runs_from_its_file(tmp_path):
    kernel = native.loop_kernel(
        "fill",
        """  %at = getelementptr i64, ptr %p0, i64 %i
  %from = getelementptr i64, ptr %p1, i64 %i
  %value = load i64, ptr %from
  store i64 %value, ptr %at""",
        2,
    )
    plan = {
        "outputs": [{"name": "", "shape": [300], "dtype": "i64", "input": None}],
        "constants": [{"offset": 0, "bytes": 2400}],
        "launches": [{"kernel": "fill", "blocks": 300, "chunk": 9, "args": [["output", 0, 0], ["constant", 0, 0]]}],
    }
    members = native.members(kernel, plan, np.arange(300).tobytes())
    target = {"name": "", "triple": native.TRIPLE}
    write_artifact(tmp_path / "fill.blu", members, {"target": target})
    program = Program.load(tmp_path / "fill.blu")
    (tmp_path / "fill.blu").unlink()
    assert (program.run([])[0] == np.arange(300)).all()
    write_artifact(tmp_path / "broken.blu", members | {"kernels.o": b"nothing"}, {})
    with pytest.raises(BluError, match="damaged object file"):
        Program.load(str(tmp_path / "broken.blu"))
