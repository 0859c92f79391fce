// SCATTER along an axis of neighbours: a work group makes a line of the output, which it holds in shared memory meanwhile. For GPUs, and elements
// of 32 bits.
//
// Memory is gone through in order only, and each element once; what is at random, happens in shared memory: each update raises the number of
// its place to its own, which it has among those of its line; what has its number there has won, and puts its value in the number's place.
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#define LONG_OPERATION
#include "datatypes.glsl"

layout(local_size_x = 256) in;

layout(push_constant) uniform Parameters {
    uint base_input; // in words
    uint base_index;
    uint base_updates;
    uint base_output;
    uint lines;
    uint input_line; // from line to line, in elements
    uint index_line;
    uint updates_line;
    uint output_line;
} parameters;

#define LANES 4
#include "buffers.glsl"
BUFFER(0, input)
BUFFER(1, index)
BUFFER(2, updates)
BUFFER(3, output)

layout(constant_id = 2) const uint LENGTH = 4096u; // of a line of the input and the output: a multiple of 4
layout(constant_id = 3) const uint INVOCATIONS = 256u;
layout(constant_id = 4) const uint INDICES_OF_LINE = 4096u; // a multiple of 4
layout(constant_id = 5) const bool INDEX_IS_PAIR = false;
layout(constant_id = 6) const bool INDEX_IS_SIGNED = false;

#include "index_choices.glsl"

// Numbers of 16 bits, of which the last one means no place.
#define choice_of(index) min(choice_or_none(index, LENGTH), 0xffffu)

shared uint line[LENGTH];

// An invocation takes four neighbours in each turn, and the work group the whole line in at most MOST_TURNS.
#define MOST_TURNS 8u
#define TURNS(count) (((count) + 4u * INVOCATIONS - 1u) / (4u * INVOCATIONS))
#define FIRST_OF(turn) (4u * (slot + (turn) * INVOCATIONS))
#define IS_INSIDE(turn, count) ((turn) < TURNS(count) && FIRST_OF(turn) < (count))

uint choice_of_word(uint word) { return choice_of(Index(word, INDEX_IS_SIGNED ? uint(int(word) >> 31) : 0u)); }

// Four choices in two words.
uvec2 choices_at(uint element)
{
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

void main()
{
    uint slot = gl_LocalInvocationIndex;
    uint number = work_group_index();
    if (number >= parameters.lines) {
        return;
    }
    uint input_line = number * parameters.input_line;
    uint index_line = number * parameters.index_line;
    uint output_line = number * parameters.output_line;
    uvec2 choices[MOST_TURNS];
    [[unroll]] for (uint turn = 0u; turn < 4u * MOST_TURNS; ++turn) {
        uint at = slot + turn * INVOCATIONS;
        if (turn < 4u * TURNS(LENGTH) && at < LENGTH) {
            line[at] = 0u;
        }
    }
    [[unroll]] for (uint turn = 0u; turn < MOST_TURNS; ++turn) {
        uint at = FIRST_OF(turn);
        choices[turn] = uvec2(0xffffffffu);
        if (IS_INSIDE(turn, INDICES_OF_LINE)) {
            choices[turn] = choices_at(index_line + at);
        }
    }
    barrier();
#define EACH_CHOICE(DO, turn) \
    DO(turn, 0u, choices[turn].x & 0xffffu) DO(turn, 1u, choices[turn].x >> 16) DO(turn, 2u, choices[turn].y & 0xffffu) \
    DO(turn, 3u, choices[turn].y >> 16)
#define MARK(turn, i, choice) \
    if ((choice) < LENGTH) { \
        atomicMax(line[choice], FIRST_OF(turn) + i + 1u); \
    }
    [[unroll]] for (uint turn = 0u; turn < MOST_TURNS; ++turn) {
        if (turn < TURNS(INDICES_OF_LINE)) {
            EACH_CHOICE(MARK, turn)
        }
    }
    barrier();
    uint winners = 0u;
    uint found = 0u;
#define JUDGE(turn, i, choice) \
    if ((choice) < LENGTH) { \
        winners |= uint(line[choice] == FIRST_OF(turn) + i + 1u) << (4u * turn + i); \
    }
    [[unroll]] for (uint turn = 0u; turn < MOST_TURNS; ++turn) {
        if (turn < TURNS(INDICES_OF_LINE)) {
            EACH_CHOICE(JUDGE, turn)
        }
    }
    [[unroll]] for (uint turn = 0u; turn < MOST_TURNS; ++turn) {
        uint at = FIRST_OF(turn);
        if (IS_INSIDE(turn, LENGTH)) {
            uint bits = uint(line[at] != 0u) | (uint(line[at + 1u] != 0u) << 1) | (uint(line[at + 2u] != 0u) << 2)
                | (uint(line[at + 3u] != 0u) << 3);
            found |= bits << (4u * turn);
        }
    }
    barrier();
#define PUT(turn, i, choice) \
    if (((winners >> (4u * turn + i)) & 1u) != 0u) { \
        line[choice] = update[i]; \
    }
    [[unroll]] for (uint turn = 0u; turn < MOST_TURNS; ++turn) {
        uint at = FIRST_OF(turn);
        if (IS_INSIDE(turn, INDICES_OF_LINE)) {
            uvec4 update = fours_updates[(BASE_WORD(updates) + number * parameters.updates_line + at) >> 2u];
            EACH_CHOICE(PUT, turn)
        }
    }
    barrier();
    [[unroll]] for (uint turn = 0u; turn < MOST_TURNS; ++turn) {
        uint at = FIRST_OF(turn);
        if (IS_INSIDE(turn, LENGTH)) {
            uint bits = (found >> (4u * turn)) & 15u;
            uvec4 result = uvec4(line[at], line[at + 1u], line[at + 2u], line[at + 3u]);
            if (bits != 15u) {
                uvec4 kept = fours_input[(BASE_WORD(input) + input_line + at) >> 2u];
                result = mix(kept, result, bvec4((bits & 1u) != 0u, (bits & 2u) != 0u, (bits & 4u) != 0u, (bits & 8u) != 0u));
            }
            fours_output[(BASE_WORD(output) + output_line + at) >> 2u] = result;
        }
    }
}
