// SCATTER along an axis of neighbours: a work group makes a line of the output, which it holds in shared memory meanwhile. For GPUs, and elements
// of 32 bits.
//
// Memory is gone through in order only, and each element once; what is at random, happens in shared memory: each update raises the number of
// its place to its own, which it has among those of its line; what has its number there has won, and puts its value in the number's place.
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "movement/index_lines.glsl"

// The last number of 16 bits means no place.
uint choice_of(Index index) { return min(choice_or_none(index, LENGTH), 0xffffu); }

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
