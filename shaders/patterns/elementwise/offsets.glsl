// Elements of a packed tensor from their numbers, counted from its first one. The file defines
//   OPERATION(number)       the element's value
//   HAS_INPUT               1 where there is a packed input of the same sizes, `input_0`
// An invocation computes a 32-bit word, or an element of 64 bits; of the last word those bits that are the tensor's own.
#include "datatypes.glsl"

#define LANES 4
layout(local_size_x = 256) in;

layout(push_constant) uniform Parameters {
#if HAS_INPUT
    uint base_input_0;
#endif
    uint base_output, count, attributes[5];
} parameters;

// Of the last two dimensions, for files that ask where in them an element lies.
layout(constant_id = 2) const uint WIDTH = 1u;
layout(constant_id = 3) const uint HEIGHT = 1u;

#include "buffers.glsl"

#if HAS_INPUT
BUFFER(0, input_0)
BUFFER(1, output)
#else
BUFFER(0, output)
#endif
