"""The classes of all operators: each module of a family lists its own in ``__all__``, and has one line here.

A new operator of a family that is here takes nothing more: its class is part of the package.
"""

# ruff: noqa: F403  # the families say what they export
from dmlvk.operators.activation import *
from dmlvk.operators.arithmetic import *
from dmlvk.operators.attention import *
from dmlvk.operators.batch_gradient import *
from dmlvk.operators.batch_training import *
from dmlvk.operators.bitwise import *
from dmlvk.operators.block_quantization import *
from dmlvk.operators.cast import *
from dmlvk.operators.convolution import *
from dmlvk.operators.elementwise import *
from dmlvk.operators.error_function import *
from dmlvk.operators.exponential import *
from dmlvk.operators.filling import *
from dmlvk.operators.indexed import *
from dmlvk.operators.integer_products import *
from dmlvk.operators.local_response import *
from dmlvk.operators.logarithm import *
from dmlvk.operators.logical import *
from dmlvk.operators.matrix import *
from dmlvk.operators.movement import *
from dmlvk.operators.nonzero import *
from dmlvk.operators.normalization import *
from dmlvk.operators.optimizer import *
from dmlvk.operators.pooling import *
from dmlvk.operators.quantization import *
from dmlvk.operators.quantized_pooling import *
from dmlvk.operators.quantized_products import *
from dmlvk.operators.random import *
from dmlvk.operators.rearrangement import *
from dmlvk.operators.recurrent import *
from dmlvk.operators.reduction import *
from dmlvk.operators.region_alignment import *
from dmlvk.operators.region_gradient import *
from dmlvk.operators.regions import *
from dmlvk.operators.resampling import *
from dmlvk.operators.scan import *
from dmlvk.operators.softmax import *
from dmlvk.operators.sorting import *
from dmlvk.operators.trigonometry import *
