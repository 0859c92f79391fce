// What the rate of a step of Adam is made of: one number is read, one word is written.
//
// The file includes this one before it defines rate_of_step(bits of the number).
//
// The compile script passes STEP (uint32, float32 or float16) and STEP_BITS.
#define LANES 4
#define INPUT_COUNT 1
layout(local_size_x = 256) in;

layout(push_constant) uniform Parameters {
    uint base_step, base_output, learning_rate;
    // Beta1 and Beta2 as multiples of 2^-127, the low word first.
    uint beta_1[4], beta_2[4];
} parameters;

#include "datatypes.glsl"
#include "buffers.glsl"

BUFFER(0, step)
BUFFER(1, output)

uint rate_of_step(uint step);

uint step_bits() { return LOAD(STEP, words_step, BASE(STEP_BITS, step)); }

void main() {
    if (invocation_index() == 0u) { words_output[BASE_WORD(output)] = rate_of_step(step_bits()); }
}
