"""What is on disk: models in Hugging Face's layout, tokenizers, training data, checkpoints. Knows no MLIR."""

from blu.frontend.io.checkpoints.checkpoint import Checkpoint
from blu.frontend.io.checkpoints.checkpoints import Checkpoints
from blu.frontend.io.data.token_shards import TokenShards
from blu.frontend.io.gpt2 import PRESETS, expected_shapes, gelu_form, random_state_dict
from blu.frontend.io.huggingface import gpt2_state_dict, load_config, resolve, save_pretrained
from blu.frontend.io.safetensors import load_file, save_file
from blu.frontend.io.state_dict import Differences, cast, check_state_dict
from blu.frontend.io.tokenizer import StreamDecoder, Tokenizer, load_tokenizer
from blu.frontend.io.weights import load_weights

__all__ = [
    "PRESETS",
    "Checkpoint",
    "Checkpoints",
    "Differences",
    "StreamDecoder",
    "TokenShards",
    "Tokenizer",
    "cast",
    "check_state_dict",
    "expected_shapes",
    "gelu_form",
    "gpt2_state_dict",
    "load_config",
    "load_file",
    "load_tokenizer",
    "load_weights",
    "random_state_dict",
    "resolve",
    "save_file",
    "save_pretrained",
]
