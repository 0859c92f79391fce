// What a kernel that was put together from several operators (dmlvk/graphs/fusion) sees before their functions: the same
// as elementwise_operands.glsl, whose place it takes, for any number of inputs. The kernel defines before
//   INPUT_COUNT                      how many inputs there are
//   FOR_EACH_INPUT(DO, argument)     DO(0, argument) DO(1, argument) … for every input
//   FOR_EACH_FURTHER_OUTPUT(DO, argument)
//                                    the same for every output but one; only in access orders of vectors. OPERATION sets the
//                                    variables further_0, further_1 …, which are stored where it has been evaluated
//   FURTHER_OUTPUT_COUNT             how many those are
//   APPLY(OPERAND, lane)             OPERATION(OPERAND(0, lane), OPERAND(1, lane) …)
//   ACCESS_ORDER, LANES, TILE, LINES, TILES  as for an element-wise operator
//   ATTRIBUTE_WORDS                  how many words of attributes all operators have together
//   LOOKUP_TABLE                     for one more buffer between inputs and outputs, as in elementwise_operands.glsl
// and behind the functions INPUT_0, INPUT_0_BITS … OUTPUT, OUTPUT_BITS, FURTHER_0, FURTHER_0_BITS … and OPERATION. Operands are loaded as bits of their
// width. No function stands in a loop over the lanes: SwiftShader's compiler takes exponentially long for a chain of
// functions inside of one.
#ifndef FUSED_OPERANDS_GLSL
#define FUSED_OPERANDS_GLSL

#include "datatypes.glsl"

layout(local_size_x = 256) in;

#define BASE_MEMBER(n, type) type base_input_##n;
#define BASE_OF_FURTHER(n, type) type base_further_output_##n;
layout(push_constant) uniform Parameters {
    uint work_items;
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
#define OUTPUT_BINDING (INPUT_COUNT + 1)
layout(std430, set = 0, binding = INPUT_COUNT) buffer Words_table { uint words_table[]; };
#else
#define OUTPUT_BINDING INPUT_COUNT
#endif
BUFFER(OUTPUT_BINDING, output)
#define FURTHER_BUFFER(n, first) BUFFER(first + n, further_output_##n)
FOR_EACH_FURTHER_OUTPUT(FURTHER_BUFFER, OUTPUT_BINDING + 1)

#endif
