// Products of rows with matrices of floats that each row chooses. Each invocation has a column of a row, and goes through its terms.
//
// The compile script passes INVOCATIONS, OPERAND and OPERAND_BITS; WEIGHT_BITS is 8, of which nothing is read here.
#include "products/experts.glsl"
#include "products/block_products.glsl"

layout(local_size_x = INVOCATIONS) in;

uint weight_bits(uint index, bool is_inside) { return is_inside ? operand(LOAD(OPERAND, words_packed, index)) : 0u; }

// A segment's sum by its definition, as in block_products.glsl.
uint exact_sum_of_floats(uint row, uint weights, uint first, uint end) {
    uint sum = 0u;
    for (uint iteration = first; iteration < end; iteration += 8u) {
        for (uint term = iteration; term < min(iteration + 8u, end); ++term) {
            uint a = operand(LOAD(OPERAND, words_left, left_index(row, term)));
            uint b = weight_bits(weights + term, true);
#if OPERAND_BITS == 32
            sum = sum_plus(sum, multiply_f32(a, b));
#else
            sum = floatBitsToUint(exact_product_plus(uintBitsToFloat(a), uintBitsToFloat(b), uintBitsToFloat(sum)));
#endif
        }
    }
    return sum;
}

void main() {
    WORK_GROUP(group)
    FIND_EXPERT
    uint row = min(group % parameters.row_tiles, parameters.rows - 1u);
    uint own_column = group / parameters.row_tiles * INVOCATIONS + index_in_group();
    uint column = min(own_column, parameters.columns - 1u);
    uint weights = BASE(OPERAND_BITS, packed) + column * parameters.terms;
    uint total = 0u;
    for (uint segment = 0u; segment < SEGMENTS; ++segment) {
        uint first = segment * SEGMENT;
        uint end = min(first + SEGMENT, parameters.terms);
        float sum = 0.0;
#if LOOKS_AT_DENORMALS
        uint left_lowest = NO_LOWEST;
        uint right_lowest = NO_LOWEST;
#endif
        for (uint term = first; term < end; term += 4u) {
            uvec4 a = left_four(row, term, end);
            uvec4 b;
            [[unroll]] for (uint k = 0u; k < 4u; ++k) {
                b[k] = weight_bits(weights + term + k, term + k < end);
            }
#if LOOKS_AT_DENORMALS
            left_lowest = min(left_lowest, lowest_of_four(a));
            right_lowest = min(right_lowest, lowest_of_four(b));
#endif
            [[unroll]] for (uint k = 0u; k < 4u; ++k) {
                sum = product_plus(uintBitsToFloat(a[k]), uintBitsToFloat(b[k]), sum);
            }
        }
        bool plain = true;
#if LOOKS_AT_DENORMALS
        plain = has_no_denormals(left_lowest, right_lowest);
#endif
        uint next = floatBitsToUint(sum);
        if (!(plain && is_finite(sum))) { next = exact_sum_of_floats(row, weights, first, end); }
        total = segment == 0u ? next : sum_plus(total, next);
    }
    if (own_column < parameters.columns) {
        STORE(OPERAND_BITS, words_output, output_index(row, column), finished(total, row, column));
    }
}
