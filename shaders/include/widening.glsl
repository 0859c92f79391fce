// Values of FLOAT32 and FLOAT16 tensors as float32, and back: results are rounded once to the tensor's type.
#ifndef WIDENING_GLSL
#define WIDENING_GLSL

#include "float16.glsl"

uint widened_f32(uint x) { return x; }
uint widened_f16(uint x) { return float32_from_float16(x); }
uint narrowed_f32(uint x) { return x; }
uint narrowed_f16(uint x) { return float16_from_float32(x); }

#endif
