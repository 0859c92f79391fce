// SPECIAL_ATTRIBUTE: the bits of an attribute for which the operator's function has a way of its own, or which one it is of a file's functions,
// or which operands have signs (signs.glsl); else 0. It is known when the pipeline is made, so that the other ways, and the registers that they
// take, are left out. The host sets it in the module (dmlvk/kernels/special_values.py); kernels of several operators define it as a number
// for each.
#ifndef SPECIAL_ATTRIBUTE
#ifndef SPECIAL_ATTRIBUTE_GLSL
#define SPECIAL_ATTRIBUTE_GLSL

layout(constant_id = 1001) const uint SPECIAL_ATTRIBUTE = 0u;

#endif
#endif
