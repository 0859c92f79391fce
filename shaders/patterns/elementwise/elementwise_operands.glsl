// What an element-wise operator's file sees before its function: data types, parameters and buffers.
//
// The file defines LONG_OPERATION before when its function takes hundreds of instructions, or LONG_FOR_INTEGERS when it
// does so for integers only, as a ScaleBias does. The compile script passes
//   INPUT_COUNT                           how many inputs there are: 1 to 8
//   INPUT_0, INPUT_1, INPUT_2, INPUT_3, INPUT_4, INPUT_5, INPUT_6, INPUT_7 (as many as there are) and OUTPUT
//                                         the data type of each operand, as a token of datatypes.glsl
//   INPUT_0_BITS, INPUT_1_BITS, INPUT_2_BITS, INPUT_3_BITS, INPUT_4_BITS, INPUT_5_BITS, INPUT_6_BITS, INPUT_7_BITS
//   and OUTPUT_BITS                       its width, for #if
//   ACCESS_ORDER                                  how the elements are gone through: 0 contiguous, 1 rows, 2 tiled, 3 strided
//   LANES                                 neighbouring elements that one invocation computes
//   TILE, LINES, TILES                    the side of a tile in elements, in how many of its lines that is so, and how many a work
//                                         group has at most
//   ATTRIBUTE_WORDS, ATTRIBUTE_<NAME>     how many words of attributes there are, and where each one lies
//   HAS_<NAME>                            1 where an optional attribute is given, else 0
//
// A kernel that was put together from several operators (dmlvk/graphs/fusion) has any number of inputs. It defines before, besides
// INPUT_COUNT, ACCESS_ORDER, LANES, TILE, LINES, TILES and ATTRIBUTE_WORDS of all operators together,
//   FOR_EACH_INPUT(DO, argument)          DO(0, argument) DO(1, argument) … for every input
//   FOR_EACH_FURTHER_OUTPUT(DO, argument) the same for every output but one; only in access orders of vectors. OPERATION sets the variables
//                                         further_0, further_1 …, which are stored where it has been evaluated
//   FURTHER_OUTPUT_COUNT                  how many those are
//   APPLY(OPERAND, lane)                  OPERATION(OPERAND(0, lane), OPERAND(1, lane) …)
// and behind the functions INPUT_0, INPUT_0_BITS … OUTPUT, OUTPUT_BITS, FURTHER_0, FURTHER_0_BITS … and OPERATION. Operands are loaded as bits of
// their width. No function stands in a loop over the lanes: SwiftShader's compiler takes exponentially long for a chain of functions inside of one.
#ifndef ELEMENTWISE_OPERANDS_GLSL
#define ELEMENTWISE_OPERANDS_GLSL

#include "datatypes.glsl"

#ifndef FOR_EACH_INPUT
#ifdef HAS_SCALE_BIAS
#if HAS_SCALE_BIAS
#define LONG_FOR_INTEGERS
#endif
#endif

// INPUT_0_IS_FLOAT16, for #if; INPUT_0_IS_INTEGER and INPUT_1_IS_INTEGER, for #ifdef. The preprocessor joins no names in conditions: to tell data
// types apart, their tokens are numbers for a moment.
#define float32 0
#define float16 1
#define int64 2
#define int32 2
#define int16 2
#define int8 2
#define uint64 2
#define uint32 2
#define uint16 2
#define uint8 2
#if INPUT_0 == 1
#define INPUT_0_IS_FLOAT16 1
#else
#define INPUT_0_IS_FLOAT16 0
#endif
#if INPUT_0 == 2
#define INPUT_0_IS_INTEGER
#ifdef LONG_FOR_INTEGERS
#define LONG_OPERATION
#endif
#endif
#if INPUT_COUNT > 1 && INPUT_1 == 2
#define INPUT_1_IS_INTEGER
#endif
#undef float32
#undef float16
#undef int64
#undef int32
#undef int16
#undef int8
#undef uint64
#undef uint32
#undef uint16
#undef uint8

// FOR_EACH_INPUT(DO, argument): DO(0, argument) DO(1, argument) … for every input. APPLY(OPERAND, lane): the operator's function of OPERAND(0, lane),
// OPERAND(1, lane) …
#define FOR_1(DO, argument) DO(0, argument)
#define FOR_2(DO, argument) FOR_1(DO, argument) DO(1, argument)
#define FOR_3(DO, argument) FOR_2(DO, argument) DO(2, argument)
#define FOR_4(DO, argument) FOR_3(DO, argument) DO(3, argument)
#define FOR_5(DO, argument) FOR_4(DO, argument) DO(4, argument)
#define FOR_6(DO, argument) FOR_5(DO, argument) DO(5, argument)
#define FOR_7(DO, argument) FOR_6(DO, argument) DO(6, argument)
#define FOR_8(DO, argument) FOR_7(DO, argument) DO(7, argument)
#define FOR_EACH_INPUT(DO, argument) CONCATENATE(FOR_, INPUT_COUNT)(DO, argument)
#define LIST_1(OPERAND, lane) OPERAND(0, lane)
#define LIST_2(OPERAND, lane) LIST_1(OPERAND, lane), OPERAND(1, lane)
#define LIST_3(OPERAND, lane) LIST_2(OPERAND, lane), OPERAND(2, lane)
#define LIST_4(OPERAND, lane) LIST_3(OPERAND, lane), OPERAND(3, lane)
#define LIST_5(OPERAND, lane) LIST_4(OPERAND, lane), OPERAND(4, lane)
#define LIST_6(OPERAND, lane) LIST_5(OPERAND, lane), OPERAND(5, lane)
#define LIST_7(OPERAND, lane) LIST_6(OPERAND, lane), OPERAND(6, lane)
#define LIST_8(OPERAND, lane) LIST_7(OPERAND, lane), OPERAND(7, lane)
#define CALL(FUNCTION, operands) FUNCTION operands
#define APPLY(OPERAND, lane) CALL(OPERATION, (CONCATENATE(LIST_, INPUT_COUNT)(OPERAND, lane)))
#endif

layout(local_size_x = 256) in;

// A file that defines LOOKUP_TABLE has one more buffer between its inputs and the output, words_table, which it reads itself.
#ifdef LOOKUP_TABLE
#define OUTPUT_BINDING (INPUT_COUNT + 1)
#else
#define OUTPUT_BINDING INPUT_COUNT
#endif

#ifndef FOR_EACH_FURTHER_OUTPUT
#define FOR_EACH_FURTHER_OUTPUT(DO, argument)
#endif

#define BASE_MEMBER(n, type) type base_input_##n;
#define BASE_OF_FURTHER(n, type) type base_further_output_##n;
layout(push_constant) uniform Parameters {
    uint work_items; // elements (contiguous) or invocations (strided) that there is work for
    // Where each operand begins in its buffer, in words; a multiple of 4.
    FOR_EACH_INPUT(BASE_MEMBER, uint)
#ifdef LOOKUP_TABLE
    uint base_table;
#endif
    uint base_output;
    FOR_EACH_FURTHER_OUTPUT(BASE_OF_FURTHER, uint)
#if ATTRIBUTE_WORDS > 0
    uint attributes[ATTRIBUTE_WORDS];
#endif
} parameters;

#include "buffers.glsl"

#define INPUT_BUFFER(n, name) BUFFER(n, name##n)
FOR_EACH_INPUT(INPUT_BUFFER, input_)
#ifdef LOOKUP_TABLE
// Not `coherent` as the others are: nothing writes it while it is read, and so it may stay in the caches nearest by.
layout(std430, set = 0, binding = INPUT_COUNT) buffer Words_table { uint words_table[]; };
#endif
BUFFER(OUTPUT_BINDING, output)
#define FURTHER_BUFFER(n, first) BUFFER(first + n, further_output_##n)
FOR_EACH_FURTHER_OUTPUT(FURTHER_BUFFER, OUTPUT_BINDING + 1)

#endif
