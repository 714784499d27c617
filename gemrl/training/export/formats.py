"""The formats in which a policy can be exported: their files, and what they cannot express."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

import numpy as np
import safetensors.numpy

from gemrl.core.exceptions import BadValue, RunFolderError
from gemrl.core.extras import check_installed
from gemrl.core.policy_graph import PolicyGraph
from gemrl.core.reading import exists
from gemrl.core.suggestions import unknown

SIDECAR = "policy.json"
"""The name of the description beside the arrays of a policy."""


@dataclass(frozen=True)
class Format:
    """An export format: its files, and the function that gives the content of each from a policy."""

    files: tuple[str, ...]
    contents: Callable[[PolicyGraph], tuple[bytes, ...]]
    needs: tuple[str, ...] = ()
    """Packages of the extra `export` without which it cannot be written."""
    lacks: frozenset[str] = frozenset()
    """Operations that it cannot express."""
    run: Callable[[Path, np.ndarray], np.ndarray] | None = None
    """The actions of the first file for a batch of observations, to check what was written; None if nothing here can run it."""

    def check(self, folder: Path) -> None:
        """Raises if a package is missing, or if a file that would be written exists."""
        for package in self.needs:
            check_installed(package, "export")
        for file in self.files:
            if exists(folder / file):
                raise RunFolderError(f"{folder / file} already exists; choose another folder with --out, or remove it")

    def check_expresses(self, graph: PolicyGraph, name: str) -> None:
        """Raises if the policy has an operation that the format cannot express."""
        if found := sorted(graph.operations & self.lacks):
            raise BadValue(f"this policy looks up {found[0]} in a memory, which {name} cannot express; use the format numpy")


def _about(graph: PolicyGraph) -> str:
    return json.dumps(graph.as_dict(), separators=(",", ":"))


def _script(name: str) -> bytes:
    return resources.files("gemrl.training.export").joinpath(name).read_bytes()


def _numpy(graph: PolicyGraph) -> tuple[bytes, ...]:
    target, named = io.BytesIO(), {SIDECAR: np.array(_about(graph)), **graph.arrays}
    np.savez(target, allow_pickle=False, **named)
    return target.getvalue(), _script("numpy_policy.py")


def _torch(graph: PolicyGraph) -> tuple[bytes, ...]:
    return safetensors.numpy.save(dict(graph.arrays), {SIDECAR: _about(graph)}), _script("torch_policy.py")


def _onnx(graph: PolicyGraph) -> tuple[bytes, ...]:
    from gemrl.training.export.onnx_file import onnx_bytes

    return (onnx_bytes(graph),)


def _run_onnx(file: Path, observations: np.ndarray) -> np.ndarray:
    from gemrl.training.export.onnx_file import onnx_actions

    return onnx_actions(file, observations)


_LOOKUP = frozenset({"neighbours", "keys"})

FORMATS: Mapping[str, Format] = {
    "numpy": Format(("policy.npz", "policy.py"), _numpy),
    "onnx": Format(("policy.onnx",), _onnx, needs=("onnx", "onnxruntime"), lacks=_LOOKUP, run=_run_onnx),
    "torch": Format(("policy.safetensors", "policy.py"), _torch, lacks=_LOOKUP),
}
"""The formats of a policy, by name."""


def format_named(name: str) -> Format:
    """The format with this name. Raises UnknownName if there is none."""
    if name not in FORMATS:
        raise unknown("format", name, FORMATS, f"; known: {', '.join(FORMATS)}")
    return FORMATS[name]
