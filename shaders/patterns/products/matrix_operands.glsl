// Where the operands of products and convolutions lie, and what there is of the right one. Included behind PADDING and operand().

#define NOWHERE 0xffffffffu // the index of padding

#if COUNTS_TERMS
#if CONVOLUTION
#include "products/counted_windows.glsl"
#else
#include "products/counted_terms.glsl"
#endif
#elif CONVOLUTION
#include "products/convolution_operands.glsl"
#else
#include "products/product_operands.glsl"
#endif

#if !ADDS_SEGMENTS && !COUNTS_TERMS
uint right_bits(Column column, uint term) {
    uint index = right_index(column, term);
    uint bits = PADDING;
    if (index != NOWHERE) { bits = operand(LOAD(OPERAND, words_right, index)); }
    return bits;
}
#endif
