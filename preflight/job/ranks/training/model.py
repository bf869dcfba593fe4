"""What is trained? A small GPT, which learns lines of numbers in seconds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch
    from torch import nn


@dataclass(frozen=True)
class Shape:
    """The size of a model and of its input."""

    layers: int
    width: int
    heads: int
    vocabulary: int
    length: int
    batch: int


SHAPES = {
    "tiny": Shape(layers=2, width=64, heads=4, vocabulary=128, length=64, batch=4),
    "small": Shape(layers=6, width=512, heads=8, vocabulary=1024, length=256, batch=8),
    "medium": Shape(layers=12, width=768, heads=12, vocabulary=8192, length=512, batch=8),
}


def build_model(shape: Shape) -> nn.Module:
    """A small GPT: causal attention and a feed-forward layer, with pre-normalisation, `layers` times."""
    from torch import nn
    from torch.nn import functional
    from torch.utils.checkpoint import checkpoint

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.before_attention = nn.LayerNorm(shape.width)
            self.queries_keys_values = nn.Linear(shape.width, 3 * shape.width, bias=False)
            self.attended = nn.Linear(shape.width, shape.width, bias=False)
            self.before_feed_forward = nn.LayerNorm(shape.width)
            self.up = nn.Linear(shape.width, 4 * shape.width, bias=False)
            self.down = nn.Linear(4 * shape.width, shape.width, bias=False)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            count, length, width = x.shape
            heads = self.queries_keys_values(self.before_attention(x)).view(count, length, 3, shape.heads, -1)
            queries, keys, values = heads.permute(2, 0, 3, 1, 4)
            mixed = functional.scaled_dot_product_attention(queries, keys, values, is_causal=True)
            x = x + self.attended(mixed.transpose(1, 2).reshape(count, length, width))
            grown: torch.Tensor = self.down(functional.gelu(self.up(self.before_feed_forward(x))))
            return x + grown

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.keeps_activations = True
            self.token = nn.Embedding(shape.vocabulary, shape.width)
            self.position = nn.Embedding(shape.length, shape.width)
            self.blocks = nn.ModuleList(Block() for _ in range(shape.layers))
            self.head = nn.Sequential(nn.LayerNorm(shape.width), nn.Linear(shape.width, shape.vocabulary, bias=False))

        def forward(self, tokens: torch.Tensor) -> torch.Tensor:
            """The mean loss of predicting each token from those before it."""
            given, wanted = tokens[:, :-1], tokens[:, 1:]
            x = self.token(given) + self.position.weight[: given.shape[1]]
            for block in self.blocks:
                x = block(x) if self.keeps_activations else checkpoint(block, x, use_reentrant=False)
            return functional.cross_entropy(self.head(x).float().flatten(0, 1), wanted.flatten())

    return Model()


def loss_of(model: Any, tokens: torch.Tensor, precision: str) -> torch.Tensor:
    """The loss of a model, wrapped or not, on a batch, in the precision that is trained in."""
    import torch

    with torch.autocast(tokens.device.type, dtype=torch.bfloat16, enabled=precision == "bf16"):
        loss: torch.Tensor = model(tokens)
    return loss
