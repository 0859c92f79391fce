// Results that depend on all elements of their row, a row being what lies along some axes of the tensor.
//
// Element i of a row is the one whose coordinates along these axes, the last axis fastest, count i. It belongs to lane
// (i / 4) % 256 of the row; every lane takes its elements in rising order, and then the lanes are combined in pairs, l with
// l + 128, with l + 64, and so on. So the order, and with it every bit, follows from the length of the row alone. Lanes without
// an element are left out, as far as the number of the others is a power of two: a row has LANES_PER_ROW of them, each of which
// is an invocation, and a work group computes 256 / LANES_PER_ROW rows.
//
// BLOCKS_HELD is how many blocks of four a lane keeps in registers between the steps: 1, or 4, for rows of up to 1024 or 4096
// elements; 0 for rows of any length, which are read three times.
//
// The operator's file defines before, for x, peaks and results of float32 whatever the tensors' type is:
//   NAN_RANK                    where NaN stands in the search for the peak: ABOVE_ALL or BELOW_ALL
//   RESULT_WITHOUT_SUM          the result where the element is the peak, with bits of float32, else it is 0
// or, with a sum,
//   BASIS, basis_of(peak)       what is made of the largest value, once
//   KEPT, kept_of(x, basis)     what is kept of an element until its result is due
//   term_of(kept)               what it adds to the sum, a Double; next to nothing where x is -infinity
//   SUM_WITHOUT_PEAK            where the peak's own term is left out of the sum, and those of -infinity altogether
//   ROW, row_of(sum)            what is made of the sum, once
//   result_of(kept, row)        the result; that of a row without one is NaN
#include "axes.glsl"
#include "comparison.glsl"
#include "error_free.glsl"
#include "float16.glsl"
#include "float32.glsl"

ALL_STRIDES(output, 12)
ALL_STRIDES(input, 20)
#define LANES_PER_ROW GROUPS_PER_ROW
#define ROWS_PER_GROUP (256u / LANES_PER_ROW)
layout(constant_id = 28) const uint ROW_AXES = 1u; // the first axes are those of the row, the others lead from row to row
layout(constant_id = 29) const uint ROW_LENGTH = 1u;
layout(constant_id = 30) const bool LANES_ARE_NEIGHBOURS = true; // neighbouring invocations are lanes of one row, not rows
// Whether blocks of four neighbours lie at multiples of four elements in memory: they are then loaded or stored at once.
layout(constant_id = 31) const bool INPUT_HAS_BLOCKS = false;
layout(constant_id = 32) const bool OUTPUT_HAS_BLOCKS = false;
#define NEXT_LANE (LANES_ARE_NEIGHBOURS ? 1u : ROWS_PER_GROUP)

// The largest element: where it stands among all numbers, and its place in the row.
struct Peak {
    int rank;
    uint place;
};

#if defined(RESULT_WITHOUT_SUM) || defined(SUM_WITHOUT_PEAK)
#define PLACE_MATTERS 1
#else
#define PLACE_MATTERS 0
#endif

shared int shared_ranks[256];
#if PLACE_MATTERS
shared uint shared_places[256];
#define SHARE_PEAK(slot, peak) shared_ranks[slot] = peak.rank, shared_places[slot] = peak.place
#define SHARED_PEAK(slot) Peak(shared_ranks[slot], shared_places[slot])
#else
#define SHARE_PEAK(slot, peak) shared_ranks[slot] = peak.rank
#define SHARED_PEAK(slot) Peak(shared_ranks[slot], 0u)
#endif

// The element of higher rank; of two of the same rank the first one.
Peak peak_of(Peak a, Peak b)
{
#if PLACE_MATTERS
    bool takes_b = b.rank > a.rank || (b.rank == a.rank && b.place < a.place);
    return Peak(takes_b ? b.rank : a.rank, takes_b ? b.place : a.place);
#else
    return Peak(max(a.rank, b.rank), 0u);
#endif
}

// Combines the lanes of each row; lane is this invocation's, and slot its place in shared memory. Pairs of pairs at a time,
// which takes half the barriers.
#define COMBINE_LANES(own, combined, SHARE, SHARED) \
    SHARE(slot, own); \
    for (uint half_of_lanes = LANES_PER_ROW / 2u; half_of_lanes > 0u;) { \
        barrier(); \
        uint quarter = half_of_lanes / 2u; \
        if (lane < quarter) { \
            own = combined( \
                combined(own, SHARED(slot + 2u * quarter * NEXT_LANE)), \
                combined(SHARED(slot + quarter * NEXT_LANE), SHARED(slot + 3u * quarter * NEXT_LANE))); \
            SHARE(slot, own); \
        } else if (quarter == 0u && lane == 0u) { \
            own = combined(own, SHARED(slot + NEXT_LANE)); \
            SHARE(slot, own); \
        } \
        half_of_lanes = quarter / 2u; \
    } \
    barrier();

Peak peak_of_lanes(Peak own, uint lane, uint slot)
{
    if (LANES_PER_ROW == 1u) {
        return own;
    }
    COMBINE_LANES(own, peak_of, SHARE_PEAK, SHARED_PEAK)
    return SHARED_PEAK(slot - lane * NEXT_LANE);
}

// Both zeros have one rank.
int rank_of(uint x) { return is_nan_f32(x) ? NAN_RANK : signed_magnitude(x); }
uint bits_of_rank(int rank) { return (uint(rank) & SIGN_F32) | uint(rank < 0 ? -rank : rank); }

#ifdef KEPT
shared uint shared_highs[256];
shared uint shared_lows[256];

#define SHARE_SUM(slot, sum) shared_highs[slot] = floatBitsToUint(sum.high), shared_lows[slot] = floatBitsToUint(sum.low)
#define SHARED_SUM(slot) Double(uintBitsToFloat(shared_highs[slot]), uintBitsToFloat(shared_lows[slot]))

Double sum_of_lanes(Double own, uint lane, uint slot)
{
    if (LANES_PER_ROW == 1u) {
        return own;
    }
    COMBINE_LANES(own, sum_of, SHARE_SUM, SHARED_SUM)
    return SHARED_SUM(slot - lane * NEXT_LANE);
}
#endif

// Where this invocation's row begins, in elements.
uint row_input;
uint row_output;

#define MOVE_TO_ROW(axis) \
    if (axis >= ROW_AXES && SIZE_##axis > 1u) { \
        uint coordinate = row % SIZE_##axis; \
        row /= SIZE_##axis; \
        row_input += coordinate * STRIDE_input_##axis; \
        row_output += coordinate * STRIDE_output_##axis; \
    }
void move_to_row(uint row)
{
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
        place += coordinate * STRIDE_##name##_##axis; \
    }
#define PLACE_IN(name) \
    uint place_in_##name(uint element) \
    { \
        uint place = row_##name; \
        MOVE_ALONG(name, 0) MOVE_ALONG(name, 1) MOVE_ALONG(name, 2) MOVE_ALONG(name, 3) \
        MOVE_ALONG(name, 4) MOVE_ALONG(name, 5) MOVE_ALONG(name, 6) MOVE_ALONG(name, 7) \
        return place; \
    }
PLACE_IN(input)
PLACE_IN(output)

uint widened_f32(uint x) { return x; }
uint widened_f16(uint x) { return float32_from_float16(x); }
uint narrowed_f32(uint x) { return x; }
uint narrowed_f16(uint x) { return float16_from_float32(x); }

// What stands behind the row's end: never the peak, and nothing in the sum.
#ifdef KEPT
#define BEHIND_THE_ROW (SIGN_F32 | INFINITY_F32)
#else
#define BEHIND_THE_ROW NAN_F32
#endif

// Four neighbours as float32.
void load_block(uint first, out uint x[4])
{
    if (INPUT_HAS_BLOCKS && first + 3u < ROW_LENGTH) {
        uint block = place_in_input(first) >> 2u;
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
        uint place = place_in_input(min(first + k, ROW_LENGTH - 1u));
        uint element = FORM(widened, INPUT_0)(LOAD(INPUT_0, words_input_0, place));
        x[k] = first + k < ROW_LENGTH ? element : BEHIND_THE_ROW;
    }
}

// Four neighbours, of which some may lie behind the row's end.
void store_block(uint first, uint results[4])
{
    if (OUTPUT_HAS_BLOCKS && first + 3u < ROW_LENGTH) {
        uint block = place_in_output(first) >> 2u;
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
            uint place = place_in_output(first + k);
            STORE(OUTPUT_BITS, words_output, place, FORM(narrowed, OUTPUT)(results[k]));
        }
    }
}

Peak peak_of_block(Peak peak, uint first, uint x[4])
{
    for (uint k = 0u; k < 4u; ++k) {
        peak = peak_of(peak, Peak(rank_of(x[k]), first + k));
    }
    return peak;
}

#ifdef KEPT
#ifdef SUM_WITHOUT_PEAK
Double counted_term_of(KEPT kept, uint x, bool is_peak)
{
    bool counts = !is_peak && x != (SIGN_F32 | INFINITY_F32);
    Double term = term_of(kept);
    return Double(counts ? term.high : 0.0, counts ? term.low : 0.0);
}
#define TERM(k) counted_term_of(kept[k], x[k], first + k == place_of_peak)
#else
#define TERM(k) term_of(kept[k])
#endif

Double sum_of_block(uint first, uint x[4], KEPT kept[4], uint place_of_peak)
{
    Double of_two = quick_sum_of(TERM(0u), TERM(1u));
    Double of_three = quick_sum_of(of_two, TERM(2u));
    Double of_four = quick_sum_of(of_three, TERM(3u));
    return fast_two_sum(of_four.high, of_four.low);
}

// What is infinite or NaN at its peak has no sum, and what is -infinity throughout.
bool has_sum(Peak peak) { return peak.rank < int(INFINITY_F32) && peak.rank > -int(INFINITY_F32); }
#endif

// EACH_BLOCK(DO): DO(name, first element) for every block of a lane in turn. Blocks that are held have names of their own, for
// SwiftShader gives wrong results where arrays of them are indexed; all others are loaded again for each step, as block 0.
#define IF_HELD(block, DO) if (1024u * uint(block) < ROW_LENGTH) DO(block, lane * 4u + 1024u * uint(block))
#if BLOCKS_HELD == 4
#define EACH_NAME(DO) DO(0) DO(1) DO(2) DO(3)
#define EACH_BLOCK(DO) IF_HELD(0, DO) IF_HELD(1, DO) IF_HELD(2, DO) IF_HELD(3, DO)
#elif BLOCKS_HELD == 1
#define EACH_NAME(DO) DO(0)
#define EACH_BLOCK(DO) IF_HELD(0, DO)
#else
#define EACH_NAME(DO) DO(0)
#define EACH_BLOCK(DO) for (uint first = lane * 4u; first < ROW_LENGTH; first += 1024u) DO(0, first)
#endif

#define SEE_BLOCK(block, first) \
    { \
        load_block(first, x_##block); \
        peak = peak_of_block(peak, first, x_##block); \
    }

#ifdef KEPT
#define KEEP_BLOCK(block) \
    kept_##block[0] = kept_of(x_##block[0], basis); \
    kept_##block[1] = kept_of(x_##block[1], basis); \
    kept_##block[2] = kept_of(x_##block[2], basis); \
    kept_##block[3] = kept_of(x_##block[3], basis);
#if BLOCKS_HELD > 0
#define LOAD_AGAIN(block, first)
#define KEEP_AGAIN(block)
#else
#define LOAD_AGAIN(block, first) load_block(first, x_##block);
#define KEEP_AGAIN(block) KEEP_BLOCK(block)
#endif
#define ADD_BLOCK(block, first) \
    { \
        LOAD_AGAIN(block, first) \
        KEEP_BLOCK(block) \
        sum = sum_of(sum, sum_of_block(first, x_##block, kept_##block, peak.place)); \
    }
#define RESULT(block, first, k) (row_has_sum ? result_of(kept_##block[k], of_row) : NAN_F32)
#else
#define LOAD_AGAIN(block, first)
#define KEEP_AGAIN(block)
#define RESULT(block, first, k) (first + k == peak.place ? uint(RESULT_WITHOUT_SUM) : 0u)
#endif

#define STORE_BLOCK(block, first) \
    { \
        LOAD_AGAIN(block, first) \
        KEEP_AGAIN(block) \
        uint results[4]; \
        results[0] = RESULT(block, first, 0u); \
        results[1] = RESULT(block, first, 1u); \
        results[2] = RESULT(block, first, 2u); \
        results[3] = RESULT(block, first, 3u); \
        store_block(first, results); \
    }

void main()
{
    uint group = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x;
    uint slot = gl_LocalInvocationID.x;
    uint lane = LANES_ARE_NEIGHBOURS ? slot % LANES_PER_ROW : slot / ROWS_PER_GROUP;
    uint row = group * ROWS_PER_GROUP + (LANES_ARE_NEIGHBOURS ? slot / LANES_PER_ROW : slot % ROWS_PER_GROUP);
    // Behind the last row all work is done on that one, for the barriers' sake, and nothing stored.
    bool is_row = row < parameters.work_items;
    move_to_row(min(row, parameters.work_items - 1u));

#define X_OF_BLOCK(block) uint x_##block[4];
    EACH_NAME(X_OF_BLOCK)
    Peak peak = Peak(BELOW_ALL, 0xffffffffu);
    EACH_BLOCK(SEE_BLOCK)
    peak = peak_of_lanes(peak, lane, slot);

#ifdef KEPT
    bool row_has_sum = has_sum(peak);
    BASIS basis = basis_of(as_float32(bits_of_rank(peak.rank)));
#define KEPT_OF_BLOCK(block) KEPT kept_##block[4];
    EACH_NAME(KEPT_OF_BLOCK)
    Double sum = Double(0.0, 0.0);
    EACH_BLOCK(ADD_BLOCK)
    ROW of_row = row_of(sum_of_lanes(sum, lane, slot));
#endif

    if (is_row) {
        EACH_BLOCK(STORE_BLOCK)
    }
}
