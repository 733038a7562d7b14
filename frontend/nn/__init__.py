"""Modules: parameters and layers with torch's names and layouts, and GPT-2 with Hugging Face's."""

from blu.frontend.nn.attention import Attention
from blu.frontend.nn.gpt2 import GPT2, MLP, Block, GPT2Config
from blu.frontend.nn.gpt2_steps import loss as gpt2_loss
from blu.frontend.nn.layers import Conv1D, Embedding, LayerNorm, Linear, RMSNorm
from blu.frontend.nn.module import Module
from blu.frontend.nn.parameter import Parameter

__all__ = [
    "GPT2",
    "MLP",
    "Attention",
    "Block",
    "Conv1D",
    "Embedding",
    "GPT2Config",
    "LayerNorm",
    "Linear",
    "Module",
    "Parameter",
    "RMSNorm",
    "gpt2_loss",
]
