// Results that depend on all elements of their row, a row being what lies along some axes of the tensor.
//
// Element i of a row is the one whose coordinates along these axes, the last axis fastest, count i. It belongs to lane
// (i / 4) % 256 of the row; every lane takes its elements in rising order, and then the lanes are combined in pairs, l with
// l + 128, with l + 64, and so on. So the order, and with it every bit, follows from the length of the row alone. Lanes without
// an element are left out, as far as the number of the others is a power of two: a row has LANES_PER_ROW of them, each of which
// is an invocation, and a work group computes 256 / LANES_PER_ROW rows.
//
// Rows of up to 1024 elements (LONG_ROWS 0) have at most four in a lane, which stay in registers between the steps.
//
// The operator's file defines before, for x, peaks and results of float32 whatever the tensors' type is:
//   NAN_RANK                    where NaN stands in the search for the peak: ABOVE_ALL or BELOW_ALL
//   RESULT_WITHOUT_SUM          the result where the element is the peak, with bits of float32, else it is 0
// or, with a sum,
//   KEPT, kept_of(x, peak)      what is kept of an element until its result is due
//   term_of(kept)               what it adds to the sum, a Double
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

shared int shared_ranks[256];
shared uint shared_places[256];

// The element of higher rank; of two of the same rank the first one.
Peak peak_of(Peak a, Peak b)
{
    bool takes_b = b.rank > a.rank || (b.rank == a.rank && b.place < a.place);
    return Peak(takes_b ? b.rank : a.rank, takes_b ? b.place : a.place);
}

// Combines the lanes of each row; lane is this invocation's, and slot its place in shared memory.
Peak peak_of_lanes(Peak own, uint lane, uint slot)
{
    shared_ranks[slot] = own.rank;
    shared_places[slot] = own.place;
    for (uint distance = LANES_PER_ROW / 2u; distance > 0u; distance /= 2u) {
        barrier();
        if (lane < distance) {
            uint other = slot + distance * NEXT_LANE;
            own = peak_of(own, Peak(shared_ranks[other], shared_places[other]));
            shared_ranks[slot] = own.rank;
            shared_places[slot] = own.place;
        }
    }
    barrier();
    uint first = slot - lane * NEXT_LANE;
    return Peak(shared_ranks[first], shared_places[first]);
}

// Both zeros have one rank.
int rank_of(uint x) { return is_nan_f32(x) ? NAN_RANK : signed_magnitude(x); }
uint bits_of_rank(int rank) { return (uint(rank) & SIGN_F32) | uint(rank < 0 ? -rank : rank); }

#ifdef KEPT
shared uint shared_highs[256];
shared uint shared_lows[256];

Double sum_of_lanes(Double own, uint lane, uint slot)
{
    shared_highs[slot] = floatBitsToUint(own.high);
    shared_lows[slot] = floatBitsToUint(own.low);
    for (uint distance = LANES_PER_ROW / 2u; distance > 0u; distance /= 2u) {
        barrier();
        if (lane < distance) {
            uint other = slot + distance * NEXT_LANE;
            own = sum_of(own, Double(uintBitsToFloat(shared_highs[other]), uintBitsToFloat(shared_lows[other])));
            shared_highs[slot] = floatBitsToUint(own.high);
            shared_lows[slot] = floatBitsToUint(own.low);
        }
    }
    barrier();
    uint first = slot - lane * NEXT_LANE;
    return Double(uintBitsToFloat(shared_highs[first]), uintBitsToFloat(shared_lows[first]));
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

// Four neighbours as float32; the last element of the row in the place of those behind it.
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
        x[k] = FORM(widened, INPUT_0)(LOAD(INPUT_0, words_input_0, place));
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
#define SEE(k) peak = peak_of(peak, Peak(first + k < ROW_LENGTH ? rank_of(x[k]) : BELOW_ALL, first + k));
    FOR_EACH_LANE(SEE)
    return peak;
}

#ifdef KEPT
// The peak's own term is left out, and so are those of -infinity and of what lies behind the row's end.
Double sum_of_block(Double sum, uint first, uint x[4], KEPT kept[4], uint place_of_peak)
{
#define ADD(k) \
    { \
        bool counts = first + k < ROW_LENGTH && first + k != place_of_peak && x[k] != (SIGN_F32 | INFINITY_F32); \
        Double term = term_of(kept[k]); \
        sum = sum_of(sum, Double(counts ? term.high : 0.0, counts ? term.low : 0.0)); \
    }
    FOR_EACH_LANE(ADD)
    return sum;
}

// What is infinite or NaN at its peak has no sum, and what is -infinity throughout.
bool has_sum(Peak peak) { return peak.rank < int(INFINITY_F32) && peak.rank > -int(INFINITY_F32); }
#endif

#define LOAD_BLOCK \
    uint x[4]; \
    load_block(first, x);

// An array of four values.
#define FOUR(type, name, OF) type name[4]; name[0] = OF(0u); name[1] = OF(1u); name[2] = OF(2u); name[3] = OF(3u);
#define KEEP(k) kept_of(x[k], peak_value)
#ifdef KEPT
#define RESULT(k) (row_has_sum ? result_of(kept[k], of_row) : NAN_F32)
#else
#define RESULT(k) (first + k == peak.place ? uint(RESULT_WITHOUT_SUM) : 0u)
#endif

#if LONG_ROWS
#define BLOCKS for (uint first = lane * 4u; first < ROW_LENGTH; first += 1024u)
#else
#define BLOCKS
#endif

void main()
{
    uint group = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x;
    uint slot = gl_LocalInvocationID.x;
    uint lane = LANES_ARE_NEIGHBOURS ? slot % LANES_PER_ROW : slot / ROWS_PER_GROUP;
    uint row = group * ROWS_PER_GROUP + (LANES_ARE_NEIGHBOURS ? slot / LANES_PER_ROW : slot % ROWS_PER_GROUP);
    // Behind the last row all work is done on that one, for the barriers' sake, and nothing stored.
    bool is_row = row < parameters.work_items;
    move_to_row(min(row, parameters.work_items - 1u));

    Peak peak = Peak(BELOW_ALL, 0xffffffffu);
#if !LONG_ROWS
    uint first = lane * 4u;
    LOAD_BLOCK
#endif
    BLOCKS {
#if LONG_ROWS
        LOAD_BLOCK
#endif
        peak = peak_of_block(peak, first, x);
    }
    peak = peak_of_lanes(peak, lane, slot);

#ifdef KEPT
    float peak_value = as_float32(bits_of_rank(peak.rank));
    bool row_has_sum = has_sum(peak);
    Double sum = Double(0.0, 0.0);
#if !LONG_ROWS
    FOUR(KEPT, kept, KEEP)
#endif
    BLOCKS {
#if LONG_ROWS
        LOAD_BLOCK
        FOUR(KEPT, kept, KEEP)
#endif
        sum = sum_of_block(sum, first, x, kept, peak.place);
    }
    ROW of_row = row_of(sum_of_lanes(sum, lane, slot));
#endif

    if (is_row) {
        BLOCKS {
#if LONG_ROWS && defined(KEPT)
            LOAD_BLOCK
            FOUR(KEPT, kept, KEEP)
#endif
            FOUR(uint, results, RESULT)
            store_block(first, results);
        }
    }
}
