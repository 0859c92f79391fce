// What every pattern is made of: buffers of words, where operands begin in them, the lanes and the number of an invocation.
//
// Included behind the parameters (`parameters.base_<name>`); LANES and, where it holds, LONG_OPERATION are defined before.
#ifndef BUFFERS_GLSL
#define BUFFERS_GLSL

// One buffer is bound twice when an operator runs in place, so nothing here is `restrict`. `coherent`: a later dispatch of
// the same submission may read what this one writes, and Kompute as it is on PyPI records no memory barrier between them.
// Where barriers are recorded the word is taken out again, when the pipeline is made.
// The same words are seen in pairs and fours too, to load and store 8 and 16 bytes at once.
#define BUFFER(number, name) \
    layout(std430, set = 0, binding = number) coherent buffer Words_##name { uint words_##name[]; }; \
    layout(std430, set = 0, binding = number) coherent buffer Pairs_##name { uvec2 pairs_##name[]; }; \
    layout(std430, set = 0, binding = number) coherent buffer Fours_##name { uvec4 fours_##name[]; };

// Whether some operand begins behind the start of its buffer: adding the offsets costs llvmpipe 5% of its speed.
layout(constant_id = 1) const bool OPERANDS_HAVE_OFFSETS = true;
#define BASE_WORD(name) (OPERANDS_HAVE_OFFSETS ? parameters.base_##name : 0u)

// BASE(bits, name): index of an operand's first element in its buffer.
#define BASE(bits, name) CONCATENATE(BASE_, bits)(BASE_WORD(name))
#define BASE_8(word) ((word) << 2u)
#define BASE_16(word) ((word) << 1u)
#define BASE_32(word) (word)
#define BASE_64(word) ((word) >> 1u)

#include "processors.glsl"

// DO(0) DO(1) … for every lane, written out: arrays indexed by constants stay in registers.
#if LANES == 2
#define FOR_EACH_LANE_WRITTEN_OUT(DO) DO(0u) DO(1u)
#elif LANES == 4
#define FOR_EACH_LANE_WRITTEN_OUT(DO) DO(0u) DO(1u) DO(2u) DO(3u)
#elif LANES == 8
#define FOR_EACH_LANE_WRITTEN_OUT(DO) DO(0u) DO(1u) DO(2u) DO(3u) DO(4u) DO(5u) DO(6u) DO(7u)
#elif LANES == 16
#define FOR_EACH_LANE_WRITTEN_OUT(DO) \
    DO(0u) DO(1u) DO(2u) DO(3u) DO(4u) DO(5u) DO(6u) DO(7u) DO(8u) DO(9u) DO(10u) DO(11u) DO(12u) DO(13u) DO(14u) DO(15u)
#else
#error LANES must be 2, 4, 8 or 16
#endif

// A long operation would be copied into the machine code for every lane, which takes SwiftShader up to two seconds to
// compile: on processors it goes into a loop. On GPUs a loop costs up to half of the speed.
#ifdef LONG_OPERATION
#define FOR_EACH_LANE_IN_LOOP(DO) for (uint lane_ = 0u; lane_ < LANES; ++lane_) DO(lane_)
#define FOR_EACH_LANE(DO) if (ON_PROCESSOR) { FOR_EACH_LANE_IN_LOOP(DO) } else { FOR_EACH_LANE_WRITTEN_OUT(DO) }
#else
#define FOR_EACH_LANE_IN_LOOP(DO) FOR_EACH_LANE_WRITTEN_OUT(DO)
#define FOR_EACH_LANE(DO) FOR_EACH_LANE_WRITTEN_OUT(DO)
#endif

#define INSERT(bits, words, index, value) CONCATENATE(INSERT_, bits)(words, index, value)
#define STORE(bits, words, index, value) CONCATENATE(STORE_, bits)(words, index, value)

// Whether there are more work groups than one dimension can count: they lie in rows along y.
layout(constant_id = 0) const bool LAUNCH_HAS_ROWS = true;

uint work_group_index() {
    return LAUNCH_HAS_ROWS ? gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x : gl_WorkGroupID.x;
}

// The number of an invocation in its work group, which has one dimension. For the vectors that would say the same, naive
// drivers divide by the group's sizes, lane by lane and for every few invocations anew: half of the time of a copy.
uint index_in_group() { return ON_NAIVE_DRIVER ? gl_LocalInvocationIndex : gl_LocalInvocationID.x; }

uint invocation_index() {
    if (!LAUNCH_HAS_ROWS && !ON_NAIVE_DRIVER) { return gl_GlobalInvocationID.x; }
    return work_group_index() * 256u + index_in_group();
}

// A function (word, bits, mask) that stores the bits of a word which the mask selects. Others stay as they are, also where other invocations store
// theirs at the same moment.
#define STORES_BITS(name, words) \
    void name(uint word, uint bits, uint mask) { \
        if (mask == 0xffffffffu) { \
            words[word] = bits; \
        } else if (mask != 0u) { \
            atomicAnd(words[word], ~mask); \
            atomicOr(words[word], bits); \
        } \
    }

// Moves by the coordinate along an axis of what `rest` counts, from the innermost axis on, as MOVE(axis, coordinate) of the file says. Axes of
// size 1 vanish when the pipeline is made.
#define MOVE_BY(rest, axis) if (SIZE_##axis > 1u) { uint coordinate = rest % SIZE_##axis; rest /= SIZE_##axis; MOVE(axis, coordinate) }
#define MOVE_BY_FOUR(rest) MOVE_BY(rest, 0) MOVE_BY(rest, 1) MOVE_BY(rest, 2) MOVE_BY(rest, 3)
#define MOVE_BY_EIGHT(rest) MOVE_BY_FOUR(rest) MOVE_BY(rest, 4) MOVE_BY(rest, 5) MOVE_BY(rest, 6) MOVE_BY(rest, 7)

// Declares the number of an invocation, or of a work group, and ends those for which there is no work.
#define WORK_ITEM(item) uint item = invocation_index(); if (item >= parameters.work_items) { return; }
#define WORK_GROUP(group) uint group = work_group_index(); if (group >= parameters.work_items) { return; }

#endif
