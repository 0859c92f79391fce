// ELEMENT_WISE_POW: f(x, e) = x^e, with the special values of C's pow; integers as integer_power.glsl says.
#version 450
#extension GL_GOOGLE_include_directive : require
// That of float16 bases is short.
#if INPUT_0_BITS == 16
#define LONG_FOR_INTEGERS
#else
#define LONG_OPERATION
#endif
#include "elementwise_operands.glsl"
#include "half_power.glsl"
#include "integer_power.glsl"
#include "prescaling.glsl"
#include "saturation.glsl"

// Powers of integers by floats are saturated, those by integers wrap when they are stored.
#define BOUNDED_BY_f32(power) SATURATED(OUTPUT)(power)
#define BOUNDED_BY_f16(power) SATURATED(OUTPUT)(power)
#define BOUNDED_BY_i32(power) (power)
#define BOUNDED_BY_u32(power) (power)
#define BOUNDED CONCATENATE(BOUNDED_BY_, CONCATENATE(FORM_, INPUT_1))

#define POWER FORM(CONCATENATE(FORM(power, INPUT_0), _by), INPUT_1)
#define OPERATION(x, e) BOUNDED(POWER(SCALED(x), e))
#include "elementwise.glsl"
