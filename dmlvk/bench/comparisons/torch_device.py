"""PyTorch's programs on the device, eager, beside CUDA's, or with the CPU's results."""

from __future__ import annotations

import multiprocessing
import os
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click
import numpy as np
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

_SAMPLES = 64  # Elements of a result that are compared, about

Work = Callable[[], torch.Tensor]


class _Times(NamedTuple):
    first: float  # seconds of the first call
    seconds: float  # the median of a call
    host: float  # the median of its part until it returns
    processor: float  # likewise, without what the thread waits
    memory: int | None  # bytes that tensors take at most; ``None``: nobody says
    results: list[list[float]]  # some elements of what the first calls gave


class _Precision(NamedTuple):
    """What a program computes in.

    Attributes:
        name: a type's, or ``amp``: mixed precision as PyTorch has it.
    """

    where: str
    name: str

    @property
    def dtype(self) -> torch.dtype:
        return torch.float16 if self.name == "float16" else torch.float32

    def module(self, model: torch.nn.Module) -> torch.nn.Module:
        return model.to(device=self.where, dtype=self.dtype)

    def autocast(self) -> torch.autocast:
        return torch.autocast(self.where, torch.float16, enabled=self.name == "amp")

    def trained(self, optimizer: torch.optim.Optimizer, loss: Callable[[], torch.Tensor]) -> Work:
        scaler = torch.amp.GradScaler(self.where, enabled=self.name == "amp")

        def step() -> torch.Tensor:
            optimizer.zero_grad()
            with self.autocast():
                made = loss()
            scaler.scale(made).backward()  # type: ignore[no-untyped-call]  # PyTorch has no types for it
            scaler.step(optimizer)
            scaler.update()
            return made.detach()

        return step

    def inference(self, model: torch.nn.Module, x: torch.Tensor) -> Work:
        own = self.module(model.eval())
        held = x.to(self.where, self.dtype) if x.is_floating_point() else x.to(self.where)

        def run() -> torch.Tensor:
            with torch.no_grad(), self.autocast():
                made: torch.Tensor = own(held).last_hidden_state
                return made

        return run


def _resnet(precision: _Precision, is_tiny: bool) -> Work:
    """A step of ResNet-50 (He et al., 2016) with 32 pictures, by SGD with momentum."""
    count, size = (2, 64) if is_tiny else (32, 224)
    pictures, labels = torch.randn(count, 3, size, size), torch.randint(0, 1000, (count,))
    config = transformers.ResNetConfig(num_labels=1000)
    model = precision.module(transformers.ResNetForImageClassification(config).train())
    x, y = pictures.to(precision.where, precision.dtype), labels.to(precision.where)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    return precision.trained(optimizer, lambda: functional.cross_entropy(model(x).logits, y))


def _gpt(precision: _Precision, is_tiny: bool) -> Work:
    """A step of GPT-2 of 124 million parameters with 8 texts of 512 tokens, by AdamW."""
    layers, count, length, vocabulary = (2, 2, 16, 1024) if is_tiny else (12, 8, 512, 50257)
    config = transformers.GPT2Config(
        vocab_size=vocabulary, n_layer=layers, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0
    )
    tokens = torch.randint(0, vocabulary, (count, length))
    model = precision.module(transformers.GPT2LMHeadModel(config).train())
    x = tokens.to(precision.where)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)

    def loss() -> torch.Tensor:
        logits = model(x, use_cache=False).logits
        return functional.cross_entropy(logits[:, :-1].flatten(0, 1), x[:, 1:].flatten())

    return precision.trained(optimizer, loss)


def _bert(precision: _Precision, is_tiny: bool) -> Work:
    """BERT-base, 8 texts of 128 tokens."""
    config = transformers.BertConfig(num_hidden_layers=2 if is_tiny else 12)
    return precision.inference(transformers.BertModel(config), torch.randint(0, 30522, (8, 128)))


def _vit(precision: _Precision, is_tiny: bool) -> Work:
    """ViT-base, 8 pictures."""
    config = transformers.ViTConfig(num_hidden_layers=2 if is_tiny else 12)
    return precision.inference(transformers.ViTModel(config), torch.randn(8, 3, 224, 224))


def _convnext(precision: _Precision, is_tiny: bool) -> Work:
    """ConvNeXt-tiny, 8 pictures."""
    config = transformers.ConvNextConfig(depths=[1, 1, 2, 1] if is_tiny else [3, 3, 9, 3])
    return precision.inference(transformers.ConvNextModel(config), torch.randn(8, 3, 224, 224))


def _chain(precision: _Precision, is_tiny: bool) -> Work:
    """Small operators, one behind the other."""
    x = torch.ones(64, 64, dtype=precision.dtype).to(precision.where)

    def run() -> torch.Tensor:
        made = x
        for _ in range(_CHAIN // 4):
            made = torch.tanh((made + x) * 0.5) - x
        return made

    return run


_WORKS: dict[str, Callable[[_Precision, bool], Work]] = {
    "chain": _chain,
    "bert": _bert,
    "vit": _vit,
    "convnext": _convnext,
    "gpt-training": _gpt,
    "resnet-training": _resnet,
}


def _measured(where: str, work: Work, repeats: int) -> _Times:
    module: Any = getattr(torch, where)
    whole, on_host, computed, results = [], [], [], list[list[float]]()
    for number in range(_FIRST + repeats):
        start, begin = time.perf_counter(), time.thread_time()
        result = work()
        between = time.perf_counter()
        computed.append(time.thread_time() - begin)
        module.synchronize()
        whole.append(time.perf_counter() - start)
        on_host.append(between - start)
        if number < _FIRST:
            flat = result.cpu().flatten()
            results.append(flat[:: -(-len(flat) // _SAMPLES)].tolist())
    memory = None if where == "cpu" else int(module.max_memory_allocated())
    seconds, host, processor = (statistics.median(each[_FIRST:]) for each in (whole, on_host, computed))
    return _Times(whole[0], seconds, host, processor, memory, results)


def _on(where: str, name: str, precision: str, is_tiny: bool, repeats: int) -> _Times:
    torch.manual_seed(0)
    torch.backends.cudnn.allow_tf32 = False  # FLOAT32 is FLOAT32, as PyTorch has it for products
    if where != "cpu":
        getattr(torch, where).reset_peak_memory_stats()
    with torch.device("cpu"):
        work = _WORKS[name](_Precision(where, precision), is_tiny)
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


def _compared(names: Sequence[str], precision: str, is_tiny: bool, repeats: int) -> Iterator[dict[str, Any]]:
    other = "cuda" if torch.cuda.is_available() else "cpu"
    for name in names:
        times = {}
        for where in (NAME, other):
            run = _in_another_process if where == "cuda" else _on
            times[where] = each = run(where, name, precision, is_tiny, repeats)
            host = f"{each.host / _CHAIN * 1e6:.1f} µs an operator" if name == "chain" else f"{each.host * 1e3:.2f} ms"
            host += f", of which {each.processor / each.host:.0%} are work of its thread"
            print(f"{name} {where}: {each.seconds * 1e3:.2f} ms, of them the host until it returns: {host};", end=" ")
            print(f"the first call {each.first:.1f} s", end="" if each.memory else "\n")
            if each.memory:
                print(f"; {each.memory / 2**20:.0f} MiB of tensors at most", flush=True)
        own, peer = times.values()
        first, *_, last = np.abs(np.subtract(own.results, peer.results)).max(1)
        speed = f"{peer.seconds / own.seconds:.3f} of CUDA's speed; " if other == "cuda" else ""
        most = np.abs(peer.results[0]).max()
        print(f"{name}: {speed}results of {most:.4g} differ by {first:.2g} at most, after some calls by {last:.2g}")
        yield {"work": name, "precision": precision, **{where: each._asdict() for where, each in times.items()}}


@click.command()
@click.argument("names", nargs=-1, type=click.Choice(list(_WORKS)))
@device_option
@click.option(
    "--precision",
    type=click.Choice(["float32", "float16", "amp"]),
    default="float32",
    show_default=True,
    help="amp: torch.autocast with FLOAT16, and GradScaler.",
)
@click.option("--tiny", is_flag=True, help="Few layers and small pictures, to try the command.")
@click.option("--repeats", type=click.IntRange(1), default=20, show_default=True, help="Calls that are counted.")
@arithmetic_option
@json_option
def command(
    names: Sequence[str],
    device: str | None,
    precision: str,
    tiny: bool,
    repeats: int,
    arithmetic: Arithmetic | None,
    json_file: Path | None,
) -> None:
    """Time PyTorch's own programs, eager, on the device dmlvk and on CUDA's, in turn, and compare their results.

    Inference of BERT, ViT and ConvNeXt of transformers, training steps of ResNet-50 and of GPT-2 with 124 million
    parameters, and a chain of small operators, all if none is named. Without CUDA the CPU stands beside. CUDA's run in
    a process of their own, as PyTorch computes no gradients on it beside a device that is written in Python.
    """
    opened = dml.Device(chosen_device(device), arithmetic=arithmetic)
    torch.dmlvk.use(opened)  # type: ignore[attr-defined]
    print(f"{opened.info.name}, PyTorch {torch.__version__}, {precision}", flush=True)
    results = list(_compared(names or list(_WORKS), precision, tiny, repeats))
    print(f"the CPU computed: {torch.dmlvk.fallbacks() or 'nothing'}")
    if json_file is not None:
        write_measured(json_file, opened.info, [named(TorchLibrary(torch))], results)
