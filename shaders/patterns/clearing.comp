// Words that are zero, four for each invocation.
// Memory that is set to zero before atomic operations count in it.
#define LANES 4
#include "datatypes.glsl"

layout(local_size_x = 256) in;

layout(push_constant) uniform Parameters {
    uint base_cleared; // in words; a multiple of 4
    uint fours;        // how many groups of four words there are
} parameters;

#include "buffers.glsl"

BUFFER(0, cleared)

void main() {
    uint four = invocation_index();
    if (four < parameters.fours) { fours_cleared[(BASE_WORD(cleared) >> 2u) + four] = uvec4(0u); }
}
