"""Attacks by descriptions, graphs, open sizes, folders of language models and options of the command line."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import io
import itertools
import os
import random
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import numpy as np

import dmlvk as dml
from dmlvk.cli import cli, main
from dmlvk.conformance.samples import SampleCase, sample_cases
from dmlvk.graphs import ConstantGraphNode, GraphDesc
from dmlvk.language import Conversation, LanguageModel, convert_gguf
from dmlvk.operators import OPERATORS, Field
from tests.graphs.random_graphs import Builder
from tests.language.damage import damage_folder, damaged_gguf
from tests.language.small_llama import write_folder
from tests.language.test_files import write_folder as write_plain_folder
from tests.onnx import random_decoders
from tests.onnx.contradicting_caches import OnnxRuntime, fault_of
from tests.onnx.random_content_models import compared as compared_by_contents
from tests.onnx.random_open_models import case_of, compared

MOST_BYTES = 2**22  # Of the tensors of what is run; what is larger is compiled only

_STRANGE: tuple[Any, ...] = (
    *(None, True, "x", "", b"x", 1j, object(), [], (), {}, [1], [-1], [2**32], [[1]], np.array([1, 2]), dml.FLOAT32),
    *(-1, 0, 1, 2, 3, 2**16, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**64, -(2**63)),
    *(0.5, 1e39, float("nan"), float("inf"), -float("inf"), np.float32("nan"), np.int64(3)),
)

_SIZES = (1, 1, 2, 3, 5, 8, 17, 64, 1000, 2**16, 2**20, 2**31, 0, -1)


@functools.cache
def _cases() -> dict[str, list[SampleCase]]:
    by_name: dict[str, list[SampleCase]] = {}
    for case in sample_cases():
        by_name.setdefault(case.desc_class.operator_name, []).append(case)
    return by_name


def description(seed: int, device: dml.Device) -> str:
    """A description that is nearly sound is made, compiled and run twice, with the same bits."""
    choose = random.Random(seed)
    kind = OPERATORS[choose.choice(sorted(OPERATORS))]
    members = _sound(kind, choose)
    for _ in range(choose.choice((0, 1, 1, 1, 2, 3))):
        field = choose.choice(kind.fields)
        members[field.attribute] = _changed(field, members.get(field.attribute), choose)
    desc = kind(**members)
    assert desc == desc and hash(desc) == hash(desc) and repr(desc)
    compiled = device.compile_operator(device.create_operator(desc))
    tensors = [tensor for _, tensor in (*desc.inputs, *desc.outputs) if tensor is not None]
    if sum(tensor.size_in_bytes for tensor in tensors) > MOST_BYTES:
        return "compiles"
    generator = np.random.default_rng(seed)
    feed = {
        field.name: generator.integers(0, 3, tensor.sizes).astype(tensor.data_type.numpy_dtype)
        for field, tensor in desc.inputs
        if tensor is not None
    }
    first, second = (device.run(compiled, feed) for _ in range(2))
    assert all(first[name].tobytes() == second[name].tobytes() for name in first), "other bits the second time"
    return "runs"


def _sound(kind: type[dml.OperatorDesc], choose: random.Random) -> dict[str, Any]:
    if kind.operator_name in _cases():
        samples = choose.choice(_cases()[kind.operator_name]).samples()
        sample = list(itertools.islice(samples, 3))[-1]
        return {field.attribute: getattr(sample.desc, field.attribute) for field in kind.fields}
    sizes = [choose.choice((1, 2, 3, 5)) for _ in range(choose.choice((1, 2, 4, 4, 5, 8)))]
    tensor = dml.TensorDesc(choose.choice((dml.FLOAT32, dml.FLOAT32, dml.FLOAT16, dml.INT32, dml.UINT8)), sizes)
    needed = (field for field in kind.fields if not field.optional)
    return {field.attribute: tensor if field.type == "tensor" else _changed(field, None, choose) for field in needed}


def _changed(field: Field, value: Any, choose: random.Random) -> Any:
    if choose.random() < 0.15:
        return choose.choice(_STRANGE)
    if isinstance(value, dml.TensorDesc):
        return _changed_tensor(value, choose)
    if isinstance(value, (list, tuple)) and value:
        items = list(value)
        index = choose.randrange(len(items))
        is_tensor = isinstance(items[index], dml.TensorDesc)
        items[index] = _changed_tensor(items[index], choose) if is_tensor else choose.choice((*range(8), *_STRANGE))
        return choose.choice((items, items, items[:-1], items + items[:1]))
    if field.enumeration is not None:
        return choose.choice(list(field.enumeration))
    if field.type == "data_type":
        return choose.choice(list(dml.DataType))
    numbers: tuple[Any, ...] = (0.0, 1.0, -1.5, 1e-5, 1e30) if "float" in field.type else (0, 1, 2, 3, 4, 7, 100)
    drawn = [choose.choice(numbers) for _ in range(4)]
    return drawn[: choose.randint(1, 4)] if field.type.endswith("array") else drawn[0]


def _changed_tensor(tensor: dml.TensorDesc, choose: random.Random) -> dml.TensorDesc:
    sizes, strides, data_type = list(tensor.sizes), tensor.strides, tensor.data_type
    total, alignment, flags = None, tensor.guaranteed_base_offset_alignment, tensor.flags
    index, way = choose.randrange(len(sizes)), choose.randrange(6)
    if way == 0:
        sizes[index] = choose.choice(_SIZES)
    elif way == 1:
        data_type = choose.choice(list(dml.DataType))
    elif way == 2:
        changed = list(tensor.element_strides)
        changed[index] = choose.choice((0, 1, 2, 3, 5, 64, 2**20, -1))
        strides = changed
    elif way == 3:
        sizes, strides = choose.choice((sizes[1:], [1, *sizes], sizes[::-1])), None
    elif way == 4:
        total = choose.choice((0, 4, tensor.size_in_bytes + 4, 2**33))
    else:
        alignment, flags = choose.choice((0, 3, 16, 2**31)), choose.choice(list(dml.TensorFlags))
    return dml.TensorDesc(data_type, sizes, strides, total, alignment, flags)


_GRAPH_STRANGE: tuple[Any, ...] = (
    None,
    -1,
    0,
    1,
    2,
    3,
    7,
    2**31,
    2**32 - 1,
    2**32,
    2**64,
    0.5,
    True,
    "x",
    "",
    [],
    np.int64(1),
)

_PARTS = ("nodes", "input_edges", "output_edges", "intermediate_edges")


def graph(seed: int, device: dml.Device) -> str:
    """A graph that is nearly sound is compiled, and run twice with inputs that nearly fit, with the same bits."""
    choose = random.Random(seed)
    made = Builder(device, choose).graph(choose.randint(1, 12))
    desc = made.desc
    inputs: dict[Any, Any] = dict(made.inputs)
    for _ in range(choose.choice((0, 1, 1, 2, 4))):
        desc = _graph_changed(desc, choose)
    for _ in range(choose.choice((0, 0, 1))):
        _change_inputs(inputs, choose)
    compiled = device.compile_graph(desc, fuse=choose.random() < 0.7)
    first, second = (device.run(compiled, inputs) for _ in range(2))
    assert all(first[name].tobytes() == second[name].tobytes() for name in first), "other bits the second time"
    return "runs"


def _graph_changed(desc: GraphDesc, choose: random.Random) -> GraphDesc:
    """The graph with something else in one place."""
    if choose.random() < 0.1:
        return dataclasses.replace(
            desc, **{choose.choice(("input_count", "output_count")): choose.choice(_GRAPH_STRANGE)}
        )
    part = choose.choice(_PARTS)
    items = list(getattr(desc, part))
    if not items:
        return desc
    index, way = choose.randrange(len(items)), choose.randrange(5)
    if way == 0:
        del items[index]
    elif way == 1:
        items.insert(choose.randrange(len(items) + 1), items[index])
    elif way == 2:
        choose.shuffle(items)
    elif way == 3:
        items[index] = choose.choice((None, "x", 1, getattr(desc, choose.choice(_PARTS))))
    elif isinstance(items[index], ConstantGraphNode):
        contents = items[index].contents
        items[index] = ConstantGraphNode(contents[: choose.randrange(len(contents) + 1)] + b"x" * choose.randrange(3))
    else:
        name = choose.choice([field.name for field in dataclasses.fields(items[index])])
        items[index] = dataclasses.replace(items[index], **{name: choose.choice(_GRAPH_STRANGE)})
    changed: dict[str, Any] = {part: items}
    return dataclasses.replace(desc, **changed)


def _change_inputs(inputs: dict[Any, Any], choose: random.Random) -> None:
    """Something else for an input of a run, or another name."""
    if not inputs:
        return
    name = choose.choice(sorted(inputs))
    array = inputs.pop(name)
    others = (
        None,
        "x",
        3,
        array[:1],
        array[..., None],
        array.astype(np.complex64),
        array.astype(object),
        [[1], [1, 2]],
    )
    inputs[choose.choice((name, name, name, "nothing", 3))] = choose.choice((*others, array.T, array[..., ::-1]))


def open_sizes(seed: int, device: dml.Device) -> str:
    """A random model has the bits of sessions for its sizes alone, and ONNX Runtime's results."""
    outcome = compared(case_of(0, seed), device)
    assert not outcome.faults, outcome.faults[0]
    return "runs"


def deciding_contents(seed: int, device: dml.Device) -> str:
    """A random model whose inputs' contents decide gives ONNX Runtime's results, whatever they were before."""
    outcome = compared_by_contents(0, seed, device)
    assert not outcome.faults, outcome.faults[0]
    return "runs" if outcome.runs else "is refused"


def contradicting_caches(seed: int, device: dml.Device) -> str:
    """Attention over caches of which something contradicts the rest is refused, or as by ONNX Runtime."""
    with contextlib.closing(OnnxRuntime()) as runtime:
        outcome, label, words = fault_of(0, seed, device, runtime)
    assert outcome != "fault", f"{label}: {words}"
    return str(outcome)


def decoder(seed: int, device: dml.Device) -> str:
    """A random decoder likewise, and the same whatever the parts are that its text comes in."""
    faults = random_decoders.faults_of(random_decoders.drawn(0, seed), device)
    assert not faults, faults[0]
    return "runs"


@functools.cache
def _folder_sound() -> tempfile.TemporaryDirectory[str]:
    """A file, and the folder that is made of it; kept as long as the process."""
    directory = tempfile.TemporaryDirectory(prefix="dmlvk-attack-")
    write_folder(Path(directory.name))
    (Path(directory.name) / "hub").mkdir()
    write_plain_folder(Path(directory.name) / "hub")
    return directory


def language_model(seed: int, device: dml.Device) -> str:
    """A damaged file is converted, or a folder is damaged, and three tokens are asked of it."""
    choose = random.Random(seed)
    sound = Path(_folder_sound().name)
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory) / "folder"
        if choose.random() < 0.4:
            file = Path(directory) / "model.gguf"
            file.write_bytes(damaged_gguf((sound / "model.gguf").read_bytes(), choose))
            convert_gguf(file, folder)
        else:
            name, config = choose.choice([("folder", "genai_config.json"), ("hub", "config.json")])
            shutil.copytree(sound / name, folder)
            damage_folder(folder, choose, config)
        with LanguageModel(folder, device=device) as model:
            list(Conversation(model).reply("ab", most=3))
    return "runs"


_EXAMPLES = Path(__file__).parents[1] / "examples"

_COMMANDS = (
    ("run", str(_EXAMPLES / "sign.json"), "--output-dir", "output"),
    ("run", str(_EXAMPLES / "digits.onnx"), "--output-dir", "output"),
    ("bench", "--seconds", "0.01", "--operators", "ABS", "--sizes", "64", "--libraries", "none"),
    ("conformance", "--operators", "ABS", "--compare", "text.json", "list.json"),
    ("operators",),
)

_VALUES = (
    *("", "-1", "0", "nan", "inf", "-inf", "1e308", "9" * 30, "1_000", "1,,2", "2..1", "=1", "a=", "alpha=nan", "%s"),
    *("[[[", "*", "x" * 3000, "a\nb", "\x1b[31m", "é\udcff", "/", ".", "-", "/dev/full", "/dev/zero", "/proc/self/mem"),
    *("pipe", "nowhere/at/all", "folder", "text.json", "list.json", "deep.json", "bytes.json", "loop", "dangling"),
)

_SLOW = frozenset({("bench", "--operators", "*"), ("bench", "--device", "0"), ("run", "--device", "0")})
"""What is right, and takes more than a case may."""


def command_line(seed: int, device: dml.Device) -> str:
    """One option of a command has another value: the command succeeds, or says in one line what is wrong with it.

    Raises:
        AssertionError: when it ends in another way.
    """
    choose = random.Random(seed)
    words = list(choose.choice(_COMMANDS))
    command = cli.commands[words[0]]
    options = [each for each in command.params if isinstance(each, click.Option) and not each.is_flag]
    option = choose.choice([each.opts[-1] for each in options] or [""])
    value = choose.choice(_VALUES)
    if (words[0], option, value) in _SLOW:
        return "takes too long"
    words += [option, value, *(["list.json"] if option == "--compare" else [])] if option else [value]
    with tempfile.TemporaryDirectory() as folder, _inside(folder):
        _furnish(Path(folder))
        status, said = _outcome(words)
    assert status in (0, 1, 2), f"{words}: exit status {status}: {said[-500:]}"
    assert status != 2 or len(said.splitlines()) == 1, f"{words}: {said[-500:]}"
    return "runs" if status == 0 else "is refused"


@contextlib.contextmanager
def _inside(folder: str) -> Iterator[None]:
    """A folder is the one that relative paths begin at."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def _furnish(folder: Path) -> None:
    (folder / "folder").mkdir()
    (folder / "text.json").write_text("{}")
    (folder / "list.json").write_text("[1]")
    (folder / "deep.json").write_text("[" * 100_000)
    (folder / "bytes.json").write_bytes(b"\xff\xfe\0")
    os.mkfifo(folder / "pipe")
    (folder / "loop").symlink_to("loop")
    (folder / "dangling").symlink_to("/nowhere/at/all")


def _outcome(words: list[str]) -> tuple[int, str]:
    """Exit status, and what a command wrote to standard error."""
    out, err = io.StringIO(), io.StringIO()
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            main(words)
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else 0, err.getvalue()
