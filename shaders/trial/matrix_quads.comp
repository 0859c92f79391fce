// A trial of how a device deals out cooperative matrices: dmlvk/trials/matrix_trial.py.
#include "products/matrix_quads.glsl"
