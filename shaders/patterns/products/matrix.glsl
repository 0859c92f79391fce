// Products of matrices and convolutions: what every kernel of the family has in common. Its memory, the operands, the order of the
// sum, and what becomes of a sum.
//
//     sum of (row, column) = left(row, term) * right(term, column) over all terms, rising
//
// For GEMM the left operand is A and the right one B, of one batch. For CONVOLUTION the left one is the filter (rows are output
// channels of a group; terms are input channels of the group, each with all places of the filter's window), and the right one is the
// input as the windows see it (columns are the output's places, of all images): nothing is ever copied into that form.
//
// The bits of a sum follow from its terms alone: never from the tile that it is computed in, the device, or the other results.
// - The terms are cut into segments of 1024. A segment begins at +0 and adds its products in rising order; the segments' sums are
//   added in rising order.
// - FLOAT32: a product is rounded, then the sum is. Denormals count as zeros: operands, products and sums; a sum that vanishes
//   is +0. So no sum is ever -0, and adding a zero of either sign changes nothing.
// - FLOAT16: operands are exact in float32, and so are products (22 bits, multiples of 2^-48). The sums are float32's.
//
// Whatever pads a tile is held as -0, and all other zeros as +0: finite numbers times either of them change nothing. Where one that is
// not finite may meet padding, the sum is computed again, term by term (exact_sum), as well as where FLOAT32 products or sums may be
// denormal: see is_plain.
//
// matrix_terms.glsl has what of this does not depend on where operands lie; steps of recurrent networks have it from there, too.
//
// Kernels are matrix_tiles.glsl for GPUs, matrix_processors.glsl and matrix_blocks.glsl for processors, and matrix_sums.glsl as a second
// step. The compile script passes CONVOLUTION (0 or 1), OPERAND (float32 or float16) and OPERAND_BITS.
//
// With HAS_EPILOGUE, what a graph has behind it is computed with it: matrix_epilogue.glsl for a convolution, product_epilogue.glsl for GEMM.
//
// With RIGHT_IS_PACKED the right operand is one of packed weights: packed_right.glsl.
//
// With WRITES_REST sums are those of exact_tiles.glsl, which leaves some results to others; they have READS_REST: exact_rest.glsl.
//
// With DEVICE_ARITHMETIC, which is passed for FLOAT32 to those who permit it, products are not rounded before they are added, and
// nothing looks for denormal products and sums: the order of a sum is the same, its bits are the device's.
#extension GL_EXT_control_flow_attributes : enable

#include "arithmetic.glsl"
#include "comparison.glsl"
#include "datatypes.glsl"

#include "products/matrix_batch.glsl"

#define LANES 4
#include "buffers.glsl"

// Where there is no addend, something else is bound in its place, and not read.
#if ADDS_SEGMENTS
BUFFER(0, totals)
BUFFER(1, addend)
#define BOUND_BEFORE 2
#else
BUFFER(0, left)
BUFFER(1, right)
BUFFER(2, addend)
#define BOUND_BEFORE 3
#endif
#if HAS_EPILOGUE && CONVOLUTION
BUFFER(BOUND_BEFORE, mean)
BUFFER(BOUND_BEFORE + 1, factor)
BUFFER(BOUND_BEFORE + 2, bias)
BUFFER(BOUND_BEFORE + 3, residual)
BUFFER(BOUND_BEFORE + 4, output)
#elif HAS_EPILOGUE
BUFFER(BOUND_BEFORE, residual)
BUFFER(BOUND_BEFORE + 1, scale)
BUFFER(BOUND_BEFORE + 2, output)
#elif defined(RIGHT_IS_PACKED)
BUFFER(BOUND_BEFORE, scale)
BUFFER(BOUND_BEFORE + 1, zero)
BUFFER(BOUND_BEFORE + 2, output)
#elif defined(READS_REST)
BUFFER(BOUND_BEFORE, rest)
BUFFER(BOUND_BEFORE + 1, output)
#elif defined(WRITES_REST)
BUFFER(BOUND_BEFORE, output)
BUFFER(BOUND_BEFORE + 1, rest)
#else
BUFFER(BOUND_BEFORE, output)
#endif

#define RESULT_BITS OPERAND_BITS
#define SEGMENT_IN_ORDER 1024u
#ifndef SEGMENT // cooperative matrices have others
#define SEGMENT SEGMENT_IN_ORDER
#endif

// How the segments of a sum come together.
#define ONE_SEGMENT 0u  // there is one only
#define SEQUENTIAL 1u      // one invocation computes one after the other, and keeps their total in memory
#define PARALLEL 2u // each has a place in memory of its own, and matrix_sums.glsl adds them
#if SHAPE_AT_RUN_TIME // one pipeline is for all products of a kind: the same words are parameters
#define SEGMENTS_COME (parameters.flags & 3u)
#define HAS_ADDEND ((parameters.flags & 4u) != 0u)
#define APPLIES_RELU ((parameters.flags & 8u) != 0u)
#define WRITES_TOTALS ((parameters.flags & 16u) != 0u)
#else
layout(constant_id = 2) const uint SEGMENTS_COME = ONE_SEGMENT;
layout(constant_id = 3) const bool HAS_ADDEND = false;
layout(constant_id = 4) const bool APPLIES_RELU = false;
// Whether an operand's neighbours in memory are neighbouring terms (else rows or columns), and whether four of them lie at multiples
// of four elements, so that they are loaded at once.
layout(constant_id = 5) const bool LEFT_ALONG_TERMS = true;
layout(constant_id = 6) const bool LEFT_HAS_VECTORS = false;
layout(constant_id = 7) const bool RIGHT_ALONG_TERMS = false;
layout(constant_id = 8) const bool RIGHT_HAS_VECTORS = false;
// Whether the results of columns 2n and 2n + 1 share a word that holds nothing else.
layout(constant_id = 9) const bool OUTPUT_HAS_PAIRS = false;

// Whether totals are written, in rows of their own, and not results. (FLOAT32 totals SEQUENTIAL stand where the results will.)
layout(constant_id = 10) const bool WRITES_TOTALS = false;
#endif

#if HAS_EPILOGUE && !CONVOLUTION && !ADDS_SEGMENTS
#define ALPHA_IS_ONE // beside as many operands there is no room for another number
#define ALPHA ONE_F32
#else
#define ALPHA parameters.alpha
#endif

layout(push_constant) uniform Parameters {
#if ADDS_SEGMENTS
    uint base_totals;
#else
    uint base_left, base_right;
#endif
    uint base_addend;
#if HAS_EPILOGUE && CONVOLUTION
    uint base_mean, base_factor, base_bias;
#endif
#if HAS_EPILOGUE
    uint base_residual;
#endif
#if HAS_EPILOGUE && !CONVOLUTION
    uint base_scale;
#elif defined(RIGHT_IS_PACKED)
    uint base_scale, base_zero;
#elif defined(READS_REST)
    uint base_rest;
#endif
    uint base_output;
#ifdef WRITES_REST
    uint base_rest;
#endif
#include "products/matrix_parameters.glsl"
} parameters;

#define SEGMENTS ((parameters.terms + (SEGMENT - 1u)) / SEGMENT)

// ---- operands: bits of float32, never denormal ------------------------------------------------------------------------------

#include "products/matrix_terms.glsl"

#include "products/matrix_operands.glsl"

#if !ADDS_SEGMENTS && !COUNTS_TERMS
uint left_bits(Batch batch, uint row, uint term) { return operand(LOAD(OPERAND, words_left, left_index(batch, row, term))); }
#endif

// ---- sums -------------------------------------------------------------------------------------------------------------------

#if !ADDS_SEGMENTS
#define TERMS_PER_ITERATION 8u
#if !COUNTS_TERMS
#include "products/matrix_exact_sum.glsl"
#endif
#endif

// ---- results ----------------------------------------------------------------------------------------------------------------

#if OPERAND_BITS == 32
#define WIDE_ADDEND(bits) (bits)
#define RESULT(bits) (bits)
#else
#define WIDE_ADDEND(bits) float32_from_float16(bits)
#define RESULT(bits) float16_from_float32(bits)
#endif

#if HAS_EPILOGUE && CONVOLUTION
#include "products/matrix_epilogue.glsl"
#elif HAS_EPILOGUE
#include "products/product_epilogue.glsl"
#endif
#if !HAS_EPILOGUE || CONVOLUTION
#define ADDEND_IS_APART false
#endif

// What is added to a sum, as float32; anything where there is nothing.
uint addend_of(Batch batch, uint row, uint column) {
    uint bits = 0u;
    if (HAS_ADDEND && !ADDEND_IS_APART) { bits = WIDE_ADDEND(LOAD(OPERAND, words_addend, addend_index(batch, row, column))); }
    return bits;
}

// The result that is stored: of a complete sum, and of what is added to it. With a graph's epilogue the residual is what that adds.
uint finished_with(Batch batch, uint sum, uint addend, uint residual, uint row, uint column) {
#if CONVOLUTION
    uint value = as_result(uintBitsToFloat(sum));
#else
    uint value = multiply_f32(sum, ALPHA);
#endif
    if (HAS_ADDEND && !ADDEND_IS_APART) {
#if CONVOLUTION
        value = add_f32(value, addend);
#else
        value = add_f32(value, multiply_f32(addend, parameters.beta));
#endif
    }
    uint result = RESULT(value);
#if HAS_EPILOGUE
    result = with_epilogue(batch, result, residual, row, column);
#endif
    return APPLIES_RELU ? FORM(larger, OPERAND)(result, 0u) : result;
}
uint finished_beside(Batch batch, uint sum, uint residual, uint row, uint column) {
    return finished_with(batch, sum, addend_of(batch, row, column), residual, row, column);
}
uint finished(Batch batch, uint sum, uint row, uint column) {
    uint residual = 0u;
#if HAS_EPILOGUE
    if (EPILOGUE_ADDS) { residual = LOAD(OPERAND, words_residual, residual_index(output_index(batch, row, column))); }
#endif
    return finished_beside(batch, sum, residual, row, column);
}

#if !ADDS_SEGMENTS && !COUNTS_TERMS
// A segment's sum goes into the total. True when that is complete and is to be finished here: then `sum` is the total.
bool is_complete(Batch batch, inout uint sum, uint row, uint column, uint segment) {
    if (SEGMENTS_COME == ONE_SEGMENT) { return true; }
    uint index = WRITES_TOTALS ? batch.results + row * parameters.columns + column : output_index(batch, row, column);
    if (SEGMENTS_COME == SEQUENTIAL && segment > 0u) { sum = sum_plus(words_output[index], sum); }
    if (!WRITES_TOTALS && segment + 1u == SEGMENTS) { return true; }
    words_output[index] = sum;
    return false;
}
#endif

#if !COUNTS_TERMS
void store_result(Batch batch, uint result, uint row, uint column) {
    STORE(OPERAND_BITS, words_output, output_index(batch, row, column), result);
}
#endif
