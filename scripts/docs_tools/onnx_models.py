"""``docs/onnx.md``: how ONNX models run, which operators are translated, what the ONNX project's suite says."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import onnx

import dmlvk.onnx.nodes.operators as operators
from dmlvk.datatypes import DataType
from dmlvk.onnx.backend.exclusions import EXCLUSIONS
from dmlvk.onnx.backend.suite import table_in
from dmlvk.onnx.host.evaluators import HOST_ONLY
from dmlvk.onnx.nodes.joining.pattern import JOINED
from dmlvk.onnx.nodes.translation import FLOATS, TRANSLATIONS, Translation
from dmlvk.onnx.nodes.values import DATA_TYPES, element_name
from dmlvk.operators import OPERATORS, FeatureLevel
from scripts.docs_tools.markdown import page, table

assert operators  # importing it registers the translators

_START = """\
Run an ONNX model on any Vulkan device with the calls that you know from ONNX Runtime:

```sh
pip install dmlvk[onnx]
```

```python
import dmlvk.onnx as ort

session = ort.InferenceSession("model.onnx")  # device=, feature_level=, strict=
outputs = session.run(None, {"input": array})
```

Or without a program. Inputs that are not named are random:

```sh
dmlvk run model.onnx --input image=photo.png --output-dir output    # shows inputs, runs, sums up outputs
dmlvk run model.onnx --timing --trace trace.json
```

## Run a program for ONNX Runtime unchanged

```sh
python -m dmlvk.onnx program.py --its arguments     # or -m MODULE
DMLVK_AS_ONNXRUNTIME=1 python program.py            # the same, and so for all programs of a shell or a service
```

Or by a line in front of the program's own imports. What imported `onnxruntime` earlier keeps it:

```python
import dmlvk.onnx
dmlvk.onnx.install()                                # from now on `import onnxruntime` gives dmlvk.onnx
```

Processes that the program starts do the same. Tools of an installed ONNX Runtime (`onnxruntime.quantization` and so on)
stay, and use dmlvk's sessions. To keep ONNX Runtime itself and give it a device, take the
[provider](how-to/onnxruntime.md) instead.

From onnxruntime-directml one line changes, and `providers=["DmlExecutionProvider"]` may stay:

```python
import dmlvk.onnx as ort                            # instead of: import onnxruntime as ort
session = ort.InferenceSession("model.onnx", providers=["DmlExecutionProvider"])
```

[Which programs and models were compared](notes/onnx.md): OCR, speech, music, embeddings, exports of transformers.

## What is there

Sessions, `OrtValue`, `IOBinding`, `SessionOptions`, `RunOptions` and `get_available_providers` have ONNX Runtime's
names. So have `onnxruntime.capi` and its exceptions:

| exception | is |
|---|---|
| `NoSuchFile`, `InvalidProtobuf` | `dmlvk.ModelFileError` |
| `InvalidArgument` | `dmlvk.InvalidArgumentError` |
| `Fail`, `RuntimeException` | every `dmlvk.DmlError` |

`__version__` is that of onnxruntime-directml whose names are followed, 1.24.4. `get_build_info()` says that it is
dmlvk. Options that are not named on this page are accepted and change nothing.

**Values that stay on the device** go from one run to the next without a copy. Every `device_type` but `"cpu"` means the
session's device. A `dmlvk.Array` is an input, too, and `OrtValue.array()` gives one:

```python
value = ort.OrtValue.ortvalue_from_numpy(array, "dml")
(value,) = session.run_with_ort_values(None, {"input": value})                   # read there, and left there
outputs = [value.numpy()]
```

Addresses of memory (`bind_input`, `bind_output` with `buffer_ptr`) are refused: bind an `OrtValue`.

**Where a node runs.** `session.partition` says of each node whether the device computes it, the host, or nobody because
it is constant, and why. `.program` names what computed it on [the host](#the-host). `strict=True` refuses models with
such nodes. The logger `dmlvk` names them otherwise.

**What a run costs.** `session.usage` has launches, waits and memory of the last run. `session.profile(inputs)` has the
device's time of each kernel. `session.write_picture("graph.svg")` draws the graphs. With `enable_profiling`
`session.end_profiling()` writes a trace.

**Sizes that are open.** Each run's inputs bind them. Most models need one plan for all sizes. RNN, GRU and LSTM need
one for each power of two of steps, and with `clip` one for each number of them. Resize needs one for each size where
its sizes are no constants or corners are aligned. Up to 16 further plans are kept, by shapes.
`add_free_dimension_override_by_name` and `_by_denotation` fix sizes when the model is loaded.

**Sharing.** Sessions of a process that choose the same device share it and its threads.
`SessionOptions.shares_device = False` opens one for a session alone. A closed session runs no more.

**Initializers** are constants. A run may give those that the model lists among its inputs, by a plan of its own.
`add_initializer` and `add_external_initializers` stand for the file's. `optimized_model_filepath` gets the model as it
is. Files in ONNX Runtime's own format (`.ort`) are refused; run the `.onnx` file that they were made from.

`dmlvk.onnx.backend` is the ONNX project's interface for backends (`prepare`, `run_model`, `run_node`).

## Limits

A model that asks for more than this is refused before anything is computed. Each limit is a member of `SessionOptions`:

| option | default | of |
|---|---|---|
| `most_nodes` | 131,072 | the model, with functions in place |
| `most_iterations` | 32,768 | all loops and scans of a run; nested ones count as their product |
| `most_result_bytes` | 1 GiB | one result of the host, or what a loop gathers |
| `most_host_bytes` | 4 GiB | all results of the host together |
| `most_host_work` | 2^36 | terms of products, or as much other work, of one node of the host |

The two limits of bytes may be 16 times what initializers and inputs take. Values have at most 32 axes, 64 with NumPy 2;
the host computes those of more than 8.

- **Large values.** A value larger than a buffer of the device is a `DeviceLimitError` that names it and its node. Such
  a buffer has 128 MiB on llvmpipe, 2 GiB and more elsewhere. Where each item of the batch is by itself, the batch runs
  in parts instead, with the same bits.
- **Weights.** Those of 64 KiB and more stay in the model's file, or the one beside it, until the device has them. So a
  session takes 1.1 times its weights. The file may be written over afterwards, unless the host needs it in later runs:
  that is an error. On Windows only external data stays in its file,
  which cannot be written to meanwhile.
- **What follows from weights alone** is computed once. It is computed in each run where it would take more memory than
  the weights.
- **Files.** External data is read from inside the model's folder only. A damaged file is one `dmlvk.ModelFileError`
  that names the node.

## Where results differ from ONNX Runtime

Results are the same bits on every device. ONNX Runtime's differ from them in the last digits, and by these rules:

- **NaN.** Relu, Clip, Max, Min, Sign, ReduceMax and ReduceMin drop NaN, as DirectML does.
  `options.propagate_nan = True` keeps it, as ONNX Runtime does, and costs a comparison and a choice for each. TopK and
  ArgMax take NaN for the smallest number.
- **Zeros.** -0 and +0 are equal in ArgMax, ArgMin, TopK, Hardmax and MaxPool with indices, as in ONNX Runtime.
  DirectML's own operators have -0 below +0. MaxPool with indices gives +0 for both.
- **Indices beyond an axis** count as the nearest one in Gather, GatherElements and GatherND, and are left out when
  scattered; ONNX Runtime ends with an error. Constant indices, and tokens that index a constant table, are checked: an
  error names node and index.
- **Quantized nodes.** Conv, MatMul, Gemm, Add and Mul between DequantizeLinear and QuantizeLinear compute with the
  integers and end on ONNX Runtime's. INT8 activations may end one integer beside it, as it sums them as FLOAT32 on x86.
  So may Softmax, where a sum's order decides.
- **Patterns that exporters write** become one operator each: LayerNorm, RMSNorm, GroupNorm, GELU, SiLU, SwiGLU,
  softmax-attention. That is faster, and right in FLOAT16 where squares or scores would overflow. `session.partition`
  names them (`joined with others to …`). A `graph_optimization_level` below ORT_ENABLE_EXTENDED leaves them alone.
- **Convolutions** do not take what follows them into their weights, as that would round otherwise.
- **Resize** with align_corners and scales that give no whole size places elements by the scale, as ONNX's own suite
  has it. ONNX Runtime takes the whole size.
- **RoiAlign** with sampling_ratio 0 takes at most as many samples along an axis as four for each element of the image's
  longer side, of 256 at least.
- **STFT** is a product with cosines and sines. Where a spectrum is 0 it is below 1e-13 of the largest; ONNX Runtime's
  fast transform leaves 4e-8.
- **MeanVarianceNormalization** of equal values gives 0, as ONNX defines it; ONNX Runtime gives NaN.

## Decoders

Decoders with caches run with one plan for all lengths. From the second token on nothing is planned, compiled or
recorded until a growing cache is full:

| attention | caches |
|---|---|
| `GroupQueryAttention` | growing, shared, of a window or a node before, quantized (8, 4 bits), padded tokens |
| `MultiHeadAttention` | growing, or shared with `past_sequence_length`; beams (`cache_indirection`) |
| `DecoderMaskedMultiHeadAttention` | growing, shared; beams |
| ONNX's `Attention` | growing, with `is_causal` and masks |

- **Memory.** Bind one `OrtValue` as past and as present (`past_present_share_buffer`): it is written in place. A cache
  that grows has room for a power of two of rows. What `run_with_ort_values` returns is a view of it, which is copied
  when it is used twice. Caches have to be inputs and outputs of the model that nothing else reads but nodes whose new
  keys are a constant without any.
- **Lengths** (`seqlens_k`, `total_sequence_length`) are read on the device. The host computes masks and biases before
  each run. A model that joins its caches by Concat takes a plan for open sizes, which copies them.
- **Scores** are an output of `MultiHeadAttention` and `DecoderMaskedMultiHeadAttention`, scores or shares (`qk_output`)
  of `GroupQueryAttention`. They are 0 where a query does not see a key. `qk_output` does not go with
  `sliding_window_cache` and `query_seqlens`.
- **Checks.** Inputs that contradict one another (heads, widths, batches, types, lengths, places) are refused before
  anything is written, by ONNX Runtime's rules. So are tokens beyond a known table, beams that are none, and masks of
  other keys. Numbers on the device are not looked at; kernels stay inside of their tensors whatever these are.

A text has the same bits whatever the batch, the cache's capacity and the prompt's division. The reason is
[an order of sums](notes/onnx.md#the-order-of-sums-in-attention) that follows from places alone."""

_TABLE = """\
A node becomes the operators of DirectML that its row names. [operators.md](operators.md) has their data types.
Operators that ONNX defines by others (`RMSNormalization`, `AffineGrid` and more) run by their definition, where the
device has all of it. What is left goes to [the host](#the-host)."""

_HOST = """\
The host computes what the device has no operator or no type for: DOUBLE, texts, more than 8 dimensions. Three programs
do so, in this order; `session.partition` names which:

- `dmlvk`: functions whose results are the same bits on every machine. They move and choose elements, compute with
  integers, compare, cast, and round what IEEE 754 rounds correctly (+, -, x, /, square roots). Quantized numbers,
  sequences, optional values and random numbers are among them.
- `onnxruntime`: ONNX Runtime's CPU package, which `dmlvk[onnx]` brings. The last bits of its floats may differ from one
  kind of processor to another. One thread computes a node.
- `onnx`: the onnx package's reference evaluator, for those versions of operators that a test compares
  (`dmlvk/onnx/host/evaluation/compared.py`).

What none of them knows is refused, with the reason of each. Without ONNX Runtime more is refused, and nothing is
computed otherwise.

Constants that follow from constants are computed once, when the model is loaded. Floats that `dmlvk` does not round
correctly (Exp, MatMul and so on) are the device's work, once before the first run. Views of a weight (Identity,
Transpose, Reshape, Expand) are the same memory.

`Shape` and `Size` follow from the shapes. The host decides about `If`, `Loop` and `Scan`, whose graphs run on the
device. An `If` whose condition follows from the shapes is its branch.

These operators are on the host whatever their types are. So are all of other domains that the table above does not
name (ai.onnx.ml and so on), as far as ONNX Runtime has them:"""


_SUITE = """\
`python -m dmlvk.onnx.backend.suite` runs every case of the package onnx. Device: the result is right, and the host
computed nothing but shapes and constants. Host: the result is right, with nodes on the host. Most of these cases are
one node in which the device has nothing to do (launch nothing).

`--page FILE` fills in this table. `--stated FILE` fails where a page states other numbers; `.ci/run` asks that of this
page and of the README."""


def onnx_page(before: Path) -> str:
    """The document.

    Args:
        before: the document as it is, of which the table is kept that ``python -m dmlvk.onnx.backend.suite --page``
            fills.

    Raises:
        ValueError: when it has no such table, or several.
    """
    return page(_parts(table_in(before.read_text(encoding="utf-8"))))


def _parts(measured: str) -> Iterator[str]:
    yield from ("# ONNX models", "", _START, "", "## Operators", "", _TABLE, "")
    yield from table(["Operator", "Versions", "Types of the first input", "DirectML's operators", "Remarks"], _rows())
    yield from ("", "## The host", "", _HOST, "")
    yield from table(["Operators", "Why"], _host_rows())
    yield from ("", "## The ONNX project's test suite", "")
    yield from (_SUITE, "", *measured.splitlines(), "", "Excluded:", "")
    yield from table(["Cases", "Why"], ([f"`{item.pattern}`", item.reason] for item in EXCLUSIONS))


def _rows() -> Iterator[list[str]]:
    for (domain, op_type), known in sorted(TRANSLATIONS.items(), key=lambda item: (item[0][0], item[0][1].lower())):
        if domain == JOINED:
            continue  # no file has them
        for translation in known:
            yield [
                f"{domain}.{op_type}" if domain else op_type,
                _versions(translation),
                _types(translation),
                _made_of(translation),
                translation.note,
            ]


def _versions(translation: Translation) -> str:
    if translation.domain:
        return str(translation.since)
    schemas = onnx.defs.get_all_schemas_with_history()
    versions = sorted(
        schema.since_version
        for schema in schemas
        if schema.name == translation.op_type and schema.domain == "" and schema.since_version >= translation.since
    )
    return ", ".join(str(version) for version in versions) or f"{translation.since} (of ONNX Runtime)"


_RUNS = (
    ("FLOAT", ("FLOAT",)),
    ("FLOAT16", ("FLOAT16",)),
    ("DOUBLE", ("DOUBLE",)),
    ("INT8 to INT64", ("INT8", "INT16", "INT32", "INT64")),
    ("UINT8 to UINT64", ("UINT8", "UINT16", "UINT32", "UINT64")),
    ("BOOL", ("BOOL",)),
    ("INT4, UINT4", ("INT4", "UINT4")),
)
"""Types that are named together where all of them are there."""


def _types(translation: Translation) -> str:
    """What the device has of the types that ONNX permits, and the operator takes; where no operator is named, moves."""
    permitted = _permitted(translation)
    there = set(DATA_TYPES)
    taken = [_taken(name) for name in translation.operators if name in OPERATORS]
    if taken:
        accepted = set.intersection(*taken)
        if any(name in ("QUANTIZE", "DEQUANTIZE") for name in translation.operators):
            accepted = set.union(*taken)  # one of them, by the type
        elif translation.op_type.startswith("QLinear"):
            accepted = taken[0]  # the others compute with what it makes
        there = {element for element in there if DATA_TYPES[element] in accepted}
    if permitted is None:  # ONNX Runtime's own: of numbers where it takes numbers, else of 8 bits
        there.discard(onnx.TensorProto.BOOL)  # which UINT8 stands for where ONNX asks for it
        if translation.op_type.startswith("QLinear"):
            there = {element for element in there if element_name(element) in ("INT8", "UINT8")}
        elif onnx.TensorProto.FLOAT in there:
            there.intersection_update(FLOATS)
    names = {element_name(element) for element in there if permitted is None or element in permitted}
    shown = []
    for run, members in _RUNS:
        found = [name for name in members if name in names]
        shown.append(run if len(found) == len(members) else ", ".join(found))
    return ", ".join(text for text in shown if text)


def _taken(operator: str) -> set[DataType]:
    """The data types that an operator of DirectML takes as its first input."""
    kind = OPERATORS[operator]
    first = next(field for field in kind.fields if field.kind == "input")
    return set(kind.declaration.support_at(FeatureLevel.LEVEL_6_4).data_types[first.member])


def _permitted(translation: Translation) -> set[int] | None:
    """The element types that ONNX's newest definition permits of the first input; ``None``: it has none."""
    try:
        schema = onnx.defs.get_schema(translation.op_type, domain=translation.domain)
    except onnx.defs.SchemaError:
        return None
    if not schema.inputs:
        return None
    words = {"float": "FLOAT", "double": "DOUBLE"}
    found = [str(kind).removeprefix("tensor(").removesuffix(")") for kind in schema.inputs[0].types]
    numbers = dict(onnx.TensorProto.DataType.items())
    return {numbers[name] for text in found if (name := words.get(text, text.upper())) in numbers}


def _host_rows() -> Iterator[list[str]]:
    """Operators that the device does not have, those with one reason together."""
    by_reason: dict[str, list[str]] = {}
    schemas: Any = onnx.defs.get_all_schemas()  # the package's annotations leave out what is asked for
    for schema in schemas:
        known = schema.domain == "" and (schema.domain, schema.name) not in TRANSLATIONS and not schema.deprecated
        has_body = schema.has_function or schema.has_context_dependent_function
        if known and not has_body and schema.name not in _FROM_SHAPES:
            by_reason.setdefault(HOST_ONLY.get(schema.name, "DirectML has no operator for it"), []).append(schema.name)
    for reason, names in sorted(by_reason.items()):
        yield [", ".join(sorted(names)), reason]


_FROM_SHAPES = ("Constant", "ConstantOfShape", "EyeLike", "Range", "Shape", "Size")
"""Operators that are done when a model is planned."""


def _made_of(translation: Translation) -> str:
    return ", ".join(translation.operators) or "views, or chosen by attributes"
