#!/usr/bin/env python3
"""Check that training by PyTorch on dmlvk follows the CPU's losses, and has the same bits on every device.

    python scripts/check_torch_bits.py [--steps 10] [--expect DIGEST]

A small CNN and a small transformer are trained on each device that is usable here, loss and optimizer included. A
digest of all losses and of the parameters afterwards is printed for each: a GPU elsewhere has the same one.

Exit status: 0 all are equal and near, 1 they are not, 2 wrong usage.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np
import torch

import dmlvk
import dmlvk.torch
from tests.torch.networks import Transformer, network

_NEAR = 1e-3
"""As a part of a loss, how far it may be from the CPU's."""


def _values(shape: Sequence[int], seed: int) -> torch.Tensor:
    """Random numbers that no version of PyTorch changes."""
    made: torch.Tensor = torch.from_numpy(np.random.default_rng(seed).standard_normal(shape).astype(np.float32))
    return made


def _batch(make: Callable[[], Any]) -> tuple[torch.Tensor, torch.Tensor]:
    random = np.random.default_rng(1)
    if make is Transformer:
        tokens = torch.from_numpy(random.integers(0, 50, (3, 7)))
        return tokens, tokens.roll(1, 1)
    return _values((6, 3, 16, 16), 2), torch.from_numpy(random.integers(0, 5, 6))


def trained(make: Callable[[], Any], device: dmlvk.Device | None, steps: int) -> tuple[list[float], bytes]:
    """Losses and the bytes of the parameters behind them, on a device or by PyTorch on the CPU."""
    torch._dynamo.reset()
    x, labels = _batch(make)
    model = make().train()
    with torch.no_grad():
        for number, (name, parameter) in enumerate(model.named_parameters()):
            if parameter.dim() > 1:
                parameter.copy_(_values(parameter.shape, number) * parameter[0].numel() ** -0.5)
            elif name.endswith("bias"):
                parameter.zero_()

    def loss_of(x: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        made = model(x)
        return torch.nn.functional.cross_entropy(made.reshape(-1, made.shape[-1]), labels.reshape(-1))

    if device is None:
        run, optimizer = loss_of, torch.optim.Adam(model.parameters(), lr=1e-2)
    else:
        options = {"device": device}
        run = torch.compile(loss_of, backend="dmlvk", options=options)
        optimizer = dmlvk.torch.Adam(model.parameters(), lr=1e-2, options=options)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = run(x, labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, b"".join(parameter.detach().numpy().tobytes() for parameter in model.parameters())


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the script; returns the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--expect", metavar="DIGEST", help="what each device must have")
    options = parser.parse_args(arguments)
    digests, farthest = set() if options.expect is None else {options.expect}, 0.0
    wanted = [trained(make, None, options.steps)[0] for make in (network, Transformer)]
    for info in dmlvk.list_devices():
        if not info.usable:
            continue
        digest, far = hashlib.sha256(), 0.0
        with dmlvk.Device(info.index) as device:
            for make, on_cpu in zip((network, Transformer), wanted, strict=True):
                losses, parameters = trained(make, device, options.steps)
                digest.update(np.array(losses).tobytes() + parameters)
                far = max(far, *(abs(a / b - 1) for a, b in zip(losses, on_cpu, strict=True)))
        print(f"{info.name}: {digest.hexdigest()[:16]}, losses within {far:.1e} of the CPU's", flush=True)
        digests.add(digest.hexdigest()[:16])
        farthest = max(farthest, far)
    return 0 if len(digests) == 1 and farthest <= _NEAR else 1


if __name__ == "__main__":
    sys.exit(main())
