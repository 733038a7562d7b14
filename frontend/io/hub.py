"""Models of the Hugging Face hub: from the local cache when they are there, else downloaded, else a quick refusal."""

from __future__ import annotations

import re
import threading
from pathlib import Path

from blu.errors import WeightsError
from blu.frontend.io.tokenizer import has_tokenizer
from blu.frontend.io.weights import has_weights

REACH_SECONDS = 3.0
ETAG_SECONDS = 5.0
PATTERNS = (
    "config.json",
    "generation_config.json",
    "model.safetensors",
    "model.safetensors.index.json",
    "model-*.safetensors",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "vocab.json",
    "merges.txt",
)
ADVICE = (
    "give a directory with config.json and model.safetensors (`blu-compile DIR`), take random weights "
    "(`--weights random:SEED`), or set HF_HUB_CACHE to a Hugging Face cache that has the model"
)


def is_repository_id(name: str) -> bool:
    """Whether `name` has the form of a hub id: `model` or `owner/model`."""
    return bool(re.fullmatch(r"[A-Za-z0-9][\w.-]{0,95}(/[A-Za-z0-9][\w.-]{0,95})?", name)) and ".." not in name


def snapshot(repository: str, asked: str) -> Path:
    """The local directory of the hub model `repository`, downloaded when the cache does not have it.

    `asked` is what the user called it, for the error.
    Raises WeightsError within a few seconds when the cache has no weights and the hub cannot be reached.
    """
    cached = _cached_snapshot(repository)
    if cached and has_tokenizer(cached):
        return cached
    obstacle = _obstacle()
    if obstacle and cached:
        return cached
    if obstacle:
        raise _failure(repository, asked, obstacle)
    return _download(repository, asked)


def _cached_snapshot(repository: str) -> Path | None:
    """The snapshot of `main` in the cache, when it has a configuration and all weights.

    The cache's layout is documented and stable; asking it directly saves the import of the whole hub client.
    """
    folder = _cache_directory() / f"models--{repository.replace('/', '--')}"
    try:
        commit = (folder / "refs" / "main").read_text().strip()
    except (OSError, ValueError):
        return None
    directory = folder / "snapshots" / commit
    if not re.fullmatch(r"[0-9a-f]{1,64}", commit) or not (directory / "config.json").is_file():
        return None
    return directory if has_weights(directory) else None


def _cache_directory() -> Path:
    from huggingface_hub import constants

    return Path(constants.HF_HUB_CACHE)


def _obstacle() -> str | None:
    """Why the hub cannot be asked, or None. The client would spend up to a minute on timeouts and retries."""
    from huggingface_hub import constants

    if constants.HF_HUB_OFFLINE:
        return "not asked, because HF_HUB_OFFLINE is set"
    answers: list[str | None] = []
    # In a thread, because looking up a host name knows no timeout.
    thread = threading.Thread(target=lambda: answers.append(_reach(constants.ENDPOINT)), daemon=True)
    thread.start()
    thread.join(REACH_SECONDS + 0.5)
    return answers[0] if answers else f"no answer within {REACH_SECONDS:.0f} s"


def _reach(endpoint: str) -> str | None:
    """None when something answers at `endpoint`, else the reason."""
    import urllib.error
    import urllib.request

    try:
        with urllib.request.urlopen(urllib.request.Request(endpoint, method="HEAD"), timeout=REACH_SECONDS):
            return None
    except urllib.error.HTTPError:
        return None
    except OSError as error:
        reason = getattr(error, "reason", error)
        # A certificate that Python's own store does not know may still satisfy the hub client.
        return None if "certificate" in str(reason).lower() else f"cannot be reached: {reason}"
    except ValueError as error:
        return f"cannot be reached: {error}"


def _download(repository: str, asked: str) -> Path:
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(repository, allow_patterns=list(PATTERNS), etag_timeout=ETAG_SECONDS))
    except Exception as error:  # the client raises httpx, OSError and ValueError families, differing by version
        reason = (str(error).strip().splitlines() or [""])[0]
        raise _failure(repository, asked, f"{type(error).__name__}: {reason}") from error


def _failure(repository: str, asked: str, obstacle: str) -> WeightsError:
    from huggingface_hub import constants

    tried = (
        f"the directory {asked}: does not exist",
        f"the cache {constants.HF_HUB_CACHE}: no complete snapshot of {repository}",
        f"{constants.ENDPOINT}/{repository}: {obstacle}",
    )
    return WeightsError(f"cannot get the weights of {asked!r}; tried\n    " + "\n    ".join(tried), advice=ADVICE)
