"""What ``try_windows.py`` has CPython for Windows do, a program each; a check passes where its program ends with 0."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from types import MappingProxyType

_HEAD = "import os, sys, subprocess, threading, tempfile, json, re, pathlib\nimport numpy as np\nimport dmlvk as dml\n"


@dataclasses.dataclass(frozen=True)
class Check:
    """A program.

    Attributes:
        name: what it shows.
        program: Python; ``ROOT`` is the checkout's folder.
        needs: a statement; where it fails, the check is left out.
        environment: further variables for wine.
    """

    name: str
    program: str
    needs: str = ""
    environment: Mapping[str, str] = dataclasses.field(default_factory=dict)


_DESC = """
def desc(data_type, n=3, name="ELEMENT_WISE_ABS"):
    tensor = dml.TensorDesc(data_type, (n,))
    return dml.operator_desc(name, InputTensor=tensor, OutputTensor=tensor)
"""

_COMMAND = """
def command(*words, **environment):
    words = [sys.executable, *map(str, words)]
    given = {**os.environ, **environment}
    done = subprocess.run(words, capture_output=True, stdin=subprocess.DEVNULL, env=given)
    assert done.returncode == 0, (words, environment, done.stdout, done.stderr)
    return done.stdout
EXAMPLES = pathlib.Path(ROOT, "examples")
"""

CHECKS = (
    Check("devices are listed", "import dmlvk\nassert dmlvk.list_devices()[0].usable"),
    Check(
        "README's Python runs",
        _HEAD
        + "os.chdir(ROOT)\n"
        + """
text = pathlib.Path(ROOT, "README.md").read_text(encoding="utf-8")
names = {}
for block in re.findall(r"^```python\\n(.*?)^```", text, re.M | re.S):
    exec(block, names)
names["device"].close()
""",
        needs="import onnx",
    ),
    Check(
        "lists of integers are INT64",
        _HEAD
        + _DESC
        + """
with dml.Device() as device:
    assert device.run(desc(dml.INT64), {"InputTensor": [-1, 2, -3]})["OutputTensor"].tolist() == [1, 2, 3]
    graph = dml.Graph(device)
    a = graph.input("a", dml.INT64, (3,))
    assert device.run(graph.compile(y=a + [1, 2, 3]), {"a": np.int64([1, 1, 1])})["y"].tolist() == [2, 3, 4]
""",
    ),
    Check(
        "graphs are fused, with the same bits",
        _HEAD
        + """
os.environ["DMLVK_CACHE_DIR"] = tempfile.mkdtemp(prefix="ä ö ")
x = np.linspace(-3, 3, 1000, dtype=np.float32)
with dml.Device() as device:
    found = []
    for fuse in (False, True):
        graph = dml.Graph(device)
        a = graph.input("a", dml.FLOAT32, (1000,))
        b = np.tanh(a) * 2 + 1
        compiled = graph.compile(y=abs(b) * a, fuse=fuse)
        found.append((device.run(compiled, {"a": x})["y"], len(compiled.steps)))
assert (found[0][0].view(np.uint32) == found[1][0].view(np.uint32)).all()
assert found[1][1] < found[0][1], "nothing was fused"
""",
        needs="from dmlvk.kernels.library import glsl; assert glsl.compiler()",
    ),
    Check(
        "threads share a device",
        _HEAD
        + _DESC
        + """
with dml.Device() as device:
    found = []
    def work(i):
        for j in range(20):
            x = np.full(i + 1, -i, np.float32)
            found.append((device.run(desc(dml.FLOAT32, i + 1), {"InputTensor": x})["OutputTensor"] == i).all())
    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
assert len(found) == 160 and all(found)
""",
    ),
    Check(
        "model files lie on a drive, in folders with blanks and umlauts",
        _HEAD
        + _COMMAND
        + """
import shutil
folder = pathlib.Path(tempfile.mkdtemp(prefix="Modelle für dmlvk "))
assert folder.drive
shutil.copy(EXAMPLES / "add1_elu.json", folder / "größer.json")
command("-m", "dmlvk", "run", folder / "größer.json")
""",
    ),
    Check(
        "consoles with few characters show everything",
        _HEAD
        + _COMMAND
        + """
for encoding in ("cp437", "ascii", "utf-8"):
    for words in (["devices"], ["operators", "sign"], ["run", EXAMPLES / "sign.json"]):
        command("-m", "dmlvk", *words, PYTHONIOENCODING=encoding).decode(encoding)
""",
    ),
    Check(
        "a cache that is locked, or no folder, does no harm",
        _HEAD
        + """
import msvcrt
folder = pathlib.Path(tempfile.mkdtemp())
def run(a0):
    with dml.Device() as device:
        graph = dml.Graph(device)
        a = graph.input("a", dml.FLOAT32, (3,))
        return device.run(graph.compile(y=abs(a) * 2 + a0), {"a": np.float32([-1, 2, -3])})["y"].tolist()
os.environ["DMLVK_CACHE_DIR"] = str(folder)
assert run(1) == [3, 5, 7]
from dmlvk.kernels.library import glsl
from dmlvk.trials import arithmetic_trial
glsl._in_memory.clear(); arithmetic_trial._found.clear()
files = [open(path, "r+b") for path in folder.iterdir()]
for file in files:
    msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, max(1, os.path.getsize(file.name)))
assert run(1) == [3, 5, 7]
os.environ["DMLVK_CACHE_DIR"] = files[0].name
glsl._in_memory.clear(); arithmetic_trial._found.clear()
assert run(2) == [4, 6, 8]
""",
    ),
    Check(
        "Ctrl-C ends a loop of runs, and the device works afterwards",
        _HEAD
        + _DESC
        + """
import signal, _thread
with dml.Device() as device:
    x = np.zeros(2**20, np.float32)
    try:
        threading.Timer(0.5, lambda: _thread.interrupt_main()).start()
        while True:
            device.run(desc(dml.FLOAT32, 2**20), {"InputTensor": x})
    except KeyboardInterrupt:
        pass
    assert device.run(desc(dml.FLOAT32), {"InputTensor": np.float32([-1, 2, -3])})["OutputTensor"].tolist() == [1, 2, 3]
""",
    ),
    Check(
        "spawned processes compute",
        _HEAD
        + """
folder = pathlib.Path(tempfile.mkdtemp())
(folder / "spawned.py").write_text('''
import multiprocessing, numpy as np, sys
sys.path[:0] = %r
import dmlvk as dml
def work(i):
    tensor = dml.TensorDesc(dml.FLOAT32, (3,))
    desc = dml.operator_desc("ELEMENT_WISE_ABS", InputTensor=tensor, OutputTensor=tensor)
    with dml.Device() as device:
        return device.run(desc, {"InputTensor": np.float32([-i, i, 0])})["OutputTensor"].tolist()
if __name__ == "__main__":
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        assert pool.map(work, range(3)) == [[i, i, 0] for i in range(3)]
''' % sys.path)
done = subprocess.run([sys.executable, str(folder / "spawned.py")], capture_output=True, stdin=subprocess.DEVNULL)
assert done.returncode == 0, done.stderr
""",
    ),
    Check(
        "without vulkan-1.dll a line says what brings it",
        """
import subprocess, sys
import dmlvk
try:
    dmlvk.Device()
except dmlvk.DeviceNotFoundError as error:
    said = str(error)
else:
    raise AssertionError("it was found")
assert said.startswith("No Vulkan loader found (vulkan-1.dll: ") and "graphics driver" in said, said
words = [sys.executable, "-m", "dmlvk", "devices"]
done = subprocess.run(words, capture_output=True, stdin=subprocess.DEVNULL, text=True)
assert (done.returncode, done.stderr.strip()) == (2, f"dmlvk: {said}"), done
""",
        environment=MappingProxyType({"WINEDLLOVERRIDES": "vulkan-1="}),
    ),
    Check(
        "a wheel for another system is refused in one line",
        """
import pathlib, subprocess, sys, tempfile
wheel = pathlib.Path(tempfile.mkdtemp(), "kp-0.9.0-cp312-cp312-manylinux_2_34_x86_64.whl")
wheel.touch()
words = [sys.executable, "-m", "pip", "install", "--no-index", "--no-deps", str(wheel)]
done = subprocess.run(words, capture_output=True, stdin=subprocess.DEVNULL, text=True)
assert "is not a supported wheel on this platform" in done.stderr.strip().splitlines()[-1], done
""",
    ),
    Check(
        "an ONNX model reads a digit",
        _HEAD
        + _COMMAND
        + """
print(command("-m", "dmlvk", "run", EXAMPLES / "digits.onnx", "--input", EXAMPLES / "digit.png"))
""",
        needs="import onnx",
    ),
)
