"""Modules: parameters and layers with torch's names and layouts, and GPT-2 with Hugging Face's."""

from blu import errors
from blu.frontend.nn import init
from blu.frontend.nn.attention import Attention, MultiheadAttention
from blu.frontend.nn.buffer import Buffer
from blu.frontend.nn.containers import ModuleDict, ModuleList, Sequential
from blu.frontend.nn.convolution import (
    AdaptiveAvgPool2d,
    AdaptiveMaxPool2d,
    AvgPool1d,
    AvgPool2d,
    AvgPool3d,
    Conv1d,
    Conv2d,
    Conv3d,
    ConvTranspose1d,
    ConvTranspose2d,
    ConvTranspose3d,
    MaxPool1d,
    MaxPool2d,
    MaxPool3d,
)
from blu.frontend.nn.gpt2 import GPT2, MLP, Block, GPT2Config
from blu.frontend.nn.gpt2_steps import loss as gpt2_loss
from blu.frontend.nn.layers import (
    Conv1D,
    Dropout,
    Embedding,
    GatedMLP,
    LayerNorm,
    Linear,
    PReLU,
    RMSNorm,
    SwiGLU,
)
from blu.frontend.nn.module import Module
from blu.frontend.nn.norms import BatchNorm, GroupNorm, InstanceNorm
from blu.frontend.nn.parameter import Parameter
from blu.frontend.nn.recurrent import GRU, LSTM

__all__ = [
    "GPT2",
    "GRU",
    "LSTM",
    "MLP",
    "AdaptiveAvgPool2d",
    "AdaptiveMaxPool2d",
    "Attention",
    "AvgPool1d",
    "AvgPool2d",
    "AvgPool3d",
    "BatchNorm",
    "Block",
    "Buffer",
    "Conv1D",
    "Conv1d",
    "Conv2d",
    "Conv3d",
    "ConvTranspose1d",
    "ConvTranspose2d",
    "ConvTranspose3d",
    "Dropout",
    "Embedding",
    "GPT2Config",
    "GatedMLP",
    "GroupNorm",
    "InstanceNorm",
    "LayerNorm",
    "Linear",
    "MaxPool1d",
    "MaxPool2d",
    "MaxPool3d",
    "Module",
    "ModuleDict",
    "ModuleList",
    "MultiheadAttention",
    "PReLU",
    "Parameter",
    "RMSNorm",
    "Sequential",
    "SwiGLU",
    "gpt2_loss",
    "init",
]

__getattr__ = errors.guessing(globals())
