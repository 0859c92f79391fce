// What the file of an operator sees that takes elements from places that indices tell: parameters, buffers, indexed.glsl.
//
// A file that defines HAS_UPDATES has one more input, words_updates.
// The compile script passes UNIT_BITS (indexed.glsl) and LANES, the units that an invocation takes.
#define LONG_OPERATION
#include "datatypes.glsl"

layout(local_size_x = 256) in;

layout(push_constant) uniform Parameters {
    // Where each operand begins in its buffer, in words; a multiple of 4.
    uint base_sparse, base_index;
#ifdef HAS_UPDATES
    uint base_updates;
#endif
    uint base_dense;
    uint elements; // units that the output has
} parameters;

#include "buffers.glsl"

BUFFER(0, sparse)
BUFFER(1, index)
#ifdef HAS_UPDATES
BUFFER(2, updates)
BUFFER(3, dense)
#else
BUFFER(2, dense)
#endif

#include "movement/indexed.glsl"
