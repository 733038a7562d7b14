"""The flags of `blu train` as tables: its own, nanoGPT's and llm.c's names for them, and what means nothing here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from blu.dataclass import dataclass


def as_bool(text: str) -> bool:
    """True, False, 1 or 0, as nanoGPT and llm.c spell them."""
    known = {"true": True, "1": True, "false": False, "0": False}
    if text.lower() not in known:
        raise ValueError(f"{text!r} is neither True nor False")
    return known[text.lower()]


def as_dtype(text: str) -> str:
    """A dtype by Blu's name or PyTorch's."""
    return {"float32": "f32", "bfloat16": "bf16", "float16": "f16"}.get(text, text)


def as_bytes(text: str) -> int:
    """A number of bytes: 800000000, 800M or 0.8G."""
    number, unit = (text[:-1], text[-1].upper()) if text[-1:].upper() in _UNITS else (text, "")
    try:
        return int(float(number) * _UNITS[unit])
    except (ValueError, OverflowError):
        raise ValueError(f"{text!r} is no number of bytes, such as 800M or 2G") from None


_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}


def as_model(text: str) -> str:
    """A model's name, also as llm.c's "gpt2:d12"."""
    return text.removeprefix("gpt2:")


def as_target(text: str) -> str:
    """A target's name, also as PyTorch's "cuda:0"."""
    return text.removesuffix(":0")


@dataclass(frozen=True)
class Flag:
    """One flag: its name without dashes, what reads its value (None: it takes none), what it means.

    `aliases` are other spellings; nanoGPT's underscores are accepted for dashes everywhere.
    """

    name: str
    parse: Callable[[str], Any] | None
    help: str
    metavar: str = "N"
    aliases: tuple[str, ...] = ()
    is_list: bool = False

    @property
    def destination(self) -> str:
        return self.name.replace("-", "_")

    @property
    def spellings(self) -> tuple[str, ...]:
        """All names, the flag's own first."""
        names = [f"--{self.name}", *self.aliases]
        names += [_with_underscores(name) for name in names if name.startswith("--")]
        return tuple(dict.fromkeys(names))


def _with_underscores(name: str) -> str:
    return "--" + name[2:].replace("-", "_")


GROUPS: dict[str, tuple[Flag, ...]] = {
    "data": (
        Flag(
            "data", str, "shards (llm.c, nanoGPT), texts, directories or patterns", "FILES", ("-i", "--input-bin"), True
        ),
        Flag("val-data", str, "the same, for validation", "FILES", ("-j", "--input-val-bin"), True),
        Flag("val-split", float, "the share of --data for validation (of texts 0.05, of shards 0)", "SHARE"),
        Flag("tokenizer", str, "a directory with tokenizer.json, or 'bytes'", "DIR"),
        Flag("dataset", str, "nanoGPT's data/NAME/train.bin and val.bin", "NAME"),
        Flag("no-shuffle", None, "take the data in order"),
        Flag("seed", int, "of fresh weights, of the order of the data, and of samples (0)"),
    ),
    "model": (
        Flag("model", as_model, "the same as MODEL", "NAME", ("-e",)),
        Flag("init-from", str, "begin with the weights of a directory in Hugging Face's layout", "DIR"),
        Flag("layers", int, "instead of the preset's", aliases=("--n-layer",)),
        Flag("heads", int, "instead of the preset's", aliases=("--n-head",)),
        Flag("width", int, "instead of the preset's", aliases=("--n-embd",)),
        Flag("positions", int, "instead of the preset's"),
        Flag("vocab-size", int, "instead of the preset's"),
    ),
    "steps": (
        Flag("batch-size", int, "sequences in a (micro-)batch (8)", aliases=("-b",)),
        Flag("length", int, "tokens in a sequence", aliases=("-t", "--sequence-length", "--block-size")),
        Flag("total-batch-size", int, "tokens in a step, in as many micro-batches as it takes", aliases=("-d",)),
        Flag("accumulate", int, "micro-batches in a step (1)", aliases=("--gradient-accumulation-steps",)),
        Flag("steps", int, "the step to end with (1000)", aliases=("-x", "--max-iters", "--num-iterations")),
        Flag("epochs", float, "end after so many passes over the data", "E"),
        Flag("max-minutes", float, "end after this time, with a checkpoint", "M"),
        Flag("dtype", as_dtype, "of products and attention: f32, tf32, bf16, f16 (f32)", "DTYPE"),
        Flag(
            "remat-budget",
            as_bytes,
            "keep so many bytes of activations for the gradients, compute the rest again (0: keep all)",
            "BYTES",
        ),
        Flag(
            "on-nonfinite", str, "stop at a loss or gradients that are NaN or infinite, or skip the step", "stop|skip"
        ),
        Flag("find-nonfinite", None, "name the op that made the loss NaN or infinite, before the run stops"),
    ),
    "optimizer": (
        Flag("learning-rate", float, "the highest (6e-4)", "X", ("-l", "--lr")),
        Flag("final-learning-rate", float, "the last (a tenth of the highest)", "X", ("--min-lr",)),
        Flag("final-fraction", float, "the last, as a share of the highest", "X", ("-q", "--learning-rate-decay-frac")),
        Flag("schedule", str, "cosine, linear, constant or wsd (cosine)", "NAME", ("-k", "--lr-scheduler")),
        Flag("warmup", int, "steps up to the highest rate (a twentieth of all)", aliases=("-u", "--warmup-iters")),
        Flag("decay-steps", int, "the step of the last rate (that of the last step)", aliases=("--lr-decay-iters",)),
        Flag("decay-lr", as_bool, "False is --schedule constant", "BOOL"),
        Flag("weight-decay", float, "of matrices (0.1)", "X", ("-c",)),
        Flag("beta1", float, "of AdamW (0.9)", "X"),
        Flag("beta2", float, "of AdamW (0.95)", "X"),
        Flag("epsilon", float, "of AdamW (1e-8)", "X"),
        Flag("clip", float, "the largest norm of the gradients, 0: any (1)", "X", ("--grad-clip",)),
    ),
    "several ranks (docs/distributed.md)": (
        Flag("mesh", str, "how they share the work, as dp=2,tp=2: dp batches, tp layers, cp positions (dp)", "AXES"),
        Flag("reduce-dtype", as_dtype, "in which ranks of dp add up gradients: f32, bf16 (f32)", "DTYPE"),
        Flag("sequence-parallel", as_bool, "let ranks of tp do norms on parts of the positions (False)", "BOOL"),
        Flag(
            "shard", str, "let ranks of dp share the optimizer's state, or the parameters too", "optimizer|parameters"
        ),
    ),
    "what happens meanwhile, every N steps": (
        Flag("log-every", int, "print a line (10)", aliases=("-lg", "--log-interval")),
        Flag("validate-every", int, "validate (250)", aliases=("-v", "--eval-interval", "--val-loss-every")),
        Flag("validate-batches", int, "with so many batches (20)", aliases=("-m", "--eval-iters", "--val-max-steps")),
        Flag("sample-every", int, "write a sample (0: never)", aliases=("-s",)),
        Flag("sample-tokens", int, "of so many tokens (64)", aliases=("-g",)),
        Flag("sample-prompt", str, "after this text", "TEXT"),
        Flag("checkpoint-every", int, "save a checkpoint (250)", aliases=("-n",)),
        Flag("compare-every", int, "compare the parameters of all ranks (0: only when they are saved)"),
        Flag("keep-last", int, "so many checkpoints stay (3)", aliases=("-nk",)),
    ),
    "results": (
        Flag(
            "out",
            str,
            "the run's directory (runs/MODEL-1, or the next that is free)",
            "DIR",
            ("-o", "--out-dir", "--output-dir"),
        ),
        Flag("resume", None, "go on from the last checkpoint in --out (or in the last run), with its flags"),
        Flag("resume-if", as_bool, "--resume by 0 or 1", "0|1", ("-y",)),
        Flag("dump-grads", str, "save the gradients of the first step (f32, not clipped)", "FILE.safetensors"),
        Flag("plot", None, "draw the losses as loss.png (needs matplotlib)"),
        Flag("json", None, "end with one line of JSON on stdout"),
        Flag("target", as_target, "cpu, or cuda for the first GPU (cpu)", "NAME", ("--device",)),
        Flag("threads", int, "run on N threads (all cores)"),
    ),
}
FLAGS = {flag.destination: flag for flags in GROUPS.values() for flag in flags}

# Flags of nanoGPT and llm.c that mean nothing here, by what they may say: "" is anything.
ANYTHING = ""
WITHOUT_MEANING: dict[str, tuple[str, str]] = {
    "--compile": (ANYTHING, "everything is compiled"),
    "--flash": (ANYTHING, "attention never holds its scores in memory"),
    "--tensorcores": (ANYTHING, "--dtype decides"),
    "--backend": (ANYTHING, "there is one process"),
    "--always_save_checkpoint": (ANYTHING, "--checkpoint-every decides"),
    "--wandb_log": ("False 0", "metrics are in metrics.jsonl and metrics.csv"),
    "--wandb_project": (ANYTHING, "metrics are in metrics.jsonl and metrics.csv"),
    "--wandb_run_name": (ANYTHING, "metrics are in metrics.jsonl and metrics.csv"),
    "--eval_only": ("False 0", "there is no run without steps"),
    "--inference_only": ("False 0", "there is no run without steps"),
    "--write_tensors": ("0", "--dump-grads writes gradients"),
    "--overfit_single_batch": ("0", "give data of one batch"),
    "-a": ("0", "give data of one batch"),
    "--dropout": ("0 0.0", "the model has no dropout"),
    "--bias": ("True 1", "GPT-2 has biases"),
    "--zero_stage": ("0 1", "there is one process"),
    "-z": ("0 1", "there is one process"),
    "-f": (ANYTHING, "--dtype decides"),
    "-w": (ANYTHING, "parameters and moments are f32"),
    "-ge": (ANYTHING, "the compiler decides what is fused"),
    "-r": (ANYTHING, "the compiler decides what is computed again"),
    "-sl": ("0", "steps are only skipped where they are not finite"),
    "-sg": ("0", "steps are only skipped where they are not finite"),
    "-nm": (ANYTHING, "--keep-last decides"),
    "-pn": ("1", "there is one process"),
    "-pr": ("0", "there is one process"),
    "-pg": (ANYTHING, "there is one process"),
}
