"""PyTorch's programs on the device, eager, beside CUDA's."""

from __future__ import annotations

import multiprocessing
import os
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import click
import torch
import transformers
from torch.nn import functional

import dmlvk as dml
import dmlvk.torch
from dmlvk.bench.report import named, write_measured
from dmlvk.bench.torch_library import TorchLibrary
from dmlvk.cli.selection import arithmetic_option, chosen_device, device_option, json_option
from dmlvk.support.arithmetic import Arithmetic
from dmlvk.torch.types import NAME

_CHAIN = 400
"""Operators whose host time is taken."""

VARIABLE = "DMLVK_TORCH_DEVICE"

_FIRST = 4
"""Calls that are not counted: the first ones make graphs, and kernels."""

Work = Callable[[], torch.Tensor]
_Times = tuple[float, float, float, list[float]]


def _module(where: str, model: torch.nn.Module, dtype: torch.dtype) -> torch.nn.Module:
    return model.to(device=where, dtype=dtype)


def _trained(model: torch.nn.Module, optimizer: torch.optim.Optimizer, loss: Callable[[], torch.Tensor]) -> Work:
    def step() -> torch.Tensor:
        optimizer.zero_grad()
        made = loss()
        made.backward()
        optimizer.step()
        return made.detach()

    return step


def _resnet(where: str, dtype: torch.dtype, is_tiny: bool) -> Work:
    """A step of ResNet-50 (He et al., 2016) with 32 pictures, by SGD with momentum."""
    count, size = (2, 64) if is_tiny else (32, 224)
    pictures, labels = torch.randn(count, 3, size, size), torch.randint(0, 1000, (count,))
    config = transformers.ResNetConfig(num_labels=1000)
    model = _module(where, transformers.ResNetForImageClassification(config).train(), dtype)
    x, y = pictures.to(where, dtype), labels.to(where)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    return _trained(model, optimizer, lambda: functional.cross_entropy(model(x).logits, y))


def _gpt(where: str, dtype: torch.dtype, is_tiny: bool) -> Work:
    """A step of GPT-2 of 124 million parameters with 8 texts of 512 tokens, by AdamW."""
    layers, count, length = (2, 2, 16) if is_tiny else (12, 8, 512)
    config = transformers.GPT2Config(n_layer=layers, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)
    tokens = torch.randint(0, 50257, (count, length))
    model = _module(where, transformers.GPT2LMHeadModel(config).train(), dtype)
    x = tokens.to(where)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)

    def loss() -> torch.Tensor:
        logits = model(x, use_cache=False).logits
        return functional.cross_entropy(logits[:, :-1].flatten(0, 1), x[:, 1:].flatten())

    return _trained(model, optimizer, loss)


def _inference(where: str, dtype: torch.dtype, model: torch.nn.Module, x: torch.Tensor) -> Work:
    own = _module(where, model.eval(), dtype)
    held = x.to(where, dtype) if x.is_floating_point() else x.to(where)

    def run() -> torch.Tensor:
        with torch.no_grad():
            made: torch.Tensor = own(held).last_hidden_state
            return made

    return run


def _bert(where: str, dtype: torch.dtype, is_tiny: bool) -> Work:
    """BERT-base, 8 texts of 128 tokens."""
    config = transformers.BertConfig(num_hidden_layers=2 if is_tiny else 12)
    return _inference(where, dtype, transformers.BertModel(config), torch.randint(0, 30522, (8, 128)))


def _vit(where: str, dtype: torch.dtype, is_tiny: bool) -> Work:
    """ViT-base, 8 pictures."""
    config = transformers.ViTConfig(num_hidden_layers=2 if is_tiny else 12)
    return _inference(where, dtype, transformers.ViTModel(config), torch.randn(8, 3, 224, 224))


def _convnext(where: str, dtype: torch.dtype, is_tiny: bool) -> Work:
    """ConvNeXt-tiny, 8 pictures."""
    config = transformers.ConvNextConfig(depths=[1, 1, 2, 1] if is_tiny else [3, 3, 9, 3])
    return _inference(where, dtype, transformers.ConvNextModel(config), torch.randn(8, 3, 224, 224))


def _chain(where: str, dtype: torch.dtype, is_tiny: bool) -> Work:
    """Small operators, one behind the other."""
    x = torch.ones(64, 64, dtype=dtype).to(where)

    def run() -> torch.Tensor:
        made = x
        for _ in range(_CHAIN // 4):
            made = torch.tanh((made + x) * 0.5) - x
        return made

    return run


_WORKS: dict[str, Callable[[str, torch.dtype, bool], Work]] = {
    "chain": _chain,
    "bert": _bert,
    "vit": _vit,
    "convnext": _convnext,
    "gpt-training": _gpt,
    "resnet-training": _resnet,
}


def _measured(where: str, work: Work, repeats: int) -> _Times:
    """Seconds of the first call, medians of a call and of its part until it returns, and what the first calls gave."""
    wait = getattr(torch, where).synchronize
    whole, on_host, made = [], [], list[float]()
    for number in range(_FIRST + repeats):
        start = time.perf_counter()
        result = work()
        between = time.perf_counter()
        wait()
        whole.append(time.perf_counter() - start)
        on_host.append(between - start)
        if number < _FIRST:
            made.append(float(result.float().mean()))
    return whole[0], statistics.median(whole[_FIRST:]), statistics.median(on_host[_FIRST:]), made


def _on(where: str, name: str, dtype: torch.dtype, is_tiny: bool, repeats: int) -> _Times:
    torch.manual_seed(0)
    with torch.device("cpu"):
        work = _WORKS[name](where, dtype, is_tiny)
    return _measured(where, work, repeats)


def _in_another_process(*arguments: Any) -> _Times:
    """As :func:`_on` without the device dmlvk, beside which PyTorch computes no gradients on CUDA."""
    before = os.environ.get(VARIABLE)
    os.environ[VARIABLE] = "none"
    try:
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            return pool.apply(_on, arguments)
    finally:
        os.environ.pop(VARIABLE)
        if before is not None:
            os.environ[VARIABLE] = before


def _compared(names: Sequence[str], dtype: torch.dtype, is_tiny: bool, repeats: int) -> Iterator[dict[str, Any]]:
    for name in names:
        found: dict[str, Any] = {"work": name, "dtype": str(dtype)}
        for where in (NAME, "cuda") if torch.cuda.is_available() else (NAME,):
            run = _in_another_process if where == "cuda" else _on
            first, whole, on_host, made = run(where, name, dtype, is_tiny, repeats)
            found[where] = {"first": first, "seconds": whole, "host": on_host, "results": made}
            host = f"{on_host / _CHAIN * 1e6:.1f} µs an operator" if name == "chain" else f"{on_host * 1e3:.2f} ms"
            print(f"{name} {where}: {whole * 1e3:.2f} ms, of them the host until it returns: {host};", end=" ")
            print(f"the first call {first:.1f} s; {[f'{one:.6g}' for one in made]}", flush=True)
        if "cuda" in found:
            print(f"{name}: {found['cuda']['seconds'] / found[NAME]['seconds']:.3f} of CUDA's speed", flush=True)
        yield found


@click.command()
@click.argument("names", nargs=-1, type=click.Choice(list(_WORKS)))
@device_option
@click.option("--dtype", type=click.Choice(["float32", "float16"]), default="float32", show_default=True)
@click.option("--tiny", is_flag=True, help="Few layers and small pictures, to try the command.")
@click.option("--repeats", type=click.IntRange(1), default=20, show_default=True, help="Calls that are counted.")
@arithmetic_option
@json_option
def command(
    names: Sequence[str],
    device: str | None,
    dtype: str,
    tiny: bool,
    repeats: int,
    arithmetic: Arithmetic | None,
    json_file: Path | None,
) -> None:
    """Time PyTorch's own programs, eager, on the device dmlvk and on CUDA's, in turn.

    Inference of BERT, ViT and ConvNeXt of transformers, training steps of ResNet-50 and of GPT-2 with 124 million
    parameters, and a chain of small operators, all if none is named. Without CUDA only dmlvk's are timed.
    """
    opened = dml.Device(chosen_device(device), arithmetic=arithmetic)
    torch.dmlvk.use(opened)  # type: ignore[attr-defined]
    print(f"{opened.info.name}, PyTorch {torch.__version__}, {dtype}", flush=True)
    results = list(_compared(names or list(_WORKS), getattr(torch, dtype), tiny, repeats))
    print(f"the CPU computed: {torch.dmlvk.fallbacks() or 'nothing'}")
    if json_file is not None:
        write_measured(json_file, opened.info, [named(TorchLibrary(torch))], results)
