"""GGUF files of random weights, of the types of Q4_K_M say, by dmlvk and by llama.cpp's own libraries."""

from __future__ import annotations

import ctypes
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click
import gguf
import numpy as np
import numpy.typing as npt

import dmlvk as dml
from dmlvk.bench.decoder import own_bytes
from dmlvk.bench.decoder_models import SIZES
from dmlvk.bench.gguf_models import TYPES, write_model
from dmlvk.bench.report import write_measured
from dmlvk.cli.selection import arithmetic_option, chosen_device, device_option, json_option
from dmlvk.language import LanguageModel, Sampling
from dmlvk.support.arithmetic import Arithmetic

_WARM_UP, _PROMPT_RUNS = 4, 6
"""Tokens that do not count, and runs of a prompt, of which the first does not."""

_PROMPTS = (
    *("The capital of France is", "Once upon a time, in a small village by the sea,", "def fibonacci(n):\n    "),
    *("Die wichtigsten Städte Deutschlands sind", "1, 2, 3, 5, 8, 13,"),
)
_MOST_PROMPT = 64  # Tokens
_LEAST_GAP = 1e-3  # Of what logits extend over, from which on the likeliest token must be the same
_MOST_AT_ONCE = 512  # Tokens that llama.cpp runs at once

_STRUCT_BYTES = 1024
"""More than llama.cpp's structures of parameters have: they are returned and passed by value, in memory."""

_LAYERS_OFFSET = 16  # Of ``n_gpu_layers`` in ``llama_model_params``, behind two pointers

_THREADS, _FUSED_ATTENTION, _CACHES = 28, 52, 104
"""Offsets in ``llama_context_params``: two numbers of threads, one for attention, the data types of keys and values."""

_HALF = 1  # FLOAT16, as caches have it where nobody says otherwise; 0 is FLOAT32

_ALL_LAYERS = 999


class _Parameters(ctypes.Structure):
    _fields_ = (("contents", ctypes.c_uint8 * _STRUCT_BYTES),)

    def put(self, offset: int, *numbers: int) -> None:
        """Writes numbers of 32 bits."""
        values = np.array(numbers, np.int32).view(np.uint8)
        self.contents[offset : offset + values.size] = values.tolist()

    def numbers(self, offset: int, count: int) -> list[int]:
        """Reads numbers of 32 bits."""
        made: list[int] = np.frombuffer(bytes(self.contents), np.int32, count, offset).tolist()
        return made


class _LlamaBatch(ctypes.Structure):
    _fields_ = (("tokens", ctypes.c_int32), ("rest", ctypes.c_void_p * 6))


class Own:
    """A model in dmlvk, as programs have it."""

    version = dml.__version__

    def __init__(self, file: Path, device: dml.Device, positions: int) -> None:
        self.device = device.info.name
        self._model = LanguageModel(file, device, max_length=positions)

    def close(self) -> None:
        """Frees what lies on the device."""
        self._model.close()

    def prompt(self, tokens: Sequence[int]) -> float:
        """What a text takes that stands alone, in milliseconds."""
        self._model.keep([])
        start = time.perf_counter()
        float(self._model.logits(tokens).numpy()[0, 0])
        return (time.perf_counter() - start) * 1e3

    def following(self, text: Sequence[int], count: int) -> list[float]:
        """What each of so many tokens takes behind a text, the likeliest ones, in milliseconds."""
        ends = list[float]()
        for _ in self._model.generate(text, Sampling(), most=count + 1):
            ends.append(time.perf_counter())
        return [float(taken) for taken in np.diff(ends) * 1e3]


class Llama:
    """A model in llama.cpp.

    Args:
        libraries: the folder with the libraries.
        places: tokens that there is room for.
        quiet: whether its messages are dropped.
        is_wide: whether caches are FLOAT32, and attention is not fused; with one thread.
    """

    def __init__(
        self, libraries: Path, model: Path, positions: int, *, quiet: bool = True, is_wide: bool = False
    ) -> None:
        ctypes.CDLL(str(libraries / "libggml-base.so"), mode=ctypes.RTLD_GLOBAL)
        ggml = ctypes.CDLL(_library(libraries, "libggml.*"), mode=ctypes.RTLD_GLOBAL)
        file = _library(libraries, "libllama.*")
        self._library, self.version = ctypes.CDLL(file), Path(file).stem.removeprefix("libllama.")
        self._silence = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)(lambda *_: None)
        if quiet:
            self._library.llama_log_set(self._silence, None)
        ggml.ggml_backend_load_all_from_path(str(libraries).encode())
        self._library.llama_backend_init()
        self.device = _devices(ggml)
        pointer = ctypes.c_void_p
        loaded = self._function("llama_model_load_from_file", pointer, ctypes.c_char_p, _Parameters)
        opened = self._function("llama_init_from_model", pointer, pointer, _Parameters)
        self._batch_of = self._function("llama_batch_get_one", _LlamaBatch, pointer, ctypes.c_int32)
        self._decode = self._function("llama_decode", ctypes.c_int32, pointer, _LlamaBatch)
        self._wait = self._function("llama_synchronize", None, pointer)
        self._logits = self._function("llama_get_logits_ith", ctypes.POINTER(ctypes.c_float), pointer, ctypes.c_int32)
        self._memory = self._function("llama_get_memory", pointer, pointer)
        self._clear = self._function("llama_memory_clear", None, pointer, ctypes.c_bool)
        of_model = self._function("llama_model_default_params", _Parameters)()
        of_model.put(_LAYERS_OFFSET, _ALL_LAYERS)
        self._model = loaded(str(model).encode(), of_model)
        if not self._model:
            raise SystemExit(f"{model}: llama.cpp cannot load it")
        of_context = self._function("llama_context_default_params", _Parameters)()
        of_context.put(0, positions, _MOST_AT_ONCE, _MOST_AT_ONCE)  # n_ctx, n_batch, n_ubatch
        if is_wide:
            if of_context.numbers(_CACHES, 2) != [_HALF, _HALF]:
                raise SystemExit("llama.cpp's structure of a context's parameters is another one than v0.5.0 has")
            of_context.put(_CACHES, 0, 0)
            of_context.put(_FUSED_ATTENTION, 0)
            of_context.put(_THREADS, 1, 1)
        self._context = opened(self._model, of_context)
        if not self._context:
            raise SystemExit(f"{model}: llama.cpp has no room for {positions} tokens")

    def _function(self, name: str, result: Any, *arguments: Any) -> Callable[..., Any]:
        function = getattr(self._library, name)
        function.restype, function.argtypes = result, arguments
        return function  # type: ignore[no-any-return]

    def clear(self) -> None:
        """Forgets all tokens."""
        self._clear(self._memory(self._context), True)

    def run(self, tokens: Sequence[int]) -> float:
        """What computing what stands behind tokens takes, until a logit is on the host; in milliseconds."""
        start = time.perf_counter()
        array = (ctypes.c_int32 * len(tokens))(*tokens)
        if self._decode(self._context, self._batch_of(array, len(tokens))):
            raise SystemExit(f"llama.cpp cannot run {len(tokens)} tokens")
        self._wait(self._context)
        float(self._logits(self._context, -1)[0])
        return (time.perf_counter() - start) * 1e3

    def prompt(self, tokens: Sequence[int]) -> float:
        """What a text takes that stands alone, in milliseconds."""
        self.clear()
        return self.run(tokens)

    def following(self, text: Sequence[int], count: int) -> list[float]:
        """What each of so many tokens takes behind a text, in milliseconds."""
        self.clear()
        for first in range(0, len(text), _MOST_AT_ONCE):
            self.run(text[first : first + _MOST_AT_ONCE])
        return [self.run([7 + i]) for i in range(count)]

    def encode(self, text: str) -> list[int]:
        """The tokens of a text, with the one that begins it."""
        pointer, number, flag = ctypes.c_void_p, ctypes.c_int32, ctypes.c_bool
        encoded = self._function(
            "llama_tokenize", number, pointer, ctypes.c_char_p, number, pointer, number, flag, flag
        )
        data = text.encode()
        array = (number * (len(data) + 8))()
        return list(array[: encoded(self._vocabulary(), data, len(data), array, len(array), True, True)])

    def logits(self, tokens: Sequence[int]) -> npt.NDArray[np.float32]:
        """Those behind the last token."""
        self.run(tokens)
        count = self._function("llama_vocab_n_tokens", ctypes.c_int32, ctypes.c_void_p)(self._vocabulary())
        return np.ctypeslib.as_array(self._logits(self._context, -1), (count,)).copy()

    def _vocabulary(self) -> Any:
        return self._function("llama_model_get_vocab", ctypes.c_void_p, ctypes.c_void_p)(self._model)


def write_unpacked(path: Path, made: Path) -> None:
    """Writes a GGUF file anew, with FLOAT32 weights of the same values."""
    reader = gguf.GGUFReader(path)
    writer = gguf.GGUFWriter(made, reader.fields["general.architecture"].contents())
    for name, field in reader.fields.items():
        if name != "general.architecture" and not name.startswith("GGUF."):
            is_array = field.types[0] is gguf.GGUFValueType.ARRAY
            writer.add_key_value(name, field.contents(), field.types[0], field.types[-1] if is_array else None)
    for tensor in reader.tensors:
        writer.add_tensor(tensor.name, gguf.dequantize(tensor.data, tensor.tensor_type).astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def compare_texts(libraries: Path, file: Path, tokens: int, folder: Path) -> bool:
    """Prints dmlvk's likeliest tokens behind some prompts beside llama.cpp's, whose weights are FLOAT32 of one value.

    Both read dmlvk's tokens. llama.cpp's kernels for packed weights round what these are multiplied by to 8 bits.

    Returns:
        Whether tokens are the same but where the two likeliest are nearer to each other than logits differ.
    """
    write_unpacked(file, folder / "unpacked.gguf")
    llama = Llama(libraries, folder / "unpacked.gguf", _MOST_PROMPT + tokens, is_wide=True)
    is_same = True
    with LanguageModel(file, max_length=_MOST_PROMPT + tokens) as model:
        for prompt in _PROMPTS:
            read = llama.encode(prompt)
            is_same &= read == model.encode(prompt, is_whole=True)
            llama.clear()
            model.keep([])
            made, off, others = list[int](), 0.0, list[str]()
            for _ in range(tokens):
                theirs, ours = llama.logits(read), model.logits(read).numpy()[0]
                read = [int(ours.argmax())]
                made += read
                off = max(off, float(np.abs(theirs - ours).max()))
                if (gap := float(ours.max() - ours[theirs.argmax()])) > 0:
                    others.append(f"token {len(made)}, {gap:.1e} below")
                    is_same &= gap < _LEAST_GAP * float(np.ptp(ours))
            print(f"{prompt!r} {model.decode(made)!r}")
            print(f"    logits differ by {off:.1e} of {np.ptp(ours):.0f} at most; other tokens: {others or 'none'}")
    return is_same


def _devices(ggml: ctypes.CDLL) -> str:
    """What llama.cpp may run on, the processor left out where there is another."""
    ggml.ggml_backend_dev_count.restype = ctypes.c_size_t
    ggml.ggml_backend_dev_get.restype, ggml.ggml_backend_dev_get.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
    describe = ggml.ggml_backend_dev_description
    describe.restype, describe.argtypes = ctypes.c_char_p, [ctypes.c_void_p]
    found = [describe(ggml.ggml_backend_dev_get(number)).decode() for number in range(ggml.ggml_backend_dev_count())]
    return ", ".join(found[:-1] or found)


def _library(folder: Path, pattern: str) -> str:
    found = sorted(path for path in folder.glob(f"{pattern}so") if "vulkan.so" not in path.name)
    if not found:
        raise SystemExit(f"{folder}: has no {pattern}so")
    return str(found[0])


class _Counts(NamedTuple):
    """What is timed."""

    prompts: Sequence[int]  # their tokens
    lengths: Sequence[int]  # of texts before tokens
    tokens: int  # of which medians are taken


def _numbers(_: click.Context, __: click.Parameter, text: str) -> list[int]:
    try:
        return [int(number) for number in text.split(",")]
    except ValueError:
        raise click.BadParameter(f"{text!r} is no list of numbers") from None


def _timed(name: str, opened: Callable[[], Own | Llama], before: int | None, counts: _Counts) -> dict[str, Any]:
    """Prints what a model takes.

    Args:
        before: what the process had for itself without it.
    """
    start = time.perf_counter()
    model = opened()
    made: dict[str, Any] = {"name": name, "opened": time.perf_counter() - start}
    made["library"] = {"name": name, "version": model.version, "device": model.device}
    print(f"{name}: {model.version} on {model.device}: opened in {made['opened']:.2f} s", flush=True)
    for count in counts.prompts:
        times = [model.prompt([5 + i % 1000 for i in range(count)]) for _ in range(_PROMPT_RUNS)]
        made[f"prompt of {count}"] = statistics.median(times[1:])
        print(f"{name}: prompt of {count:5}: {made[f'prompt of {count}']:8.3f} ms (the first time {times[0]:.1f})")
    for length in counts.lengths:
        times = model.following([5 + i % 1000 for i in range(length)], counts.tokens)
        made[f"token behind {length}"] = statistics.median(times[_WARM_UP:])
        print(f"{name}: token behind {length:5}: {made[f'token behind {length}']:8.3f} ms", flush=True)
    if before is not None and (now := own_bytes()) is not None:
        made["own_bytes"] = now - before
        print(f"{name}: {made['own_bytes'] / 1e9:.2f} GB of the host's memory beside the mapped file", flush=True)
    if isinstance(model, Own):
        model.close()
    return made


def _print_ratios(own: dict[str, Any], other: dict[str, Any]) -> None:
    for work in (name for name in own if name.startswith(("prompt", "token"))):
        print(f"{work}: {other[work] / own[work]:.2f} times as fast as llama.cpp")


@click.command()
@click.argument("libraries", required=False, type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("-s", "--size", type=click.Choice(list(SIZES)), default="tiny", show_default=True, help="Of the model.")
@click.option("-t", "--type", "kind", type=click.Choice(TYPES), default="Q4_0", show_default=True, help="Of the file.")
@click.option(
    "-l",
    "--lengths",
    default="16,512,4000",
    show_default=True,
    callback=_numbers,
    help="Of the text before, in tokens.",
)
@click.option("-p", "--prompts", default="512", show_default=True, callback=_numbers, help="Tokens, at most 512.")
@click.option("-n", "--tokens", type=click.IntRange(5), default=64, show_default=True, help="For medians.")
@click.option("--folder", type=click.Path(exists=True, file_okay=False, path_type=Path), help="Where models are kept.")
@click.option(
    "--text",
    "file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A GGUF file whose likeliest tokens are compared instead; exits with 1 where they are others.",
)
@click.option("--loud", is_flag=True, help="Show llama.cpp's messages.")
@device_option
@arithmetic_option
@json_option
def command(
    libraries: Path | None,
    size: str,
    kind: str,
    lengths: list[int],
    prompts: list[int],
    tokens: int,
    folder: Path | None,
    file: Path | None,
    loud: bool,
    device: str | None,
    arithmetic: Arithmetic | None,
    json_file: Path | None,
) -> None:
    """Time a GGUF file of random weights: opening it, prompts, and tokens one by one, by dmlvk and by llama.cpp.

    LIBRARIES is a folder with libllama*.so and libggml*.so as they are built, for example package/bins/linux-x64-vulkan
    of the npm package @node-llama-cpp/linux-x64-vulkan; without it dmlvk alone is timed. The Python package gguf writes
    the file. Numbers are medians. A token is on the host: dmlvk chooses it on the device, llama.cpp gives its logits.
    """
    if file is not None and libraries is None:
        raise click.UsageError("--text: needs LIBRARIES, whose tokens are compared")
    counts = _Counts(prompts, lengths, tokens)
    positions = max(max(lengths) + tokens + 16, *prompts)
    with tempfile.TemporaryDirectory() as temporary:
        if file is not None and libraries is not None:
            raise SystemExit(not compare_texts(libraries, file, tokens, Path(temporary)))
        model = (folder or Path(temporary)) / f"{size}-{kind}-{positions}.gguf"
        if not model.is_file():
            write_model(model, SIZES[size], positions, kind)
        before = own_bytes()
        with dml.Device(chosen_device(device), arithmetic=arithmetic) as opened:
            print(f"{size} {kind}, {model.stat().st_size / 1e9:.3f} GB, on {opened.info.name}, {opened.info.driver}")
            facts = opened.info
            results = [_timed("dmlvk", lambda: Own(model, opened, positions), before, counts)]
        if libraries is not None:
            before = own_bytes()
            results.append(
                _timed("llama.cpp", lambda: Llama(libraries, model, positions, quiet=not loud), before, counts)
            )
            _print_ratios(*results)
    if json_file is not None:
        write_measured(json_file, facts, [result.pop("library") for result in results], results)
