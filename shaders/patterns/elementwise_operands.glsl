// What an element-wise operator's file sees before its function: data types, parameters and buffers.
//
// The file defines LONG_OPERATION before when its function takes hundreds of instructions, as a ScaleBias does. The compile
// script passes
//   INPUT_COUNT                           how many inputs there are: 1 to 8
//   INPUT_0, INPUT_1, INPUT_2, INPUT_3, INPUT_4, INPUT_5, INPUT_6, INPUT_7 (as many as there are) and OUTPUT
//                                         the data type of each operand, as a token of datatypes.glsl
//   INPUT_0_BITS, INPUT_1_BITS, INPUT_2_BITS, INPUT_3_BITS, INPUT_4_BITS, INPUT_5_BITS, INPUT_6_BITS, INPUT_7_BITS
//   and OUTPUT_BITS                       its width, for #if
//   STRIDED                               0: all operands contiguous; 1: any strides
//   LANES                                 elements that one invocation computes
//   ATTRIBUTE_WORDS, ATTRIBUTE_<NAME>     how many words of attributes there are, and where each one lies
//   HAS_<NAME>                            1 where an optional attribute is given, else 0
#ifndef ELEMENTWISE_OPERANDS_GLSL
#define ELEMENTWISE_OPERANDS_GLSL

#include "datatypes.glsl"

#ifdef HAS_SCALE_BIAS
#if HAS_SCALE_BIAS
#define LONG_OPERATION
#endif
#endif

layout(local_size_x = 256) in;

// FOR_EACH_INPUT(DO, argument): DO(0, argument) DO(1, argument) … for every input. APPLY(OPERAND, lane): the operator's function of OPERAND(0, lane),
// OPERAND(1, lane) …
#if INPUT_COUNT == 1
#define FOR_EACH_INPUT(DO, argument) DO(0, argument)
#define APPLY(OPERAND, lane) OPERATION(OPERAND(0, lane))
#elif INPUT_COUNT == 2
#define FOR_EACH_INPUT(DO, argument) DO(0, argument) DO(1, argument)
#define APPLY(OPERAND, lane) OPERATION(OPERAND(0, lane), OPERAND(1, lane))
#elif INPUT_COUNT == 3
#define FOR_EACH_INPUT(DO, argument) DO(0, argument) DO(1, argument) DO(2, argument)
#define APPLY(OPERAND, lane) OPERATION(OPERAND(0, lane), OPERAND(1, lane), OPERAND(2, lane))
#elif INPUT_COUNT == 5
#define FOR_EACH_INPUT(DO, argument) DO(0, argument) DO(1, argument) DO(2, argument) DO(3, argument) DO(4, argument)
#define APPLY(OPERAND, lane) \
    OPERATION(OPERAND(0, lane), OPERAND(1, lane), OPERAND(2, lane), OPERAND(3, lane), OPERAND(4, lane))
#elif INPUT_COUNT == 6
#define FOR_EACH_INPUT(DO, argument) DO(0, argument) DO(1, argument) DO(2, argument) DO(3, argument) DO(4, argument) DO(5, argument)
#define APPLY(OPERAND, lane) \
    OPERATION(OPERAND(0, lane), OPERAND(1, lane), OPERAND(2, lane), OPERAND(3, lane), OPERAND(4, lane), OPERAND(5, lane))
#elif INPUT_COUNT == 7
#define FOR_EACH_INPUT(DO, argument) \
    DO(0, argument) DO(1, argument) DO(2, argument) DO(3, argument) DO(4, argument) DO(5, argument) DO(6, argument)
#define APPLY(OPERAND, lane) \
    OPERATION(OPERAND(0, lane), OPERAND(1, lane), OPERAND(2, lane), OPERAND(3, lane), OPERAND(4, lane), \
        OPERAND(5, lane), OPERAND(6, lane))
#elif INPUT_COUNT == 8
#define FOR_EACH_INPUT(DO, argument) \
    DO(0, argument) DO(1, argument) DO(2, argument) DO(3, argument) DO(4, argument) DO(5, argument) DO(6, argument) DO(7, argument)
#define APPLY(OPERAND, lane) \
    OPERATION(OPERAND(0, lane), OPERAND(1, lane), OPERAND(2, lane), OPERAND(3, lane), OPERAND(4, lane), \
        OPERAND(5, lane), OPERAND(6, lane), OPERAND(7, lane))
#else
#error no operator has this many inputs
#endif

#define BASE_MEMBER(n, type) type base_input_##n;
layout(push_constant) uniform Parameters {
    uint work_items; // elements (contiguous) or invocations (strided) that there is work for
    // Where each operand begins in its buffer, in words; a multiple of 4.
    FOR_EACH_INPUT(BASE_MEMBER, uint)
    uint base_output;
#if ATTRIBUTE_WORDS > 0
    uint attributes[ATTRIBUTE_WORDS];
#endif
} parameters;

// One buffer is bound twice when an operator runs in place, so nothing here is `restrict`. `coherent`: a later dispatch of
// the same submission may read what this one writes, and Kompute records no memory barrier between them.
// The same words are seen in pairs and fours too, to load and store 8 and 16 bytes at once.
#define BUFFER(number, name) \
    layout(std430, set = 0, binding = number) coherent buffer Words_##name { uint words_##name[]; }; \
    layout(std430, set = 0, binding = number) coherent buffer Pairs_##name { uvec2 pairs_##name[]; }; \
    layout(std430, set = 0, binding = number) coherent buffer Fours_##name { uvec4 fours_##name[]; };

#define INPUT_BUFFER(n, name) BUFFER(n, name##n)
FOR_EACH_INPUT(INPUT_BUFFER, input_)
BUFFER(INPUT_COUNT, output)

// Whether some operand begins behind the start of its buffer: adding the offsets costs llvmpipe 5% of its speed.
layout(constant_id = 1) const bool OPERANDS_HAVE_OFFSETS = true;
#define BASE_WORD(name) (OPERANDS_HAVE_OFFSETS ? parameters.base_##name : 0u)

// BASE(bits, name): index of an operand's first element in its buffer.
#define BASE(bits, name) CONCATENATE(BASE_, bits)(BASE_WORD(name))
#define BASE_8(word) ((word) << 2u)
#define BASE_16(word) ((word) << 1u)
#define BASE_32(word) (word)
#define BASE_64(word) ((word) >> 1u)

// DO(0) DO(1) … for every lane, unrolled: arrays indexed by constants stay in registers. A long operation would be copied
// into the machine code for every lane, which takes SwiftShader up to two seconds to compile: it goes into a loop.
#ifdef LONG_OPERATION
#define FOR_EACH_LANE(DO) for (uint lane_ = 0u; lane_ < LANES; ++lane_) DO(lane_)
#elif LANES == 2
#define FOR_EACH_LANE(DO) DO(0u) DO(1u)
#elif LANES == 4
#define FOR_EACH_LANE(DO) DO(0u) DO(1u) DO(2u) DO(3u)
#elif LANES == 8
#define FOR_EACH_LANE(DO) DO(0u) DO(1u) DO(2u) DO(3u) DO(4u) DO(5u) DO(6u) DO(7u)
#elif LANES == 16
#define FOR_EACH_LANE(DO) \
    DO(0u) DO(1u) DO(2u) DO(3u) DO(4u) DO(5u) DO(6u) DO(7u) DO(8u) DO(9u) DO(10u) DO(11u) DO(12u) DO(13u) DO(14u) DO(15u)
#else
#error LANES must be 2, 4, 8 or 16
#endif

#define INSERT(bits, words, index, value) CONCATENATE(INSERT_, bits)(words, index, value)
#define STORE(bits, words, index, value) CONCATENATE(STORE_, bits)(words, index, value)

// Whether there are more work groups than one dimension can count: they lie in rows along y.
layout(constant_id = 0) const bool LAUNCH_HAS_ROWS = true;

uint invocation_index()
{
    if (!LAUNCH_HAS_ROWS) {
        return gl_GlobalInvocationID.x;
    }
    return (gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) * 256u + gl_LocalInvocationID.x;
}

#endif
