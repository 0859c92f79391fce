// The ways IN_REGISTERS and LONG of along_axes.glsl: every invocation is a lane, and a work group computes INVOCATIONS / LANES_PER_ROW rows.
#define ROWS_PER_GROUP (INVOCATIONS / LANES_PER_ROW)
#define NEXT_LANE (LANES_ARE_NEIGHBOURS ? 1u : ROWS_PER_GROUP)

// Which rows and lanes are computed here: those behind the last row do the work of that one, for the barriers' sake, and store
// nothing. `slot` is this lane's place in shared memory, and `row_slot` that of the row's first lane.
uint slot, lane, row_slot;

shared int shared_ranks[INVOCATIONS];
shared uint shared_offsets[INVOCATIONS];
#define SHARED_PEAK(at) Peak(shared_ranks[at], shared_offsets[at])

// Of two peaks, the second of a later lane. Where places are those of lanes, the first of equals is the earlier one.
#ifdef RESULT_WITHOUT_SUM
#define higher_peak(a, b) peak_of(a, b)
#else
Peak higher_peak(Peak a, Peak b) {
    bool takes_b = b.rank > a.rank;
    return Peak(takes_b ? b.rank : a.rank, takes_b ? b.offset : a.offset);
}
#endif

// Of all lanes' peaks the highest. Chains end where they began: no other one reads there.
Peak peak_of_lanes(Peak own) {
    if (LANES_PER_ROW == 1u) { return own; }
    shared_ranks[slot] = own.rank;
    shared_offsets[slot] = own.offset;
    barrier();
    if (LANES_IN_CHAIN > 1u) {
        if (lane < CHAINS) {
            uint begin = row_slot + lane * LANES_IN_CHAIN * NEXT_LANE;
            Peak highest = SHARED_PEAK(begin);
            for (uint i = 1u; i < LANES_IN_CHAIN; ++i) {
                highest = higher_peak(highest, SHARED_PEAK(begin + i * NEXT_LANE));
            }
            shared_ranks[begin] = highest.rank;
            shared_offsets[begin] = highest.offset;
        }
        barrier();
    }
    Peak highest = SHARED_PEAK(row_slot);
    for (uint i = 1u; i < CHAINS; ++i) {
        highest = higher_peak(highest, SHARED_PEAK(row_slot + i * LANES_IN_CHAIN * NEXT_LANE));
    }
    return highest;
}

#ifndef RESULT_WITHOUT_SUM
shared float shared_highs[INVOCATIONS], shared_lows[INVOCATIONS];

// What is made of all lanes' sum; made once, by the first lane.
uvec3 row_words_of_lanes(Double own, PowerBasis basis) {
    if (LANES_PER_ROW == 1u) { return row_words_of(complete_sum(with_next_sum(FIRST_OF_SUMS, own)), basis); }
    shared_highs[slot] = own.high;
    shared_lows[slot] = own.low;
    barrier();
    if (LANES_IN_CHAIN > 1u) {
        if (lane < CHAINS) {
            uint begin = row_slot + lane * LANES_IN_CHAIN * NEXT_LANE;
            Double sum = FIRST_OF_SUMS;
            for (uint i = 0u; i < LANES_IN_CHAIN; ++i) {
                uint at = begin + i * NEXT_LANE;
                sum = with_next_sum(sum, Double(shared_highs[at], shared_lows[at]));
            }
            sum = complete_sum(sum);
            shared_highs[begin] = sum.high;
            shared_lows[begin] = sum.low;
        }
        barrier();
    }
    if (lane == 0u) {
        Double sum = FIRST_OF_SUMS;
        for (uint i = 0u; i < CHAINS; ++i) {
            uint at = row_slot + i * LANES_IN_CHAIN * NEXT_LANE;
            sum = with_next_sum(sum, Double(shared_highs[at], shared_lows[at]));
        }
        uvec3 words = row_words_of(complete_sum(sum), basis);
        shared_highs[row_slot] = uintBitsToFloat(words.x);
        shared_lows[row_slot] = uintBitsToFloat(words.y);
        shared_ranks[row_slot] = int(words.z); // the peaks were read before the last barrier but one
    }
    barrier();
    return uvec3(
        floatBitsToUint(shared_highs[row_slot]), floatBitsToUint(shared_lows[row_slot]), uint(shared_ranks[row_slot]));
}
#endif

// EACH_BLOCK(DO): DO(name, first element) for every block of this lane in turn. Blocks that are held have names of their own, for
// SwiftShader gives wrong results where arrays of them are indexed; all others are loaded again for each step, as block 0.
#define BLOCK_STEP (4u * LANES_PER_ROW)
#if ROW_ACCESS_ORDER == IN_REGISTERS
#define IF_IN_REGISTERS(block, DO) if (BLOCK_STEP * uint(block) < ROW_LENGTH) DO(block, lane * 4u + BLOCK_STEP * uint(block))
#define EACH_NAME(DO) DO(0) DO(1) DO(2) DO(3)
#define EACH_BLOCK(DO) IF_IN_REGISTERS(0, DO) IF_IN_REGISTERS(1, DO) IF_IN_REGISTERS(2, DO) IF_IN_REGISTERS(3, DO)
#define LOAD_AGAIN(name, first)
#define KEEP_AGAIN(name)
#else
#define EACH_NAME(DO) DO(0)
#define EACH_BLOCK(DO) for (uint first = lane * 4u; first < ROW_LENGTH; first += BLOCK_STEP) DO(0, first)
#define LOAD_AGAIN(name, first) load_block(first, x_##name);
#define KEEP_AGAIN(name) TERMS_AGAIN(name)
#endif

#define ADD_NEAR_TERMS(name, first) { sum = with_near_terms(sum, terms_##name); }
#define ADD_ALL_TERMS(name, first) { sum = with_terms(sum, terms_##name); }

#if ROW_ACCESS_ORDER == IN_REGISTERS
// All rows of the work group, from an element of the tensor on.
void load_rows(uint first, uint count) {
    uint begin = BASE(INPUT_0_BITS, input_0) + first;
    for (uint element = slot; element < count; element += INVOCATIONS) {
        staged[element] = FORM(widened, INPUT_0)(LOAD(INPUT_0, words_input_0, begin + element));
    }
    barrier();
}

// Words that hold elements of others, too, are changed by atomics.
void store_rows(uint first, uint count) {
    barrier();
    uint begin = BASE(OUTPUT_BITS, output) + first;
#if OUTPUT_BITS == 32
    for (uint element = slot; element < count; element += INVOCATIONS) {
        words_output[begin + element] = staged[element];
    }
#else
    uint last = begin + count; // behind it
    for (uint word = (begin >> 1u) + slot; 2u * word < last; word += INVOCATIONS) {
        bool has_low = 2u * word >= begin;
        bool has_high = 2u * word + 1u < last;
        uint low = has_low ? staged[2u * word - begin] : 0u;
        uint high = has_high ? staged[2u * word + 1u - begin] : 0u;
        if (has_low && has_high) {
            words_output[word] = low | (high << 16);
        } else if (has_low) {
            STORE_16(words_output, 2u * word, low);
        } else {
            STORE_16(words_output, 2u * word + 1u, high);
        }
    }
#endif
}
#endif

#define DECLARE_X(name) uint x_##name[4];
#define DECLARE_TERMS(name) Double terms_##name[4];

void main() {
    uint group = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x;
    slot = index_in_group();
    lane = LANES_ARE_NEIGHBOURS ? slot % LANES_PER_ROW : slot / ROWS_PER_GROUP;
    row_slot = slot - lane * NEXT_LANE;
    uint row_number = group * ROWS_PER_GROUP + (LANES_ARE_NEIGHBOURS ? slot / LANES_PER_ROW : slot % ROWS_PER_GROUP);
    bool is_row = row_number < parameters.work_items;
    move_to_row(min(row_number, parameters.work_items - 1u));

#if ROW_ACCESS_ORDER == IN_REGISTERS
    uint group_row = group * ROWS_PER_GROUP;
    uint group_elements = (min(group_row + ROWS_PER_GROUP, parameters.work_items) - min(group_row, parameters.work_items)) * ROW_LENGTH;
    if (IS_STAGED) {
        staged_row = (min(row_number, parameters.work_items - 1u) - min(group_row, parameters.work_items - 1u)) * ROW_LENGTH;
        load_rows(group_row * ROW_LENGTH, group_elements);
    }
#endif
    EACH_NAME(DECLARE_X)
    Extremes seen = NO_EXTREMES;
    EACH_BLOCK(SEE_BLOCK)
    Peak peak = peak_of_lanes(peak_of_extremes(seen, lane));

#ifndef RESULT_WITHOUT_SUM
    bool row_has_sum = has_sum(peak);
    PowerBasis basis = basis_of(peak);
    bool has_far = is_far_below(smallest_of_extremes(seen), basis);
    bool has_peak = lane == peak.offset;
    EACH_NAME(DECLARE_TERMS)
#if ROW_ACCESS_ORDER == IN_REGISTERS
    Double sum = Double(FIRST_SUM, 0.0);
#ifdef TERMS_ARE_KEPT
    EACH_BLOCK(TAKE_BLOCK)
    if (is_near_below(smallest_of_extremes(seen), basis)) {
        EACH_BLOCK(ADD_NEAR_TERMS)
    } else {
        EACH_BLOCK(ADD_ALL_TERMS)
    }
#else
    // Terms that are not kept need no registers if they are added at once, nor differences that are the elements.
    if (is_near_below(smallest_of_extremes(seen), basis) && !is_shifted(basis.shift)) {
        EACH_BLOCK(ADD_NEAR_BLOCK)
    } else {
        EACH_BLOCK(ADD_BLOCK)
    }
#endif
    Double lane_sum = sum_complete(sum, FIRST_SUM);
#else
    Double lane_sum = Double(0.0, 0.0);
    for (uint begin = lane * 4u; begin < ROW_LENGTH; begin += 4u * BLOCK_STEP) {
        Double sum = Double(FIRST_SUM, 0.0);
        for (uint i = 0u; i < 4u; ++i) {
            uint first = begin + i * BLOCK_STEP;
            if (first < ROW_LENGTH) {
                ADD_BLOCK(0, first)
            }
        }
        lane_sum = sum_of(lane_sum, sum_complete(sum, FIRST_SUM));
    }
#endif
    ROW row = row_of(row_words_of_lanes(lane_sum, basis), basis, has_far);
#endif

    if (is_row) {
        EACH_BLOCK(STORE_BLOCK)
    }
#if ROW_ACCESS_ORDER == IN_REGISTERS
    if (IS_STAGED) { store_rows(group_row * ROW_LENGTH, group_elements); }
#endif
}
