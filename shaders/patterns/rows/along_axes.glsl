// Results that depend on all elements of their row, a row being what lies along some axes of the tensor.
//
// Element i of a row is the one whose coordinates along these axes, the last axis fastest, count i. Four neighbours are a block,
// and block b belongs to lane b % LANES_PER_ROW of the row, of which there are as many as it takes for 16 elements each, rounded
// up to a power of two, and at most 256. So the order of a sum, and with it every bit, follows from the length of the row alone:
// a lane adds its elements in rising order, 16 at a time; then lanes that are neighbours are added up, LANES_IN_CHAIN at a
// time; then these sums, all in rising order.
//
// ROW_ACCESS_ORDER is how that is gone through: IN_REGISTERS, an invocation for each lane, which keeps its elements in registers (rows of up to
// 4096 elements); LONG, the same for rows of any length, which are read three times; ALONE, one invocation for a whole row of up to
// 4096, lane after lane. What waits for nobody is many times faster on processors, where an invocation that waits for others
// is put aside with all that it holds; a GPU reads rows side by side that way, which takes far longer.
//
// The operator's file defines before, for x, peaks and results of float32 whatever the tensors' type is:
//   NAN_RANK                    where NaN stands in the search for the peak: ABOVE_ALL or BELOW_ALL
//   RESULT_WITHOUT_SUM          the result where the element is the peak, with bits of float32, else it is 0
// or, with a sum of what is made of the elements (peak.glsl),
//   basis_of_peak(peak)                                   a PowerBasis: what the elements are seen relative to, one member being
//                                                         the shift, which makes differences of elements
//   is_far_below(x, basis), is_near_below(x, basis)       whether an element is so far below the peak, or so near
//   bounded(x, difference, basis)                         the difference of an element that may be far below
//   term_from(difference, basis)                          an element's term
//   TERMS_ARE_KEPT                                        where results are made of terms, not of elements
//   SUM_WITHOUT_PEAK                                      where the peak's own term is left out (of equals the first lane's)
//   FIRST_SUM, with_terms(sum, terms), sum_complete(sum, FIRST_SUM)   how up to 16 terms are added, four at a time
//   with_near_terms(sum, terms)                           the same in fewer operations, and with the same bits, where all elements of
//                                                         a lane that is held are near below the peak
//   FIRST_SUM_OF_SUMS, with_next_term(sum, term)          how up to 16 such sums are added, where the row has up to 4096 terms
//   row_words_of(sum, basis)                              what is made of the row's sum, once; a uvec3
//   ROW, row_of(words, basis, has_far)                    the same as each invocation needs it
//   result_of(difference, term, row)                      the result; that of a row without one is NaN
//   has_slow_path_results(has_far, row), slow_path_result_of(result, x, basis, row)   whether some results must be seen to, and what
//                                                         they are then; has_far: some elements are far below the peak
#include "axes.glsl"
#include "comparison.glsl"
#include "error_free.glsl"
#include "float16.glsl"
#include "float32.glsl"

ALL_STRIDES(output, 12)
ALL_STRIDES(input, 20)
#define LANES_PER_ROW GROUPS_PER_ROW
layout(constant_id = 28) const uint ROW_AXES = 1u; // the first axes are those of the row, the others lead from row to row
layout(constant_id = 29) const uint ROW_LENGTH = 1u;
layout(constant_id = 30) const bool LANES_ARE_NEIGHBOURS = true; // neighbouring invocations are lanes of one row, not rows
// Whether blocks of four neighbours lie at multiples of four elements in memory: they are then loaded or stored at once.
layout(constant_id = 31) const bool INPUT_HAS_BLOCKS = false;
layout(constant_id = 32) const bool OUTPUT_HAS_BLOCKS = false;
layout(constant_id = 33) const uint INVOCATIONS = 256u; // of a work group; the host sets the group's size to it
// Elements of a work group's rows, where these lie behind one another, and blocks at no multiples of four elements: they go through
// shared memory, so that neighbouring invocations load and store neighbours. 0: each loads and stores its own.
layout(constant_id = 34) const uint STAGED = 0u;

#define CHAINS (LANES_PER_ROW < 8u ? LANES_PER_ROW : LANES_PER_ROW < 128u ? 8u : 16u)
#define LANES_IN_CHAIN (LANES_PER_ROW / CHAINS)

#define IN_REGISTERS 0
#define LONG 1
#define ALONE 2

// The largest element: where it stands among all numbers, and a place by which one of several equals is chosen.
struct Peak {
    int rank;
    uint offset;
};

// The element of higher rank; of two of the same rank the one in the lower place.
Peak peak_of(Peak a, Peak b) {
    bool takes_b = b.rank > a.rank || (b.rank == a.rank && b.offset < a.offset);
    return Peak(takes_b ? b.rank : a.rank, takes_b ? b.offset : a.offset);
}

// Both zeros have one rank.
int rank_of(uint x) { return is_nan_f32(x) ? NAN_RANK : signed_magnitude(x); }

#ifdef RESULT_WITHOUT_SUM
// The first of a lane's largest elements: they come in rising order.
#define Extremes Peak
#define NO_EXTREMES Peak(BELOW_ALL, 0xffffffffu)
Extremes extremes_with(Extremes seen, uint x, uint offset) {
    int rank = rank_of(x);
    bool is_higher = rank > seen.rank || seen.offset == 0xffffffffu;
    return Peak(is_higher ? rank : seen.rank, is_higher ? offset : seen.offset);
}
#define peak_of_extremes(seen, lane) (seen)
#else
// What tells a lane's largest and its smallest element, and whether there is NaN, in three operations an element: the bits
// compared as signed numbers have the positive ones in their order, and compared as unsigned the negative ones in reverse.
struct Extremes {
    int greatest_signed;
    uint least, greatest;
};
#define NO_EXTREMES Extremes(int(0x80000000u), 0xffffffffu, 0u)
Extremes extremes_with(Extremes seen, uint x, uint offset) {
    return Extremes(max(seen.greatest_signed, int(x)), min(seen.least, x), max(seen.greatest, x));
}
Peak peak_of_extremes(Extremes seen, uint lane) {
    bool has_nan = seen.greatest_signed > int(INFINITY_F32) || seen.greatest > (SIGN_F32 | INFINITY_F32);
    uint largest = seen.greatest_signed >= 0 ? uint(seen.greatest_signed) : seen.least;
    return Peak(has_nan ? NAN_RANK : signed_magnitude(largest), lane);
}
uint smallest_of_extremes(Extremes seen) { return int(seen.greatest) < 0 ? seen.greatest : seen.least; }
#endif

// Where this invocation's row begins, in elements.
uint row_input, row_output;

#define MOVE_TO_ROW(axis) \
    if (axis >= ROW_AXES && SIZE_##axis > 1u) { \
        uint coordinate = row % SIZE_##axis; \
        row /= SIZE_##axis; \
        row_input += coordinate * STRIDE_input_##axis; \
        row_output += coordinate * STRIDE_output_##axis; \
    }
void move_to_row(uint row) {
    row_input = BASE(INPUT_0_BITS, input_0);
    row_output = BASE(OUTPUT_BITS, output);
    MOVE_TO_ROW(0) MOVE_TO_ROW(1) MOVE_TO_ROW(2) MOVE_TO_ROW(3)
    MOVE_TO_ROW(4) MOVE_TO_ROW(5) MOVE_TO_ROW(6) MOVE_TO_ROW(7)
}

// The last axis of a row needs no remainder.
#define MOVE_ALONG(name, axis) \
    if (axis < ROW_AXES) { \
        uint coordinate = axis + 1 == ROW_AXES ? element : element % SIZE_##axis; \
        element /= SIZE_##axis; \
        offset += coordinate * STRIDE_##name##_##axis; \
    }
#define POSITION_IN(name) \
    uint offset_in_##name(uint element) { \
        uint offset = row_##name; \
        MOVE_ALONG(name, 0) MOVE_ALONG(name, 1) MOVE_ALONG(name, 2) MOVE_ALONG(name, 3) \
        MOVE_ALONG(name, 4) MOVE_ALONG(name, 5) MOVE_ALONG(name, 6) MOVE_ALONG(name, 7) \
        return offset; \
    }
POSITION_IN(input)
POSITION_IN(output)

uint widened_f32(uint x) { return x; }
uint widened_f16(uint x) { return float32_from_float16(x); }
uint narrowed_f32(uint x) { return x; }
uint narrowed_f16(uint x) { return float16_from_float32(x); }

// What stands behind the row's end: never the peak, and nothing in the sum.
#ifndef RESULT_WITHOUT_SUM
#define BEHIND_THE_ROW (SIGN_F32 | INFINITY_F32)
#else
#define BEHIND_THE_ROW NAN_F32
#endif

// Whether a block has four elements; where all have, the pipeline is made without the other side of the branch. Blocks that
// are held may lie behind the row's end altogether.
#if ROW_ACCESS_ORDER == IN_REGISTERS
#define IS_WHOLE(first) (ROW_LENGTH % (4u * LANES_PER_ROW) == 0u || first + 3u < ROW_LENGTH)
#else
#define IS_WHOLE(first) (ROW_LENGTH % 4u == 0u || first + 3u < ROW_LENGTH)
#endif

#if ROW_ACCESS_ORDER == IN_REGISTERS
#define STAGED_SPACE 2048
shared uint staged[STAGED_SPACE];
uint staged_row; // where this invocation's row begins in it
#define IS_STAGED (STAGED != 0u)
#define STAGED_AT(element) staged[staged_row + (element)]
#else
#define IS_STAGED false
#define STAGED_AT(element) words_output[0]
#endif

// Four neighbours as float32.
void load_block(uint first, out uint x[4]) {
    if (IS_STAGED) {
        for (uint k = 0u; k < 4u; ++k) { x[k] = first + k < ROW_LENGTH ? STAGED_AT(first + k) : BEHIND_THE_ROW; }
        return;
    }
    if (INPUT_HAS_BLOCKS && IS_WHOLE(first)) {
        uint block = offset_in_input(first) >> 2u;
#if INPUT_0_BITS == 32
        uvec4 words = fours_input_0[block];
        x[0] = words.x;
        x[1] = words.y;
        x[2] = words.z;
        x[3] = words.w;
#else
        uvec2 words = pairs_input_0[block];
        x[0] = FORM(widened, INPUT_0)(words.x & 0xffffu);
        x[1] = FORM(widened, INPUT_0)(words.x >> 16);
        x[2] = FORM(widened, INPUT_0)(words.y & 0xffffu);
        x[3] = FORM(widened, INPUT_0)(words.y >> 16);
#endif
        return;
    }
    for (uint k = 0u; k < 4u; ++k) {
        uint offset = offset_in_input(min(first + k, ROW_LENGTH - 1u));
        uint element = FORM(widened, INPUT_0)(LOAD(INPUT_0, words_input_0, offset));
        x[k] = first + k < ROW_LENGTH ? element : BEHIND_THE_ROW;
    }
}

// Four neighbours, of which some may lie behind the row's end.
void store_block(uint first, uint results[4]) {
    if (IS_STAGED) {
        for (uint k = 0u; k < 4u; ++k) {
            if (first + k < ROW_LENGTH) {
                STAGED_AT(first + k) = FORM(narrowed, OUTPUT)(results[k]); // where it has its own element from
            }
        }
        return;
    }
    if (OUTPUT_HAS_BLOCKS && IS_WHOLE(first)) {
        uint block = offset_in_output(first) >> 2u;
#if OUTPUT_BITS == 32
        fours_output[block] = uvec4(results[0], results[1], results[2], results[3]);
#else
        pairs_output[block] = uvec2(
            FORM(narrowed, OUTPUT)(results[0]) | (FORM(narrowed, OUTPUT)(results[1]) << 16),
            FORM(narrowed, OUTPUT)(results[2]) | (FORM(narrowed, OUTPUT)(results[3]) << 16));
#endif
        return;
    }
    for (uint k = 0u; k < 4u; ++k) {
        if (first + k < ROW_LENGTH) {
            uint offset = offset_in_output(first + k);
            STORE(OUTPUT_BITS, words_output, offset, FORM(narrowed, OUTPUT)(results[k]));
        }
    }
}

#ifndef RESULT_WITHOUT_SUM
uint bits_of_rank(int rank) { return (uint(rank) & SIGN_F32) | uint(rank < 0 ? -rank : rank); }

// What is infinite or NaN at its peak has no sum, and what is -infinity throughout.
bool has_sum(Peak peak) { return peak.rank < int(INFINITY_F32) && peak.rank > -int(INFINITY_F32); }

PowerBasis basis_of(Peak peak) { return basis_of_peak(as_float32(bits_of_rank(peak.rank))); }

// How the sums of lanes are added, and then those of chains.
#if ROW_ACCESS_ORDER == LONG
#define FIRST_OF_SUMS Double(0.0, 0.0)
#define with_next_sum(sum, part) sum_of(sum, part)
#define complete_sum(sum) (sum)
#else
#define FIRST_OF_SUMS Double(FIRST_SUM_OF_SUMS, 0.0)
#define with_next_sum(sum, part) with_next_term(sum, part)
#define complete_sum(sum) sum_complete(sum, FIRST_SUM_OF_SUMS)
#endif

// The differences of four neighbours where nothing is shifted, and none is far below the peak.
void take_elements(uint x[4], out float differences[4]) {
    differences[0] = uintBitsToFloat(x[0]);
    differences[1] = uintBitsToFloat(x[1]);
    differences[2] = uintBitsToFloat(x[2]);
    differences[3] = uintBitsToFloat(x[3]);
}
void take_differences(uint x[4], PowerBasis basis, bool has_far, out float differences[4]) {
    take_elements(x, differences);
    if (has_far || is_shifted(basis.shift)) {
        differences[0] = bounded(x[0], difference_of(x[0], basis.shift), basis);
        differences[1] = bounded(x[1], difference_of(x[1], basis.shift), basis);
        differences[2] = bounded(x[2], difference_of(x[2], basis.shift), basis);
        differences[3] = bounded(x[3], difference_of(x[3], basis.shift), basis);
    }
}

// Of the lane that has the peak: its first element of that rank adds nothing.
#define LEAVE_OUT_PEAK(k) \
    { \
        bool is_peak = has_peak && ((x[k] ^ peak_bits) & sensible_bits) == 0u; \
        terms[k] = Double(is_peak ? 0.0 : terms[k].high, is_peak ? 0.0 : terms[k].low); \
        has_peak = has_peak && !is_peak; \
    }
void leave_out_peak(uint x[4], Peak peak, inout bool has_peak, inout Double terms[4]) {
    uint peak_bits = bits_of_rank(peak.rank);
    uint sensible_bits = peak.rank == 0 ? MAGNITUDE_F32 : 0xffffffffu; // both zeros have one rank
    LEAVE_OUT_PEAK(0) LEAVE_OUT_PEAK(1) LEAVE_OUT_PEAK(2) LEAVE_OUT_PEAK(3)
}

void take_slow_path(uint x[4], PowerBasis basis, ROW row, bool has_far, inout uint results[4]) {
    if (has_slow_path_results(has_far, row)) {
        results[0] = slow_path_result_of(results[0], x[0], basis, row);
        results[1] = slow_path_result_of(results[1], x[1], basis, row);
        results[2] = slow_path_result_of(results[2], x[2], basis, row);
        results[3] = slow_path_result_of(results[3], x[3], basis, row);
    }
}

// Four neighbours' results.
void take_results(
    uint x[4], Double terms[4], PowerBasis basis, ROW row, bool has_far, bool row_has_sum, out uint results[4]) {
    results[0] = result_of(uintBitsToFloat(x[0]), terms[0], row);
    results[1] = result_of(uintBitsToFloat(x[1]), terms[1], row);
    results[2] = result_of(uintBitsToFloat(x[2]), terms[2], row);
    results[3] = result_of(uintBitsToFloat(x[3]), terms[3], row);
#ifdef TERMS_ARE_KEPT
    take_slow_path(x, basis, row, has_far, results);
#else
    if (is_shifted(basis.shift) || has_slow_path_results(has_far, row)) {
        results[0] = result_of(difference_of(x[0], basis.shift), terms[0], row);
        results[1] = result_of(difference_of(x[1], basis.shift), terms[1], row);
        results[2] = result_of(difference_of(x[2], basis.shift), terms[2], row);
        results[3] = result_of(difference_of(x[3], basis.shift), terms[3], row);
        take_slow_path(x, basis, row, has_far, results);
    }
#endif
    if (!row_has_sum) {
        results[0] = NAN_F32;
        results[1] = NAN_F32;
        results[2] = NAN_F32;
        results[3] = NAN_F32;
    }
}
#endif

// What a file of the pattern does with its blocks, by the block's name: x_<name>, terms_<name>.
#define SEE_BLOCK(name, first) \
    { \
        load_block(first, x_##name); \
        seen = extremes_with(seen, x_##name[0], first); \
        seen = extremes_with(seen, x_##name[1], first + 1u); \
        seen = extremes_with(seen, x_##name[2], first + 2u); \
        seen = extremes_with(seen, x_##name[3], first + 3u); \
    }

#ifdef SUM_WITHOUT_PEAK
#define LEAVE_OUT(name) \
    if (has_peak) { \
        leave_out_peak(x_##name, peak, has_peak, terms_##name); \
    }
#else
#define LEAVE_OUT(name)
#endif

#define TAKE_TERMS(name) \
    terms_##name[0] = term_from(differences[0], basis); \
    terms_##name[1] = term_from(differences[1], basis); \
    terms_##name[2] = term_from(differences[2], basis); \
    terms_##name[3] = term_from(differences[3], basis);
#define TAKE_BLOCK(name, first) \
    { \
        float differences[4]; \
        LOAD_AGAIN(name, first) \
        take_differences(x_##name, basis, has_far, differences); \
        TAKE_TERMS(name) \
        LEAVE_OUT(name) \
    }
#define ADD_BLOCK(name, first) \
    { \
        TAKE_BLOCK(name, first) \
        sum = with_terms(sum, terms_##name); \
    }
#define ADD_NEAR_BLOCK(name, first) \
    { \
        float differences[4]; \
        take_elements(x_##name, differences); \
        TAKE_TERMS(name) \
        LEAVE_OUT(name) \
        sum = with_near_terms(sum, terms_##name); \
    }

#ifdef TERMS_ARE_KEPT
#define TERMS_AGAIN(name) \
    { \
        float differences[4]; \
        take_differences(x_##name, basis, has_far, differences); \
        TAKE_TERMS(name) \
    }
#else
#define TERMS_AGAIN(name)
#endif

#ifdef RESULT_WITHOUT_SUM
#define RESULT(first, k) (first + k == peak.offset ? uint(RESULT_WITHOUT_SUM) : 0u)
#define STORE_BLOCK(name, first) \
    { \
        uint results[4]; \
        results[0] = RESULT(first, 0u); \
        results[1] = RESULT(first, 1u); \
        results[2] = RESULT(first, 2u); \
        results[3] = RESULT(first, 3u); \
        store_block(first, results); \
    }
#else
#define STORE_BLOCK(name, first) \
    { \
        uint results[4]; \
        LOAD_AGAIN(name, first) \
        KEEP_AGAIN(name) \
        take_results(x_##name, terms_##name, basis, row, has_far, row_has_sum, results); \
        store_block(first, results); \
    }
#endif

#if ROW_ACCESS_ORDER == ALONE
#include "rows/along_axes_alone.glsl"
#else
#include "rows/along_axes_together.glsl"
#endif
