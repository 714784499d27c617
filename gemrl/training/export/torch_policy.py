"""A policy that gemrl exported to policy.safetensors, as a module of PyTorch; needs torch, safetensors and numpy.

Use: Policy("policy.safetensors").act(observation), or the module itself on batches of tensors.
"""

import json
from typing import Any

import numpy as np
import torch
from safetensors import safe_open
from torch import Tensor
from torch.nn import functional


class Policy(torch.nn.Module):
    """A trained policy: steps that turn observations into actions. The arrays that they use are its buffers."""

    def __init__(self, path: str = "policy.safetensors") -> None:
        super().__init__()
        with safe_open(path, framework="pt") as file:
            about = json.loads(file.metadata()["policy.json"])
            for name in file.keys():  # noqa: SIM118 - not a dict
                self.register_buffer(name, file.get_tensor(name))
        self.shape, self.steps = tuple(about["observation"]["shape"]), about["steps"]

    def forward(self, observation: Tensor) -> Tensor:
        """The actions for a batch of observations."""
        known = {**dict(self.named_buffers()), "observation": observation}
        for output, operation, inputs, settings in self.steps:
            known[output] = OPERATIONS[operation](*(known[name] for name in inputs), **settings)
        return known["action"]

    @torch.no_grad()
    def act(self, observation: Any) -> Any:
        """The action for one observation, or the actions for a batch of them, as numpy arrays."""
        x = np.asarray(observation)
        several = x.ndim == len(self.shape) + 1
        if x.shape[several:] != self.shape:
            raise ValueError(f"an observation has shape {self.shape}, a batch (n, *{self.shape}), not {x.shape}")
        device = next((buffer.device for buffer in self.buffers()), None)
        actions = self(torch.tensor(x if several else x[None], device=device)).cpu().numpy()
        return actions if several else actions[0]


OPERATIONS: dict[str, Any] = {
    "cast": lambda x, dtype: x.to(getattr(torch, dtype)),
    "reshape": lambda x, shape: x.reshape(x.shape[0], *shape),
    "transpose": lambda x, axes: x.permute(axes),
    "columns": lambda x, count, start=0: x[:, start : start + count],
    "rows": lambda table, x: table[x[:, 0]],
    "one_hot": lambda x, states: (x == states).float(),
    "linear": lambda x, weight, bias: x @ weight + bias,
    "layer_norm": lambda x, scale, shift, epsilon: functional.layer_norm(x, scale.shape, scale, shift, epsilon),
    "convolution": lambda x, filters, bias, stride: functional.conv2d(x, filters, bias, stride),
    "relu": torch.relu,
    "elu": functional.elu,
    "join": lambda *x: torch.cat(x, -1),
    "mean_normalize": lambda x, smallest: x / x.abs().mean(-1, keepdim=True).clamp(min=smallest),
    "centre": lambda x: x - x.mean(-1, keepdim=True),
    "minimum": lambda *x: torch.stack(x).amin(0),
    "mean": lambda *x: torch.stack(x).mean(0),
    "argmax": lambda x: x.argmax(-1),
    "tanh": torch.tanh,
    "round": torch.round,
    "clip": torch.clamp,
    "add": torch.add,
    "subtract": torch.subtract,
    "multiply": torch.multiply,
    "divide": torch.divide,
}
