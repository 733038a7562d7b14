"""GPT-2 in PyTorch, written for speed: fused attention, tied head. Parameters are called as in Blu's checkpoints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def gpt2(torch: Any, config: Mapping[str, Any]) -> Any:
    """A module that gives the mean loss of targets after tokens, both [B, T], for a config.json; weights are random."""
    nn, functional = torch.nn, torch.nn.functional
    width, heads, vocabulary = config["n_embd"], config["n_head"], config["vocab_size"]

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.attn = nn.ModuleDict({"c_attn": nn.Linear(width, 3 * width), "c_proj": nn.Linear(width, width)})
            self.mlp = nn.ModuleDict({"c_fc": nn.Linear(width, 4 * width), "c_proj": nn.Linear(4 * width, width)})

        def forward(self, x: Any) -> Any:
            batch, tokens, _ = x.shape
            split = self.attn["c_attn"](self.ln_1(x)).view(batch, tokens, 3, heads, width // heads)
            seen = functional.scaled_dot_product_attention(*split.permute(2, 0, 3, 1, 4).unbind(0), is_causal=True)
            x = x + self.attn["c_proj"](seen.transpose(1, 2).reshape(batch, tokens, width))
            inner = functional.gelu(self.mlp["c_fc"](self.ln_2(x)), approximate="tanh")
            return x + self.mlp["c_proj"](inner)

    class Gpt2(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.wte, self.wpe = nn.Embedding(vocabulary, width), nn.Embedding(config["n_positions"], width)
            self.h, self.ln_f = nn.ModuleList(Block() for _ in range(config["n_layer"])), nn.LayerNorm(width)
            for item in self.parameters():
                if item.ndim >= 2:
                    nn.init.normal_(item, std=0.02)

        def forward(self, tokens: Any, targets: Any) -> Any:
            x = self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1], device=tokens.device))
            for block in self.h:
                x = block(x)
            logits = functional.linear(self.ln_f(x), self.wte.weight)
            return functional.cross_entropy(logits.view(-1, vocabulary), targets.view(-1))

    return Gpt2()


def as_in_blu(name: str, tensor: Any) -> Any:
    """A parameter, or its gradient, as Blu has it: weights of layers are [in, out]."""
    return tensor.t() if ".c_" in name and tensor.ndim == 2 else tensor


def take_parameters(torch: Any, model: Any, state: Mapping[str, Any]) -> None:
    """Give a module the numbers of a checkpoint of Blu's."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(as_in_blu(name, torch.from_numpy(state[name])))


def decay_groups(model: Any, decay: float) -> list[dict[str, Any]]:
    """Parameters for AdamW: weights of layers and embeddings decay, the rest does not."""
    decayed = [item for item in model.parameters() if item.ndim >= 2]
    other = [item for item in model.parameters() if item.ndim < 2]
    return [{"params": decayed, "weight_decay": decay}, {"params": other, "weight_decay": 0.0}]
