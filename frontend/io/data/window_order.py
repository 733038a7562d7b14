"""The order of an epoch: a permutation computed place by place, so that it takes no memory, and no time to resume.

A Feistel network permutes the numbers of an even count of bits; numbers beyond the wanted range are sent through it
again until they fall inside ("cycle walking"). NumPy's own shuffles may change from one version to the next; this
order never does.
"""

from __future__ import annotations

import hashlib

import numpy as np

ROUNDS = 8


def permuted(places: np.ndarray, count: int, seed: int, epoch: int) -> np.ndarray:
    """What stands at `places` (int64, in [0, count)) of the permutation of range(count) for this seed and epoch."""
    bits = max(1, ((count - 1).bit_length() + 1) // 2)
    keys = _round_keys(seed, epoch)
    found = _feistel(places.astype(np.uint64), bits, keys)
    while (outside := found >= count).any():
        found[outside] = _feistel(found[outside], bits, keys)
    return found.astype(np.int64)


def _round_keys(seed: int, epoch: int) -> np.ndarray:
    digest = hashlib.blake2b(f"{seed} {epoch}".encode(), digest_size=8 * ROUNDS).digest()
    return np.frombuffer(digest, "<u8")


def _feistel(values: np.ndarray, bits: int, keys: np.ndarray) -> np.ndarray:
    """A permutation of the numbers below 2 ** (2 * bits)."""
    shift, mask = np.uint64(bits), np.uint64((1 << bits) - 1)
    left, right = values >> shift, values & mask
    for index in range(ROUNDS):
        left, right = right, left ^ (_mixed(right ^ keys[index]) & mask)
    return left << shift | right


def _mixed(values: np.ndarray) -> np.ndarray:
    """Every bit of the result depends on every bit of the value (the finaliser of SplitMix64)."""
    values = (values ^ values >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ values >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return values ^ values >> np.uint64(31)
