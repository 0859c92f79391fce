"""Model files in the format of DirectML's own tool, DxDispatch: JSON that names buffers, operators and commands.

    from dmlvk.models import load_model, run_model

    model = load_model("sign.json")
    with dml.Device() as device:
        result = run_model(model, device, Path("output"), print)

What runs: DirectML operators (members inline or in ``desc``) and ONNX models (with the onnx package); resources from
arrays, constants, sequences, .npy files, pictures and raw files, and deferred ones, which an ONNX model makes; the
commands dispatch, print, writeFile, and dmlvk's own ``expect`` (see :mod:`dmlvk.models.commands`). Refused by name:
HLSL shaders and serialized graphs.

Where dmlvk differs from the tool, on purpose:

- Unknown members and repeated keys are errors; keys that begin with ``$`` are not looked at.
- Files are written below an output directory, never elsewhere.
- 8-bit values are printed as numbers; floats in the shortest form that reads back as the same value.
- Finite numbers beyond a float type's range are refused, not turned into infinities.
- Pictures may also be read into, and written from, UINT8 (0 to 255), and keep their own size without ``resampleSize``.
- A bound range ends where its tensor does, so that one resource can hold an input and an output side by side.
"""

from dmlvk.models.model import Model, load_model
from dmlvk.models.runner import RunResult, Timing, run_model

__all__ = ["Model", "RunResult", "Timing", "load_model", "run_model"]
