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
```python
import dmlvk.onnx as ort                      # pip install dmlvk[onnx]

session = ort.InferenceSession("model.onnx")  # device=, feature_level=, strict=
outputs = session.run(None, {"input": array})
```

```sh
dmlvk run model.onnx --input image=photo.png --output-dir output    # shows inputs, runs, sums up outputs
dmlvk run model.onnx --timing --trace trace.json                    # inputs that are not given are random
```

## From onnxruntime-directml

```python
import onnxruntime as ort                                                        # before
session = ort.InferenceSession("model.onnx", providers=["DmlExecutionProvider"])

import dmlvk.onnx as ort                                                         # after
session = ort.InferenceSession("model.onnx", providers=["DmlExecutionProvider"])
```

A program that imports `onnxruntime` runs unchanged, by a command or by a line before its own imports:

```sh
python -m dmlvk.onnx program.py --its arguments     # or -m MODULE
```

```python
import dmlvk.onnx
dmlvk.onnx.install()                                # from now on `import onnxruntime` gives dmlvk.onnx
```

`python -m scripts.try_packages` does that with programs around packages that ship their models, from OCR to speech, and
compares texts, labels, scores and every output of every model with ONNX Runtime's: no float differs by more than 1e-4
of the largest, or the model in FLOAT64 says how far both are off, which the command prints. ONNX Runtime was further
off in all five of these: rapidocr's two detectors (2.8e-4, dmlvk 1e-5 and 8e-5), where what it gives the last Sigmoid
is off by 1e-3 already, one of openwakeword's (1.0e-4, dmlvk 4e-5), ddddocr's old model, whose recurrent network rounds
to int8 in each step (1.6e-2, dmlvk 1.2e-2), and basic-pitch (2.4e-3, dmlvk 1.1e-3), where logarithms of bands in which
nothing sounds show the roundings of filters of 256 taps: dmlvk sums long filters of one channel in two halves. One
program prints something else: kokoro's speech of int8 has another length, since how long a sound lasts is rounded (the
last one in FLOAT64 1.68 frames, dmlvk 1.57; all together 72 and 71). ONNX Runtime itself gives 1.50 and 70, and on a
processor without AVX (`qemu-x86_64 -cpu Nehalem`) 1.65 and 71.

`python scripts/try_exports.py` exports tiny models of transformers (BERT, GPT-2, T5, Whisper, CLIP, ViT, DETR,
SegFormer, Swin, SAM, Llama, Qwen3, Gemma 2, DeBERTa, wav2vec 2.0, Mamba, VITS) by both of PyTorch's exporters, and
compares their outputs.
`python scripts/try_built_decoders.py` has onnxruntime-genai's model builder make decoders of int4 (llama, Qwen2, Qwen3,
Gemma 2, Phi, Phi-3; for cpu, dml and webgpu) and compares a prompt and eight tokens. With the numbers of FLOAT32 that
the weights stand for, dmlvk's results differ by less than 1e-6 of the largest. ONNX Runtime's CPU provider differs by
1e-2 there, because the builder allows it (`accuracy_level` 4) to round activations to int8; FLOAT16 ends 1e-3 off in
both.

Where ONNX Runtime's own package is installed, its tools (`onnxruntime.quantization` and so on) are still there, and
use dmlvk's sessions. What imported `onnxruntime` before keeps it. Python processes that the program
starts do the same, by the environment variable `DMLVK_AS_ONNXRUNTIME=1`, which works for any program, too.

Sessions (`run`, `run_with_ort_values`, `run_with_iobinding`, `run_async`, `get_inputs`, `get_modelmeta` and so on),
`OrtValue`, `IOBinding`, `SessionOptions`, `RunOptions` and `get_available_providers` are there under their names, and
so are `onnxruntime.capi` and its exceptions: `NoSuchFile` and `InvalidProtobuf` are `ModelFileError`s,
`InvalidArgument` is `InvalidArgumentError`, `Fail` and `RuntimeException` are every `DmlError`. `__version__` is that
of onnxruntime-directml whose names are followed, 1.24.4; `get_build_info()` says that it is dmlvk. Numbers and lists
take the type that the model declares, and texts are arrays of objects, as there.
Values can stay on the device from one run to the next:

```python
value = ort.OrtValue.ortvalue_from_numpy(array, "dml")
(value,) = session.run_with_ort_values(None, {"input": value})                   # read there, and left there
outputs = [value.numpy()]
```

Every `device_type` other than `"cpu"` means the session's device; a `dmlvk.Array` is taken as an input, too, and
`OrtValue.array()` gives one. What differs:

- Results are the same bits on every device. What follows a convolution is not folded into its weights: that would round
  otherwise.
- `session.partition` says of each node whether the device computes it, the host, or nobody because it is constant; and
  why. `.program` names what computed a node that is not on the device ([the host](#the-host)); a line in the log
  `dmlvk` tells of such nodes, and `strict=True` refuses models that have them.
- Initializers are constants. What a run gives for one that the model lists among its inputs, too, counts for this run:
  a plan of its own has it as an input.
- Sessions of a process that choose the same device share it, and its threads; it is closed with the last of them, or
  freed when they are dropped. `SessionOptions.shares_device = False` opens one for a session alone. A closed session
  runs no more.
- What exporters write out as several nodes is joined into one operator: LayerNorm, RMSNorm, GroupNorm, GELU (by erf and
  by tanh), SiLU, Swish, SwiGLU, softmax-attention. It is faster, and in FLOAT16 right where squares, sums or scores
  would overflow on the way.
  `session.partition` names such nodes (`joined with others to …`); a `graph_optimization_level` below
  ORT_ENABLE_EXTENDED leaves them as they are.
- Conv, MatMul, Gemm, Add and Mul between DequantizeLinear and QuantizeLinear (`quantize_static` writes such models)
  compute with the integers: sums below 2^24 are exact, and rounded to ONNX Runtime's integers, bit for bit. INT8
  activations it sums as FLOAT32 on x86, which may end one integer beside. Add and Mul (QLinearAdd and QLinearMul, too,
  where scales and zero points are known) end where ONNX Runtime's do on x86-64 with AVX2 at its default optimization
  level, on ties as well. INT8 operands of which it makes some UINT8 there and others not, it adds and multiplies as
  FLOAT32, and so does dmlvk. Softmax there, and QLinearSoftmax, take the
  reciprocal of the result's scale rounded down, as it does, and are one integer beside where a sum's order decides.
- `add_free_dimension_override_by_name` (and `_by_denotation`) of `SessionOptions` fixes sizes, so that the model
  is planned when it is loaded; with `enable_profiling` `session.end_profiling()` writes a trace of every kernel. What
  `add_initializer` and `add_external_initializers` are given stands for the file's; `optimized_model_filepath` gets the
  model as it is. All else is accepted and changes nothing, and so are lists of providers.
- Addresses of memory are not taken (`bind_input`, `bind_output` with `buffer_ptr`): bind an `OrtValue`. Files in ONNX
  Runtime's own format (`.ort`) are refused; the `.onnx` file that they were made from runs.
- Relu, Clip, Max, Min, Sign, ReduceMax and ReduceMin drop NaN, by DirectML's rules: RELU gives 0, CLIP a bound, MAX the
  number beside it. With `options.propagate_nan = True` they give NaN, as ONNX Runtime does; each then takes a
  comparison and a choice more, and convolutions and products no longer take Relu in. TopK and ArgMax take NaN for the
  smallest number.
- -0 and +0 are equal where places are sought (ArgMax, ArgMin, TopK, MaxPool with indices, Hardmax), as in ONNX Runtime;
  DirectML's operators have -0 below +0. MaxPool with indices gives +0 for a zero of either sign.
- An index beyond an axis counts as the nearest one in it (`Gather`, `GatherElements`, `GatherND`), by DirectML's rules,
  and what would be scattered there is left out; ONNX Runtime ends with an error. Constants of `Gather` and
  `GatherElements` are checked when the model is planned, and inputs of a model that `Gather` takes rows of a constant
  by (tokens) before each run: an error names the node and the index.
- Resize with align_corners and scales that give no whole size places elements by the scale, as ONNX's own suite has it;
  ONNX Runtime takes the whole size. RoiAlign with sampling_ratio 0 takes at most four samples for each element of the
  image's longer side (of 256 at least) along an axis, however large a region is.
- STFT is a product with cosines and sines: where a spectrum is 0, dmlvk's is below 1e-13 of the largest, and ONNX
  Runtime's fast transform leaves what FLOAT32 rounds (4e-8 of the largest), which dmlvk does not imitate.
- MeanVarianceNormalization of equal values gives 0, as ONNX defines it; ONNX Runtime divides 0 by 0 and gives NaN.
- `session.usage` tells launches, waits and memory of the last run, beside the least memory that any plan needs.
- `session.profile(inputs)` gives the device's time of each kernel; `session.write_picture("graph.svg")` draws the
  graphs.
- Sizes that a model leaves open are bound by each run's inputs. A plan with its compiled graphs is kept for each set of
  input shapes, up to 16 of them: a later run of the same shapes compiles nothing and allocates nothing on the device.
  Most models need one plan for many shapes; RNN, GRU and LSTM one for each power of two of steps (with `clip` one for
  each number of them), and Resize to sizes that are no constants, or with align_corners, one for each size.
- What a model may ask for is bounded, before anything is computed, so that no small file takes all memory or never
  ends: `SessionOptions` has `most_nodes` (131,072, with functions in place), `most_iterations` (32,768 of all loops and
  scans of a run together; where they are inside one another, their product), `most_result_bytes` (1 GiB for one result
  of the host, or what a loop gathers), `most_host_bytes` (4 GiB for all of them together; both may be 16 times what
  initializers and inputs take) and `most_host_work` (2^36 terms of products, or as much other work, for a node of the
  host). Values have 32 axes at most, 64 with NumPy 2; those of more than 8 are the host's, where they are no views.
- What follows from weights alone (normalized or standardized weights) is computed once. Only its results stay on the
  device, in several buffers where one is too small: what is between shares memory and is freed, and so are weights that
  nothing else reads. It is computed in each run where it would take more memory than the weights that it follows from.
- A value that is larger than a buffer of the device may be (128 MiB on llvmpipe, 2 GiB and more elsewhere) is a
  `DeviceLimitError` that names it and its node. Where every node treats each item of the batch by itself, the batch
  runs in halves, or halves of these, instead: with the same bits, and each part's results joined by the host.
- Weights of 64 KiB and more stay in the model's file, or in the one beside it, until the device has them, so a session
  of 256 MiB of them takes 1.1 times that, device memory of llvmpipe among it, and a further session of the same 1.0
  (`dmlvk bench session-memory`; a driver for the CPU keeps code of each kernel besides, some 100 MB for a
  network for pictures). Those of a model that is given as bytes are views of these. The file may be written over
  afterwards, but for what the host needs of it in later runs: that ends with an error. On Windows only
  external data stays in its file, and keeps it from being written to.
- External data is read from files inside the model's folder only. Damaged files end in one `dmlvk.ModelFileError` that
  names the node (`python -m tests.attack --seconds 600` tries that, and
  what else may happen to a program).

`dmlvk.onnx.backend` is the ONNX project's own interface for backends (`prepare`, `run_model`, `run_node`).

## Decoders

`GroupQueryAttention` reads `seqlens_k` and `total_sequence_length` on the device, and what counts them (`ReduceSum` and
`Shape` of an attention mask, as onnxruntime-genai writes them) is computed by the host before each run: a plan depends
on neither. Caches that are inputs and outputs of the model are appended to where they lie: one that grows has room for
a power of two of rows, and what `run_with_ort_values` returns is a view of it, which is copied when it is used twice;
one `OrtValue` that is bound as past and as present (`past_present_share_buffer`) is written in place. From the second
token on nothing is planned, compiled or recorded, until a growing cache is full.

Inputs of attention that contradict one another (heads, widths, batches, types, pairs, lengths, places) are refused
before anything is written, by ONNX Runtime's rules, whoever would compute the node; so are tokens (indices of Gather
that an input has) beyond a known table. Numbers that lie on the device are not looked at: kernels stay inside of their
tensors whatever these are. A mask of ONNX's Attention may have fewer columns or one row, and heads any even size, which
ONNX Runtime's CPU refuses.

Caches of a window (`sliding_window_cache`) keep the rows that ONNX Runtime says, with one plan for all lengths; their
segments are those of a cache of all keys, and so are the bits.

The same is done for `MultiHeadAttention` (with `past_sequence_length`, or caches that grow),
`DecoderMaskedMultiHeadAttention`, and ONNX's `Attention` with a past, where the caches are inputs and outputs of the
model and read by nothing else. Masks and biases beside them, as inputs or as exporters make them of an attention_mask
and of shapes, are made by the host before each run, as wide as the caches have rows, so that they are in no plan
either; a mask whose keys are not those of the past and the new tokens is refused. An If by a length (angles of long
texts) is a plan for each branch. Masks that the device has to make (by a logarithm, say), and nodes that read shapes of
caches, go with one plan for all lengths as well, whose sizes are numbers of its launches. A model that joins its caches
by Concat leaves them to plans for open sizes, which copy them. Scores are an output of
`MultiHeadAttention` and `DecoderMaskedMultiHeadAttention`, scores or shares (`qk_output`) one of `GroupQueryAttention`
(not with `sliding_window_cache` and `query_seqlens`): as ONNX Runtime's CPU gives them out, 0 where a query does not
see a key, also with one plan for all lengths, where nothing in the model reads them. Sequences of beams
(`cache_indirection`) read each key of the past where it lies; a beam that is none is refused.
Quantized caches of `GroupQueryAttention` (`k_scale`, `v_scale`: integers of 8 or 4 bits, a scale for all or for each
element of a head) are appended to likewise; attention sees what the integers stand for, rounded to the queries' type as
`DequantizeLinear` rounds it. They may keep a window, too, and tokens may fill up a step (`query_seqlens`).

What attention gives is made of FLOAT32 sums whose order follows from places alone: a score is the sum over a head's
elements in their order; values are summed over chains of 32 keys, 8 chains in order to a segment of 256 keys, and
segments are joined in order, each with its own largest score; keys that a query does not see take no part. Products
below 2^-102 count as 0, and so do shares below 2^-64 of the largest; FLOAT16 results, and elements that are turned, are
rounded once. So a sequence has the same bits whatever the batch, the cache's capacity, the prompt's division and the
device. A sum and its normalization (`SkipSimplifiedLayerNormalization`) are one kernel, with the bits of
`ELEMENT_WISE_ADD` and `MEAN_VARIANCE_NORMALIZATION2`."""

_TABLE = """\
A node becomes the operators of DirectML that its row names; [operators.md](operators.md) says which of them this
version has, with which data types. Operators that ONNX itself defines by others
(`RMSNormalization`, `AffineGrid` and more) run by their definition, where the device has all of
it; else on [the host](#the-host)."""

_HOST = """\
What the device has no operator or no type for (DOUBLE, texts, more than 8 dimensions) is computed by the host, node by
node. Three programs do so, in this order; `session.partition` names which:

- `dmlvk`: functions whose results are the same bits on every machine, by operator and version: whatever moves and
  chooses elements, arithmetic of integers, what IEEE 754 rounds correctly (+, -, x, /, square roots), comparisons,
  casts, quantized numbers, sequences and optional values, random numbers.
- `onnxruntime`: ONNX Runtime's CPU package, which `dmlvk[onnx]` brings and which is imported when a node needs it. One
  thread computes a node. The last bits of its floats may differ from one kind of processor to another.
- `onnx`: the onnx package's reference evaluator, for those versions of operators only that a test compared with ONNX
  Runtime or with the suite below (`dmlvk/onnx/host/evaluation/compared.py`).

What none of them knows is refused, with the reason of each. Without ONNX Runtime more is refused, and nothing is
computed otherwise.

Constants that follow from constants are computed once, when the model is loaded, by the first of these three; floats
that it does not round correctly (Exp, MatMul and so on) are the device's work, once before the first run. So they are
the same bits everywhere. Views of a weight (Identity, Transpose, Reshape, Expand) are the same memory. What would take
more memory than it follows from, such as DequantizeLinear of large weights, the device computes in every run.

`Shape` and `Size` follow from the shapes. The host decides about `If`, `Loop` and `Scan`, whose graphs run on the
device; an `If` whose condition follows from the shapes is its branch.

`python -m tests.onnx.random_nodes --nodes 20000` compares random nodes (operators, versions, attributes, types, inputs
that are constants) with ONNX Runtime.

Operators that are on the host whatever their types are; beside these, all of other domains that the table above does
not name (ai.onnx.ml and so on), as far as ONNX Runtime has them:"""


_SUITE = """\
`python -m dmlvk.onnx.backend.suite` runs every case of the package onnx. `--page FILE` fills in this table,
`--stated FILE` fails where a page states other numbers, as `.ci/run` asks of this one and of the README. Device: right,
and the host computed nothing but shapes and constants. Host: right, with nodes on the host; most of these cases are one
node, and the device has nothing to do in them (launch nothing)."""


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
