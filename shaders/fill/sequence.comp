// FILL_VALUE_SEQUENCE: ValueStart + number * ValueDelta; integers wrap, floats are rounded once.
#include "elementwise/offsets.glsl"

#define START parameters.attributes[0]
#define DELTA parameters.attributes[2]
#if OUTPUT_BITS == 64
#include "integer_arithmetic.glsl"
#define PAIR(first) uvec2(parameters.attributes[first], parameters.attributes[first + 1])
#define OPERATION(number) add_u64(PAIR(0), multiply_u64(uvec2(number, 0u), PAIR(2)))
#elif IS_FLOAT
#include "scale_bias.glsl"
#include "wide_float.glsl"
#define SUM(number) scaled_and_biased(number_from_unsigned(number), DELTA, START)
#if OUTPUT_BITS == 16
#define OPERATION(number) float16_from_float32(float32_from_wide(SUM(number), true))
#else
#define OPERATION(number) float32_from_wide(SUM(number), false)
#endif
#else
#define OPERATION(number) (START + (number) * DELTA)
#endif
#include "elementwise/each_offset.glsl"
