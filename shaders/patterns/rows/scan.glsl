// Prefixes of rows: each element's result is made of those before it and, but for exclusive ones, itself. Included last by a file of reductions
// that has defined, beside what reduction.glsl wants,
//   with_element(state, x)      the state with one more element
//   prefix_result_of(state)     the result there
//
// The order, and with it every bit, follows from an element's number in its row alone. 16 neighbours are a run, 16 runs a block, 16 blocks a
// chunk, and so on. A run is gone through in rising order. What 16 neighbours of a higher kind come to, and what those before each of them
// come to, is found in four rounds: in each, what one has is joined behind what the one 1, 2, 4 and 8 places before it has (W. D. Hillis and
// G. L. Steele, «Data parallel algorithms», 1986). What comes before an element is joined from the largest kind down to its own run.
//
// A work group takes chunks of 256 runs (or blocks of 16 runs, of rows that are neighbours in memory), a run to an invocation. Where a row is longer, one
// launch stores what its chunks come to; from these, as if they were runs (PARTIALS), comes what is before each of them, which another
// launch begins with (D. Merrill and A. Grimshaw, «Parallel scan for stream architectures», 2009: reduce, then scan).

layout(constant_id = 12) const bool HAS_CARRIES = false; // what comes before each chunk is given, in the companion
layout(constant_id = 13) const bool IS_REVERSED = false; // from the last element to the first
layout(constant_id = 14) const bool IS_EXCLUSIVE = false;
layout(constant_id = 15) const bool OUTPUT_HAS_BLOCKS = false; // as HAS_BLOCKS
#ifdef WHOLE_ROWS
layout(constant_id = 16) const uint GROUP_SIZE = 256u; // invocations of a work group; the host sets the group's size to it
#else
#define GROUP_SIZE 256u
#endif

layout(std430, set = 0, binding = 2) coherent buffer Pairs_output { uvec2 pairs_output[]; };
layout(std430, set = 0, binding = 2) coherent buffer Fours_output { uvec4 fours_output[]; };

#if PARTIALS
#define ELEMENTS_OF_RUN 1u
#else
#define ELEMENTS_OF_RUN 16u
#endif
#define CHUNKS_OF_GROUP (GROUP_SIZE / LANES_OF_CHUNK)

#define SHARED_WORD(n) shared uint shared_##n[GROUP_SIZE];
EACH_STATE_WORD(SHARED_WORD)

State shared_state(uint slot) {
    uint words[STATE_WORDS];
#define READ_SHARED(n) words[n] = shared_##n[slot];
    EACH_STATE_WORD(READ_SHARED)
    return state_of_words(words);
}

void share_state(uint slot, State state) {
#define WRITE_SHARED(n) shared_##n[slot] = state_word_##n(state);
    EACH_STATE_WORD(WRITE_SHARED)
}

State carried_state(uint number) {
    uint words[STATE_WORDS];
    uint offset = parameters.base_companion + number * STATE_WORDS;
#define READ_CARRIED(n) words[n] = words_companion[offset + uint(n)];
    EACH_STATE_WORD(READ_CARRIED)
    return state_of_words(words);
}

void store_state(uint number, State state) {
    uint offset = parameters.base_output + number * STATE_WORDS;
#define STORE_STATE(n) words_output[offset + uint(n)] = state_word_##n(state);
    EACH_STATE_WORD(STORE_STATE)
}

// What the neighbours up to each one come to, of 16 of a kind that lie `step` slots apart; `number` is its own among them. Every slot of shared memory
// holds its invocation's result then.
State with_those_before(State state, uint slot, uint number, uint step, uint most) {
    barrier(); // what was shared before has been read
    share_state(slot, state);
    for (uint distance = 1u; distance < min(most, 16u); distance *= 2u) {
        barrier();
        State earlier = EMPTY_STATE;
        if (number >= distance) { earlier = shared_state(slot - distance * step); }
        barrier();
        if (number >= distance) {
            state = joined(earlier, state);
            share_state(slot, state);
        }
    }
    barrier();
    return state;
}

#if PARTIALS
State run_state(uint first, uint end) {
    uint words[STATE_WORDS];
    if (first >= end) { return EMPTY_STATE; }
    uint offset = parameters.base_input + (row_number * parameters.row_length + first) * STATE_WORDS;
#define READ_STATE(n) words[n] = words_input[offset + uint(n)];
    EACH_STATE_WORD(READ_STATE)
    return state_of_words(words);
}
#else
uint row_output;

// Up to four elements in the order of the scan, from number `first` on.
Block scanned_block(uint first, uint count) {
    if (!IS_REVERSED) { return load_block(first, count); }
    Block block = load_block(parameters.row_length - first - count, count);
    if (count == 4u) { return Block(block.d, block.c, block.b, block.a); }
    if (count == 3u) { return Block(block.c, block.b, block.a, block.a); }
    return count == 2u ? Block(block.b, block.a, block.a, block.a) : block;
}

// Whole rows come here rarely and read their elements again: the registers that would hold them decide how many work groups a core has.
#ifndef WHOLE_ROWS
Block blocks_of_run[4];
#endif

State run_state(uint first, uint end) {
    State state = EMPTY_STATE;
    for (uint i = 0u; i < 4u; ++i) {
        uint at = first + 4u * i;
        if (at < end) {
            uint count = min(4u, end - at);
            Block block = scanned_block(at, count);
#ifndef WHOLE_ROWS
            blocks_of_run[i] = block;
#endif
            state = with_element(state, block.a);
            if (count > 1u) { state = with_element(state, block.b); }
            if (count > 2u) { state = with_element(state, block.c); }
            if (count > 3u) { state = with_element(state, block.d); }
        }
    }
    return state;
}

uint output_offset(uint number) {
    return row_output + (IS_REVERSED ? parameters.row_length - 1u - number : number) * parameters.output_strides[0];
}

void store_at(uint offset, ELEMENT result) {
#ifdef WIDE
    offset = (parameters.base_output >> 1u) + offset;
    STORE_64(words_output, offset, result);
#else
    if (OUTPUT_WIDTH == 16u) {
        offset = (parameters.base_output << 1u) + offset;
        STORE_16(words_output, offset, result);
    } else {
        words_output[parameters.base_output + offset] = result;
    }
#endif
}

void store_element(uint number, ELEMENT result) { store_at(output_offset(number), result); }

// Four results of the scan's order, from number `first` on.
void store_four(uint first, Block results) {
    uint offset = row_output + first;
    if (IS_REVERSED) {
        offset = row_output + parameters.row_length - 4u - first;
        results = Block(results.d, results.c, results.b, results.a);
    }
#ifdef WIDE
    uint four = (parameters.base_output >> 2u) + (offset >> 1u);
    fours_output[four] = uvec4(results.a, results.b);
    fours_output[four + 1u] = uvec4(results.c, results.d);
#else
    if (OUTPUT_WIDTH == 16u) {
        uvec2 pair = uvec2(results.a | (results.b << 16), results.c | (results.d << 16));
        pairs_output[(parameters.base_output >> 1u) + (offset >> 2u)] = pair;
    } else {
        fours_output[(parameters.base_output + offset) >> 2u] = uvec4(results.a, results.b, results.c, results.d);
    }
#endif
}

ELEMENT next_result(inout State run, State before, ELEMENT x) {
    State others = run;
    run = with_element(run, x);
    if (IS_EXCLUSIVE) { return prefix_result_of(joined(before, others)); }
    return prefix_result_of(joined(before, run));
}

void store_run(uint first, uint end, State before) {
    State run = EMPTY_STATE;
    for (uint i = 0u; i < 4u; ++i) {
        uint at = first + 4u * i;
        if (at < end) {
            uint count = min(4u, end - at);
#ifdef WHOLE_ROWS
            Block block = scanned_block(at, count);
#else
            Block block = blocks_of_run[i];
#endif
            Block results;
            results.a = next_result(run, before, block.a);
            results.b = next_result(run, before, block.b);
            results.c = next_result(run, before, block.c);
            results.d = next_result(run, before, block.d);
            if (OUTPUT_HAS_BLOCKS && count == 4u) {
                store_four(at, results);
            } else {
                store_element(at, results.a);
                if (count > 1u) { store_element(at + 1u, results.b); }
                if (count > 2u) { store_element(at + 2u, results.c); }
                if (count > 3u) { store_element(at + 3u, results.d); }
            }
        }
    }
}
#endif

#ifdef WHOLE_ROWS
#include "rows/scan_rows.glsl"
#else
void main() {
    uint group = work_group_index();
    uint slot = index_in_group();
    uint lane = ROWS_ARE_NEIGHBOURS ? slot / CHUNKS_OF_GROUP : slot % LANES_OF_CHUNK;
    uint in_group = ROWS_ARE_NEIGHBOURS ? slot % CHUNKS_OF_GROUP : slot / LANES_OF_CHUNK;
    uint next_slot = ROWS_ARE_NEIGHBOURS ? CHUNKS_OF_GROUP : 1u;
    uint chunk_number = group * CHUNKS_OF_GROUP + in_group;
    bool is_chunk = lane < LANES_OF_CHUNK && in_group < CHUNKS_OF_GROUP && chunk_number < parameters.rows * parameters.chunks;
    chunk_number = is_chunk ? chunk_number : 0u;
    row_number = ROWS_ARE_NEIGHBOURS ? chunk_number % parameters.rows : chunk_number / parameters.chunks;
    uint chunk = ROWS_ARE_NEIGHBOURS ? chunk_number / parameters.rows : chunk_number % parameters.chunks;
    uint state_number = row_number * parameters.chunks + chunk;
#if !PARTIALS
    row_input = row_offset(row_number, true);
    row_output = row_offset(row_number, false);
#endif

    uint size = LANES_OF_CHUNK * ELEMENTS_OF_RUN;
    uint end = is_chunk ? min(chunk * size + size, parameters.row_length) : 0u;
    uint first = is_chunk ? chunk * size + lane * ELEMENTS_OF_RUN : 0u;
    State run = run_state(first, end);

    // Runs of a block, then blocks.
    State total = with_those_before(run, slot, lane % 16u, next_slot, LANES_OF_CHUNK);
    State before_run = EMPTY_STATE;
    if (lane % 16u != 0u) { before_run = shared_state(slot - next_slot); }
    State before_block = EMPTY_STATE;
    if (LANES_OF_CHUNK > 16u) {
        uint last_lane = min(lane | 15u, LANES_OF_CHUNK - 1u);
        State block_total = total;
        if (last_lane > lane) {
            uint last_slot = slot + (last_lane - lane) * next_slot;
            block_total = shared_state(min(last_slot, GROUP_SIZE - 1u));
        }
        total = with_those_before(block_total, slot, lane / 16u, 16u * next_slot, (LANES_OF_CHUNK + 15u) / 16u);
        if (lane >= 16u) { before_block = shared_state(slot - 16u * next_slot); }
    }

    if (!IS_LAST) {
        if (is_chunk && lane == LANES_OF_CHUNK - 1u) { store_state(state_number, total); }
        return;
    }
    if (first >= end) { return; }
    State before = EMPTY_STATE;
    if (HAS_CARRIES) { before = carried_state(state_number); }
    before = joined(joined(before, before_block), before_run);
#if PARTIALS
    store_state(row_number * parameters.row_length + first, before);
#else
    store_run(first, end, before);
#endif
}
#endif
