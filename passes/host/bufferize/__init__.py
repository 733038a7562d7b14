"""From values to memory: views become strides, results become buffers, buffers get places in one arena."""

from blu.passes.host.bufferize.bufferize import Bufferize
from blu.passes.host.bufferize.plan_memory import PlanMemory

__all__ = ["Bufferize", "PlanMemory"]
