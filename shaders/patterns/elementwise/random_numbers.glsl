// Random numbers by a counter: the generator Philox 4x32-10 of J. Salmon, M. Moraes, R. Dror and D. Shaw, «Parallel random
// numbers: as easy as 1, 2, 3» (SC 2011). Ten rounds of multiplications turn a counter of 128 bits and a key of 64 bits into
// four words, which do not depend on any others: an invocation makes one such group.
//
// The state is six words: the counter, its lowest word first, and the key. Group g has the counter of the state plus g.
// Outputs of any strides, each with its axes folded: axis 0 is the innermost one in the order of the elements.
#define LANES 4
#include "datatypes.glsl"

layout(local_size_x = 256) in;

layout(push_constant) uniform Parameters {
    // Where each operand begins in its buffer, in words; a multiple of 4.
    uint base_state, base_output;
#ifdef ADVANCES_STATE
    uint groups; // that were made
#else
    uint elements;
#endif
    uint state_step; // how far apart the words of the state lie
    uint output_step; // those of the advanced state
} parameters;

#include "buffers.glsl"

BUFFER(0, state)
BUFFER(1, output)

#define STATE_WORD(n) words_state[BASE_WORD(state) + n * parameters.state_step]

// A counter of 128 bits some steps later; it wraps.
uvec4 advanced(uvec4 counter, uint steps) {
    counter.x += steps;
    uint carry = uint(counter.x < steps);
    counter.y += carry;
    carry = uint(counter.y < carry);
    counter.z += carry;
    carry = uint(counter.z < carry);
    counter.w += carry;
    return counter;
}

uvec4 counter_of_state() { return uvec4(STATE_WORD(0u), STATE_WORD(1u), STATE_WORD(2u), STATE_WORD(3u)); }
uvec2 key_of_state() { return uvec2(STATE_WORD(4u), STATE_WORD(5u)); }
