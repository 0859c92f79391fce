"""The classes of all operators, and their enumerations: each module of a family has one line here.

A new operator of a family that is here takes nothing more: its class is part of the package.
"""

# What else families have is taken out again below.
from dmlvk.operators import declaration as _declaration
from dmlvk.operators.activation import *
from dmlvk.operators.arithmetic import *
from dmlvk.operators.attention import *
from dmlvk.operators.batch_training import *
from dmlvk.operators.bitwise import *
from dmlvk.operators.cast import *
from dmlvk.operators.convolution import *
from dmlvk.operators.elementwise import *
from dmlvk.operators.filling import *
from dmlvk.operators.indexed import *
from dmlvk.operators.integer_products import *
from dmlvk.operators.local_response import *
from dmlvk.operators.logical import *
from dmlvk.operators.matrix import *
from dmlvk.operators.members import AxisDirection as AxisDirection
from dmlvk.operators.members import QuantizationType as QuantizationType
from dmlvk.operators.members import ReduceFunction as ReduceFunction
from dmlvk.operators.movement import *
from dmlvk.operators.nonzero import *
from dmlvk.operators.normalization import *
from dmlvk.operators.optimizer import *
from dmlvk.operators.pooling import *
from dmlvk.operators.quantization import *
from dmlvk.operators.quantized_products import *
from dmlvk.operators.random import *
from dmlvk.operators.rearrangement import *
from dmlvk.operators.recurrent import *
from dmlvk.operators.reduction import *
from dmlvk.operators.regions import *
from dmlvk.operators.resampling import *
from dmlvk.operators.scan import *
from dmlvk.operators.softmax import *
from dmlvk.operators.sorting import *
from dmlvk.operators.transcendental import *

_kinds = _declaration.OPERATORS.values()
_public = {id(kind) for kind in _kinds} | {id(field.enumeration) for kind in _kinds for field in kind.fields}
for _name in [name for name, value in vars().items() if not name.startswith("_") and id(value) not in _public]:
    del globals()[_name]
