"""The flags of `blu train`: nanoGPT's and llm.c's names mean what they mean there."""

from __future__ import annotations

import re
from typing import Any

import pytest

from blu.compiler.cli.training.arguments import make_parser, read_arguments
from blu.compiler.cli.training.flags import FLAGS, WITHOUT_MEANING
from tests.support.folders import ROOT

# Every option of nanoGPT's train.py, llm.c's train_gpt2.cu and train_gpt2.py that has one of ours, and what it says.
NANOGPT = {
    "--out_dir=out": {"out": "out"},
    "--eval_interval=2000": {"validate_every": 2000},
    "--log_interval=1": {"log_every": 1},
    "--eval_iters=200": {"validate_batches": 200},
    "--init_from=scratch": {},
    "--init_from=resume": {"resume": True},
    "--init_from=gpt2": {"init_from": "gpt2"},
    "--dataset=shakespeare": {"data": ["data/shakespeare/train.bin"], "val_data": ["data/shakespeare/val.bin"]},
    "--gradient_accumulation_steps=40": {"accumulate": 40},
    "--batch_size=12": {"batch_size": 12},
    "--block_size=1024": {"length": 1024},
    "--n_layer=12": {"layers": 12},
    "--n_head=12": {"heads": 12},
    "--n_embd=768": {"width": 768},
    "--learning_rate=6e-4": {"learning_rate": 6e-4},
    "--max_iters=600000": {"steps": 600000},
    "--weight_decay=1e-1": {"weight_decay": 0.1},
    "--beta1=0.9": {"beta1": 0.9},
    "--beta2=0.95": {"beta2": 0.95},
    "--grad_clip=1.0": {"clip": 1.0},
    "--decay_lr=False": {"schedule": "constant"},
    "--decay_lr=True": {},
    "--warmup_iters=2000": {"warmup": 2000},
    "--lr_decay_iters=600000": {"decay_steps": 600000},
    "--min_lr=6e-5": {"final_learning_rate": 6e-5},
    "--dtype=bfloat16": {"dtype": "bf16"},
    "--seed=1337": {"seed": 1337},
}
LLM_C = {
    "-i train*.bin": {"data": ["train*.bin"]},
    "-j val.bin": {"val_data": ["val.bin"]},
    "-e d12": {"model": "d12"},
    "-e gpt2:d48": {"model": "d48"},
    "-o log": {"out": "log"},
    "-lg 10": {"log_every": 10},
    "-n 5000": {"checkpoint_every": 5000},
    "-nk 5": {"keep_last": 5},
    "-y 1": {"resume": True},
    "-y 0": {},
    "-b 64": {"batch_size": 64},
    "-t 1024": {"length": 1024},
    "-d 524288": {"total_batch_size": 524288},
    "-x 100": {"steps": 100},
    "-x -1": {"epochs": 1.0},
    "-k linear": {"schedule": "linear"},
    "-l 0.0006": {"learning_rate": 0.0006},
    "-u 700": {"warmup": 700},
    "-q 0.0": {"final_fraction": 0.0},
    "-c 0.1": {"weight_decay": 0.1},
    "-v 250": {"validate_every": 250},
    "-m 20": {"validate_batches": 20},
    "-s 20000": {"sample_every": 20000},
    "-g 144": {"sample_tokens": 144},
    "--input_bin x.bin": {"data": ["x.bin"]},
    "--input_val_bin y.bin": {"val_data": ["y.bin"]},
    "--output_dir log": {"out": "log"},
    "--model d24": {"model": "d24"},
    "--sequence_length 64": {"length": 64},
    "--total_batch_size 256": {"total_batch_size": 256},
    "--num_iterations 10": {"steps": 10},
    "--learning_rate_decay_frac 0.1": {"final_fraction": 0.1},
    "--val_loss_every 5": {"validate_every": 5},
    "--val_max_steps 20": {"validate_batches": 20},
    "--sample_every 3": {"sample_every": 3},
    "--dtype float32": {"dtype": "f32"},
    "--device=cuda:0": {"target": "cuda"},
}
IGNORED = (
    "--compile=False",
    "--wandb_log=False",
    "--dropout=0.0",
    "--bias=True",
    "-z 1",
    "-r 0",
    "-w 1",
)


@pytest.mark.parametrize("text", [*NANOGPT, *LLM_C])
def test_names_of_nanogpt_and_llm_c(text: str) -> None:
    expected: dict[str, Any] = (NANOGPT | LLM_C)[text]
    assert read_arguments(text.split()) == (expected, [])


@pytest.mark.parametrize("text", IGNORED)
def test_names_that_mean_nothing_here_are_said_to(text: str) -> None:
    given, [note] = read_arguments(text.split())
    assert given == {} and "means nothing here" in note


def test_a_whole_command_of_llm_c() -> None:
    command = "-i a.bin -j b.bin -o log -v 250 -s 20000 -g 144 -h 1 -b 64 -t 1024 -d 524288 -r 0 -z 1 -c 0.1 -l 0.0006"
    command = command.replace("-h 1 ", "") + " -q 0.0 -u 700 -n 5000 -y 1 -e d12"
    given, notes = read_arguments(command.split())
    assert given["model"] == "d12" and given["resume"] and len(given) == 16 and len(notes) == 2


def test_dashes_and_underscores_are_the_same() -> None:
    for flag in FLAGS.values():
        assert f"--{flag.name.replace('-', '_')}" in flag.spellings


def test_no_name_means_two_things() -> None:
    names = [name for flag in FLAGS.values() for name in flag.spellings] + list(WITHOUT_MEANING)
    assert len(names) == len(set(names))


def test_every_flag_is_in_the_help() -> None:
    text = make_parser().format_help()
    assert all(f"--{flag.name}" in text for flag in FLAGS.values())


def test_lists_of_data() -> None:
    assert read_arguments(["gpt2", "--data", "a", "b", "--data", "c"])[0] == {"model": "gpt2", "data": ["a", "b", "c"]}


def test_the_table_of_the_documentation_is_that_of_the_code() -> None:
    text = (ROOT / "docs" / "training.md").read_text().partition("## Names from")[2].partition("\n## ")[0]
    rows = [row.split("|")[1:-1] for row in re.findall(r"^\| (?:`|MODEL).*$", text, re.MULTILINE)][1:]
    flags = {name: flag.name for flag in FLAGS.values() for name in flag.spellings}
    flags |= {
        "MODEL": "model",
        "--dataset": "data",
        "--decay_lr": "schedule",
        "-y": "resume",
        "--init_from=resume": "resume",
    }
    checked = 0
    for own, *others in rows:
        meant = {flags[name] for name in re.findall(r"`([^`]+)`", own)} | ({"data"} if "--val-data" in own else set())
        names = re.findall(r"`([^`]+)`", " ".join(others))
        assert {flags[name] for name in names} <= meant, own
        checked += len(names)
    assert checked > 45
