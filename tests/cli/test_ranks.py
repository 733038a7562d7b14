"""Commands that run as several processes: their flags, and what the doctor says about MPI, NCCL and links of GPUs."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from subprocess import CompletedProcess

import numpy as np
import pytest

import blu
import blu.installed as installed
from blu.compiler.cli import train
from blu.compiler.cli.messages import UsageError
from blu.compiler.cli.ranks import flags, health
from blu.compiler.cli.ranks.flags import LaunchFlags, take_launch_flags
from blu.compiler.cli.ranks.python_program import python_program
from blu.compiler.cli.training.arguments import read_arguments
from blu.compiler.cli.training.run import Run
from blu.compiler.training.place import Place
from blu.plan.mesh import Mesh
from blu.runtime import load_program
from tests.support.ranks.starting import run_command

PROGRAM = """
import sys
import numpy as np
from blu.runtime.ranks.team import join_team

with join_team() as team:
    x = np.full(4, team.world.rank + 1, np.float32)
    at = x.ctypes.data
    team.group.start("all_reduce", reduction="mean", dtype="f32", source=at, target=at, count=4).wait()
    print(x, sys.argv[1:])
"""

TAKEN = [
    ("f.blu --json", LaunchFlags(), "f.blu --json"),
    ("--nproc 2 f.blu --json", LaunchFlags(2), "f.blu --json"),
    ("f.blu --input x=y --nproc=3", LaunchFlags(3), "f.blu --input x=y"),
    (
        "--nproc 4 --nodes 2 --node-rank 1 --rendezvous host:29500 a",
        LaunchFlags(4, 2, 1, ("host", 29500)),
        "a",
    ),
    ("--nproc 1 --rendezvous [::1]:5", LaunchFlags(1, 1, 0, ("::1", 5)), ""),
]


@pytest.mark.parametrize("words, flags, rest", TAKEN, ids=[item[0] for item in TAKEN])
def test_what_the_command_line_says_about_processes(words: str, flags: LaunchFlags, rest: str):
    assert take_launch_flags(words.split()) == (flags, rest.split())


WRONG = [
    ("--nproc 0", "--nproc 0 is not a number from 1 on"),
    ("--nproc two", "--nproc two is not a number"),
    ("--nproc", "expected one argument"),
    ("--nodes 2", "--nodes without --nproc"),
    ("--rendezvous a:1", "--rendezvous without --nproc"),
    ("--nproc 1 --node-rank -1", "--node-rank -1 is not a number from 0 on"),
    ("--nproc 1 --rendezvous host", "--rendezvous host is not of the form HOST:PORT"),
    ("--nproc 1 --rendezvous host:70000", "not of the form HOST:PORT"),
    ("--nproc 1 --rendezvous ::1:5", "not of the form HOST:PORT"),
]


@pytest.mark.parametrize("words, message", WRONG, ids=[item[0] for item in WRONG])
def test_flags_about_processes_that_make_no_sense(words: str, message: str):
    with pytest.raises(UsageError) as caught:
        take_launch_flags(words.split())
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "words, at",
    [
        ("a.py", 0),
        ("--nproc 2 a.py --nproc 3", 2),
        ("--nproc=2 --device cuda a.py b.blu", 3),
        ("a.blu b.py", None),
        ("--json a.py", None),
        ("--nproc a.py", None),
        ("", None),
    ],
)
def test_which_word_is_a_python_program(words: str, at: int | None):
    assert python_program(words.split()) == at


def run_blu(*words: str, **variables: str):
    return run_command([sys.executable, "-m", "blu", "run", *words], variables)


def test_a_python_program_runs_as_several_processes(tmp_path: Path):
    (tmp_path / "program.py").write_text(PROGRAM)
    outcome = run_blu("--nproc", "3", str(tmp_path / "program.py"), "--nproc", "7", "word")
    assert (outcome.code, outcome.out, outcome.err) == (0, "[2. 2. 2. 2.] ['--nproc', '7', 'word']\n", "")
    assert run_blu(str(tmp_path / "program.py")).out == "[1. 1. 1. 1.] []\n"


def test_a_compiled_program_runs_as_several_processes_and_is_said_once(tmp_path: Path):
    blu.jit(lambda x: x * 2).trace(blu.spec((3,))).compile("cpu").save(tmp_path / "f.blu")
    np.save(tmp_path / "x.npy", np.arange(3, dtype=np.float32))
    name = load_program(tmp_path / "f.blu").inputs[0].name
    words = ["--input", f"{name}={tmp_path / 'x.npy'}", "--output-dir", str(tmp_path / "out"), "--nproc", "2"]
    outcome = run_blu(str(tmp_path / "f.blu"), *words)
    assert outcome.code == 0, outcome.err
    assert outcome.out.count("[0. 2. 4.]") == 1
    assert len(list((tmp_path / "out").iterdir())) == 1


@pytest.mark.parametrize(
    "words, message",
    [
        (["--nproc", "2", "nothing.blu"], "there is no file nothing.blu"),
        (["--nproc", "2", "nothing.py"], "there is no file nothing.py"),
        (["--nproc", "2", "--device", "tpu", __file__], "--device tpu is not cpu or cuda"),
        (["--nproc", "3", "--device=cuda", __file__], "3 ranks on"),
    ],
)
def test_what_cannot_run_as_several_processes_is_wrong_usage(words: list[str], message: str):
    outcome = run_blu(*words, CUDA_VISIBLE_DEVICES="0,1")
    assert (outcome.code, message in outcome.err) == (2, True), outcome.err


@pytest.mark.parametrize("words", [["--out", "run"], []], ids=["named", "the last one"])
def test_ranks_that_resume_a_run_on_gpus_are_on_gpus(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: list[str]
):
    directory = tmp_path / ("run" if words else "runs/gpt2-1")
    directory.mkdir(parents=True)
    (directory / "run.json").write_text('{"model": "gpt2", "target": "cuda"}')
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    assert train.main(["--resume", "--nproc", "3", *words]) == 2
    assert "2 GPUs that may be used" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words, code, message",
    [
        ("--learning-rate -1", 2, "learning_rate is -1, expected a number above 0"),
        ("--data nothing.txt", 1, "no file matches 'nothing.txt'"),
        ("--shard layers", 2, "'layers' cannot be sharded"),
        ("--mesh cp=2 --length 30", 2, "sequences of 30 tokens cannot be shared out among 2 ranks (cp)"),
        ("--length 300", 2, "length 300 is more than the model's 256 positions"),
        ("--batch-size 70000", 1, "a batch takes 70000 on each of 2 ranks"),
        ("--dump-grads g", 2, "--dump-grads is for one process"),
        ("--resume", 2, "there is no run to resume"),
        ("", 0, ""),
    ],
)
def test_what_is_wrong_with_a_run_is_said_before_a_rank_starts(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: str,
    code: int,
    message: str,
):
    """Once, and not by each of them."""
    (tmp_path / "text.txt").write_text("to be or not to be " * 400)
    monkeypatch.chdir(tmp_path)
    started = []
    monkeypatch.setattr(flags, "launch", lambda job: started.append(job.count) or 0)
    data = [] if "--data" in words or words == "--resume" else ["--data", "text.txt"]
    model = [] if words == "--resume" else ["gpt2-demo-config"]
    assert train.main([*model, *data, "--nproc", "2", "--out", "run", *words.split()]) == code
    assert (started, message in capsys.readouterr().err) == ([2] * (not message), True)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "ranks, words, sequences, each",
    [(1, "", 12, 12), (3, "", 12, 4), (4, "--batch-size 5", 20, 5), (2, "--mesh tp=2", 12, 12), (5, "", None, None)],
)
def test_ranks_that_go_on_share_out_the_sequences_of_a_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ranks: int, words: str, sequences: int | None, each: int | None
):
    """Two ranks had 6 each; another batch is one that was asked for."""
    (tmp_path / "text.txt").write_text("to be or not to be " * 400)
    monkeypatch.chdir(tmp_path)
    saved = {"model": "gpt2-demo-config", "data": ["text.txt"], "length": 16, "batch_size": 6, "sequences": 12}
    Path("run").mkdir()
    Path("run", "run.json").write_text(json.dumps(saved))
    given, _ = read_arguments(["--resume", "--out", "run", *words.split()])
    place = Place.first_of(ranks, Mesh.of_text(given["mesh"]) if "mesh" in given else None)
    if sequences is None:
        with pytest.raises(UsageError, match="batch of 12 sequences cannot be shared out among 5 ranks"):
            Run.of(given, place)
        return
    run = Run.of(given, place)
    run.check()
    assert run.flags["batch_size"] == each
    assert run.flags["batch_size"] * place.data_ranks == sequences


# What nvidia-smi prints of 4 GPUs in two pairs, with a network card.
MATRIX = """\t\x1b[4mGPU0\tGPU1\tGPU2\tGPU3\tNIC0\tCPU Affinity\tNUMA Affinity\x1b[0m
GPU0\t X \tNV18\tSYS\tSYS\tPIX\t0-31\t0\t\tN/A
GPU1\tNV18\t X \tSYS\tSYS\tPIX\t0-31\t0\t\tN/A
GPU2\tSYS\tSYS\t X \tNV18\tPIX\t0-31\t0\t\tN/A
GPU3\tSYS\tSYS\tNV18\t X \tPIX\t0-31\t0\t\tN/A
NIC0\tPIX\tPIX\tPIX\tPIX\t X \t\t\t

Legend:

  X    = Self
  PHB  = Connection traversing PCIe as well as a PCIe Host Bridge (typically the CPU)
"""


def answering(**answers: str) -> health.Ask:
    """Runs no command, but knows the answers to some: the others fail."""

    def ask(command: list[str]) -> CompletedProcess[str]:
        found = next((text for name, text in answers.items() if any(name in word for word in command)), None)
        return CompletedProcess(command, int(found is None), found or "", "" if found else "first\nno library\n")

    return ask


def test_the_doctor_says_how_gpus_are_linked():
    [links] = [part for part in health.parts(answering(topo=MATRIX)) if part.name == "gpu links"]
    assert links.text == "4 GPUs, linked by NVLink and PCIe and the link between processors"
    assert health.found_links(MATRIX.splitlines()[1]) is None


def test_the_doctor_says_what_is_absent(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(installed, "version_of", lambda package: "")
    found = {part.name: part for part in health.parts(answering())}
    assert found.keys() == {"mpi", "nccl"}
    assert (found["mpi"].text, found["mpi"].there) == ("no mpi4py: no exchange between processors", False)
    assert (found["nccl"].text, found["nccl"].there) == ("no nccl4py: no exchange between GPUs", False)
    assert "blu[mpi]" in found["mpi"].advice and "blu[nccl-cu12]" in found["nccl"].advice


def test_the_doctor_says_what_does_not_work(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(installed, "version_of", lambda package: "1.0")
    found = {part.name: part for part in health.parts(answering())}
    assert "cannot run two processes: no library" in found["mpi"].text and not found["mpi"].there
    assert found["nccl"].text == "nccl4py 1.0, which finds no libnccl: no library" and not found["nccl"].there
    works = {part.name: part for part in health.parts(answering(MpiGroup="X 1.2", nccl="2.28\n"))}
    assert works["mpi"].text.startswith("X 1.2, two processes by ") and works["mpi"].there
    assert works["nccl"].text == "nccl4py 1.0, libnccl 2.28" and works["nccl"].there


def test_the_doctor_starts_two_processes_here():
    from blu.compiler.cli.doctor import _output

    found = next(health.parts(_output))
    assert found.there and "two processes by" in found.text, found
