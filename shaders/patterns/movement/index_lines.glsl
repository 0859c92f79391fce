// What SCATTER and GATHER_ELEMENTS have in common whose lines a work group holds in shared memory: elements of 32 bits that lie side by side
// along the axis, as the indices do. An operator's file defines behind
//   choice_of(index)     the place that an index means in its line

#define LONG_OPERATION
#include "datatypes.glsl"

layout(local_size_x = 256) in;

layout(push_constant) uniform Parameters {
    uint base_input; // in words
    uint base_index, base_updates, base_output, lines;
    uint input_line; // from line to line, in elements
    uint index_line, updates_line, output_line;
} parameters;

#define LANES 4
#include "buffers.glsl"
BUFFER(0, input)
BUFFER(1, index)
BUFFER(2, updates)
BUFFER(3, output)

layout(constant_id = 2) const uint LENGTH = 4096u; // of a line that indices point into: a multiple of 4
layout(constant_id = 3) const uint INVOCATIONS = 256u;
layout(constant_id = 4) const uint INDICES_OF_LINE = 4096u; // a multiple of 4
layout(constant_id = 5) const bool INDEX_IS_PAIR = false;
layout(constant_id = 6) const bool INDEX_IS_SIGNED = false;

#include "movement/index_choices.glsl"

shared uint line[LENGTH];

// An invocation takes four neighbours in each iteration, and the work group the whole line in at most MAX_ITERATIONS.
#define MAX_ITERATIONS 8u
#define ITERATIONS(count) (((count) + 4u * INVOCATIONS - 1u) / (4u * INVOCATIONS))
#define FIRST_OF(iteration) (4u * (slot + (iteration) * INVOCATIONS))
#define IS_INSIDE(iteration, count) ((iteration) < ITERATIONS(count) && FIRST_OF(iteration) < (count))

uint choice_of(Index index); // a number of 16 bits
uint choice_of_word(uint word) { return choice_of(Index(word, INDEX_IS_SIGNED ? uint(int(word) >> 31) : 0u)); }

// Four choices in two words.
uvec2 choices_at(uint element) {
    if (INDEX_IS_PAIR) {
        uint four = (BASE_WORD(index) >> 2u) + (element >> 1u);
        uvec4 a = fours_index[four];
        uvec4 b = fours_index[four + 1u];
        return uvec2(choice_of(Index(a.x, a.y)) | (choice_of(Index(a.z, a.w)) << 16),
            choice_of(Index(b.x, b.y)) | (choice_of(Index(b.z, b.w)) << 16));
    }
    uvec4 a = fours_index[(BASE_WORD(index) + element) >> 2u];
    return uvec2(choice_of_word(a.x) | (choice_of_word(a.y) << 16), choice_of_word(a.z) | (choice_of_word(a.w) << 16));
}
