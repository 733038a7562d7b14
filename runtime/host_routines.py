"""Steps of a program that the host computes itself, on memory that it can address."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from blu.errors import CacheError
from blu.plan.host_launch import HostLaunch, HostTensor
from blu.plan.routines import run_routine


def compute(launch: HostLaunch, operands: list[np.ndarray]) -> list[np.ndarray]:
    """What a step gives. CacheError where its plan says other results than there are."""
    found = [np.asarray(item) for item in run_routine(launch.routine, operands, dict(launch.numbers))]
    if [(item.shape, item.dtype) for item in found] != [(item.shape, item.numpy_dtype) for item in launch.results]:
        raise CacheError(f"damaged plan: {launch.routine} gives other results", advice="compile the program again")
    return found


def compute_at(launch: HostLaunch, addresses: Sequence[int]) -> None:
    """Do a step from memory to memory, which may be the same."""
    tensors = [array_at(*pair) for pair in zip(addresses, launch.tensors, strict=True)]
    count = len(launch.operands)
    for target, value in zip(tensors[count:], compute(launch, tensors[:count]), strict=True):
        target[...] = value


def holds_at(address: int) -> bool:
    """The bool at an address."""
    return ctypes.c_bool.from_address(address).value


def array_at(address: int, tensor: HostTensor) -> np.ndarray:
    """The array at an address."""
    if not tensor.nbytes:
        return np.empty(tensor.shape, tensor.numpy_dtype)
    memory: Any = (ctypes.c_char * tensor.nbytes).from_address(address)
    return np.frombuffer(memory, tensor.numpy_dtype).reshape(tensor.shape)
