"""``docs/onnx.md``: how ONNX models run, which operators are translated, what the ONNX project's suite says."""

from __future__ import annotations

import collections
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import onnx

import dmlvk.onnx.operators as operators
from dmlvk.onnx.exclusions import EXCLUSIONS
from dmlvk.onnx.translation import TRANSLATIONS, Translation
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

Sessions (`run`, `run_with_ort_values`, `run_with_iobinding`, `run_async`, `get_inputs`, `get_modelmeta` and so on),
`OrtValue`, `IOBinding`, `SessionOptions`, `RunOptions` and `get_available_providers` are there under their names.
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
  why. What the device lacks is computed by the onnx package's reference evaluator, which is slow; a line in the log
  `dmlvk` says so. `strict=True` refuses such models instead.
- Initializers are constants, also those that are inputs as well.
- Of `SessionOptions` two things matter: `add_free_dimension_override_by_name` (and `_by_denotation`) fixes sizes, so
  that the model is planned when it is loaded, and with `enable_profiling` `session.end_profiling()` writes a trace of
  every kernel. All else is accepted and changes nothing, and so are lists of providers.
- Addresses of memory are not taken (`bind_input`, `bind_output` with `buffer_ptr`): bind an `OrtValue`. Files in ONNX
  Runtime's own format (`.ort`) are refused; the `.onnx` file that they were made from runs.
- `session.usage` tells launches, waits and memory of the last run, beside the least memory that any plan needs.
- `session.profile(inputs)` gives the device's time of each kernel; `session.write_picture("graph.svg")` draws the
  graphs.
- Sizes that a model leaves open are bound by each run's inputs. A plan with its compiled graphs is kept for each set of
  input shapes, up to 16 of them: a later run of the same shapes compiles nothing and allocates nothing on the device.
- A `Loop` ends with an error after 32,768 iterations, so that no file can hang a program.
- External data is read from files inside the model's folder only. Damaged files end in one `dmlvk.ModelFileError` that
  names the node (`python -m tests.onnx.mutations` tries 3,000 of them).

`dmlvk.onnx.backend` is the ONNX project's own interface for backends (`prepare`, `run_model`, `run_node`)."""

_TABLE = """\
A node becomes the operators of DirectML that its row names; [operators.md](operators.md) says which of them this
version has, with which data types. Everything else runs on the host. Operators that ONNX itself defines by others
(`RMSNormalization`, `AffineGrid` and more) run by their definition, where the device has all of
it. Constants are computed once; `Shape` and `Size` follow from the shapes. The host decides about `If`, `Loop` and
`Scan`, whose graphs run on the device; an `If` whose condition follows from the shapes is its branch."""


def onnx_page(measurements: Path) -> str:
    """The document.

    Args:
        measurements: what ``python -m dmlvk.onnx.suite --json`` wrote.
    """
    return page(_parts(measurements))


def _parts(measurements: Path) -> Iterator[str]:
    yield from ("# ONNX models", "", _START, "", "## Operators", "", _TABLE, "")
    yield from table(["Operator", "Versions", "DirectML's operators", "Remarks"], _rows())
    yield from ("", "## The ONNX project's test suite", "")
    yield from _suite(json.loads(measurements.read_text(encoding="utf-8")))


def _rows() -> Iterator[list[str]]:
    for (domain, op_type), known in sorted(TRANSLATIONS.items(), key=lambda item: (item[0][0], item[0][1].lower())):
        for translation in known:
            yield [
                f"{domain}.{op_type}" if domain else op_type,
                _versions(translation),
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


def _made_of(translation: Translation) -> str:
    return ", ".join(translation.operators) or "views, or chosen by attributes"


def _suite(results: dict[str, Any]) -> Iterator[str]:
    yield (
        f"`python -m dmlvk.onnx.suite` runs every case of onnx {results['onnx']}; here is what it found on "
        f"{results['device']}. Device: right, and the host computed nothing but shapes and constants. Host: right, "
        "with nodes on the host."
    )
    yield ""
    counts: dict[str, collections.Counter[str]] = {}
    for kind, outcome, count in results["counts"]:
        counts.setdefault(kind, collections.Counter())[outcome] += count
    yield from table(
        ["Cases", "All", "Device", "Host", "Excluded"],
        (
            [kind, str(sum(found.values())), str(found["device"]), str(found["host"]), str(found["excluded"])]
            for kind, found in counts.items()
        ),
    )
    yield from ("", "Excluded:", "")
    yield from table(["Cases", "Why"], ([f"`{item.pattern}`", item.reason] for item in EXCLUSIONS))
