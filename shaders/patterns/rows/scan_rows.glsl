// Prefixes of whole rows: a work group goes through all chunks of its row (or rows, where these are neighbours), and carries along what came
// before. Each element is read once. For GPUs; included by scan.glsl, whose order this is, with the same bits. A file that has it defines
//   QuickState, NO_QUICK_STATE, quick_joined(a, b), quick_word_0(state), quick_word_1(state), quick_state_of_words(a, b)
//                                               states of two words, for chunks without elements of the slow path
//   quick_with_element(state, x, seen)          the state with one more element; `seen` notes how rare it was
//   Seen, NOTHING_SEEN, is_quick_right(seen), quick_result_of(state), state_of_quick(state)
// From the first chunk that has a rare element on, a work group takes the states that hold everything.

// Quick states lie in the arrays of words that other states have, in one of three pairs.
shared uint has_slow_path;
#define SHARE_QUICK(pair, slot, state) \
    shared_##pair##_a[slot] = quick_word_0(state); \
    shared_##pair##_b[slot] = quick_word_1(state);
#define shared_0_a shared_0
#define shared_0_b shared_1
#define shared_1_a shared_2
#define shared_1_b shared_3
#define shared_2_a shared_4
#define shared_2_b shared_5
#define QUICK_AT(pair, slot) quick_state_of_words(shared_##pair##_a[slot], shared_##pair##_b[slot])

// Two rounds at once: what one has behind what those 1, 2 and 3 steps before it have, of those that there are.
#define QUICK_ROUNDS(name, pair) \
    QuickState name(QuickState state, uint slot, uint number, uint step) { \
        QuickState one = NO_QUICK_STATE; \
        QuickState two = NO_QUICK_STATE; \
        QuickState three = NO_QUICK_STATE; \
        if (number >= 1u) { one = QUICK_AT(pair, slot - step); } \
        if (number >= 2u) { two = QUICK_AT(pair, slot - 2u * step); } \
        if (number >= 3u) { three = QUICK_AT(pair, slot - 3u * step); } \
        return quick_joined(quick_joined(three, two), quick_joined(one, state)); \
    }
QUICK_ROUNDS(first_rounds, 0)
QUICK_ROUNDS(second_rounds, 1)
QUICK_ROUNDS(rounds_of_blocks, 2)
QUICK_ROUNDS(last_rounds_of_blocks, 1)
// What blocks up to number `block` come to.
QuickState sum_of_blocks(uint block, uint first_slot, uint next_slot) {
    uint slot = first_slot + 16u * block * next_slot;
    return last_rounds_of_blocks(QUICK_AT(1, slot), slot, block / 4u, 64u * next_slot);
}

// What chunks came to, of those before that the rounds ask for: the last 1, 2, 4 and 8. Behind them the same of 16 chunks, of which there are four at
// most: the last 1 and 2. For each of the work group's rows: where there are several and these are no neighbours, each is one chunk.
const uint CHUNK_ROWS = ROWS_ARE_NEIGHBOURS ? GROUP_SIZE / 16u : 1u;
#define OF_SIXTEENS 15u
#define SHARED_HISTORY(n) shared uint history_##n[18u * CHUNK_ROWS];
EACH_STATE_WORD(SHARED_HISTORY)
#define SHARED_CARRY(n) shared uint carry_##n[2u * CHUNK_ROWS];
EACH_STATE_WORD(SHARED_CARRY)

State with_history(State state, uint number, uint first_kept, uint most, uint row) {
    for (uint distance = 1u; distance < most; distance *= 2u) {
        uint at = (first_kept + distance - 1u + number % distance) * CHUNK_ROWS + row;
        uint words[STATE_WORDS];
#define READ_HISTORY(n) words[n] = history_##n[at];
        EACH_STATE_WORD(READ_HISTORY)
#define WRITE_HISTORY(n) history_##n[at] = state_word_##n(state);
        EACH_STATE_WORD(WRITE_HISTORY)
        if (number >= distance) { state = joined(state_of_words(words), state); }
    }
    return state;
}

// Notes what a chunk of a row came to, and so what comes before the next one.
State before_sixteens;
void note_total(uint chunk, uint row, State total) {
    State state = with_history(total, chunk % 16u, 0u, 16u, row);
    if (chunk % 16u == 15u) {
        before_sixteens = with_history(state, chunk / 16u, OF_SIXTEENS, 4u, row);
        state = EMPTY_STATE;
    }
    state = joined(before_sixteens, state);
    uint at = ((chunk + 1u) & 1u) * CHUNK_ROWS + row;
#define WRITE_CARRY(n) carry_##n[at] = state_word_##n(state);
    EACH_STATE_WORD(WRITE_CARRY)
}
QuickState quick_with_history(QuickState state, uint number, uint first_kept, uint most, uint row) {
    for (uint distance = 1u; distance < most; distance *= 2u) {
        uint at = (first_kept + distance - 1u + number % distance) * CHUNK_ROWS + row;
        QuickState earlier = quick_state_of_words(history_0[at], history_1[at]);
        history_0[at] = quick_word_0(state);
        history_1[at] = quick_word_1(state);
        if (number >= distance) { state = quick_joined(earlier, state); }
    }
    return state;
}
QuickState quick_carry_of(uint chunk, uint row) {
    uint at = (chunk & 1u) * CHUNK_ROWS + row;
    return quick_state_of_words(carry_0[at], carry_1[at]);
}
QuickState quick_before_sixteens;
void note_quick_total(uint chunk, uint row, QuickState total) {
    QuickState state = quick_with_history(total, chunk % 16u, 0u, 16u, row);
    if (chunk % 16u == 15u) {
        quick_before_sixteens = quick_with_history(state, chunk / 16u, OF_SIXTEENS, 4u, row);
        state = NO_QUICK_STATE;
    }
    state = quick_joined(quick_before_sixteens, state);
    uint at = ((chunk + 1u) & 1u) * CHUNK_ROWS + row;
    carry_0[at] = quick_word_0(state);
    carry_1[at] = quick_word_1(state);
}

State carry_of(uint chunk, uint row) {
    if (chunk == 0u) { return EMPTY_STATE; }
    uint at = (chunk & 1u) * CHUNK_ROWS + row;
    uint words[STATE_WORDS];
#define READ_CARRY(n) words[n] = carry_##n[at];
    EACH_STATE_WORD(READ_CARRY)
    return state_of_words(words);
}

// Where an invocation is.
struct Position {
    uint slot, lane;
    uint row; // in the work group
    uint next_slot; // how far apart the slots of neighbouring lanes are
    bool is_row;
};

// A lane behind others: the last one of its block, at most the last one there is.
uint last_lane_of_block(Position position) { return min(position.lane | 15u, LANES_OF_CHUNK - 1u); }
uint last_slot_of_block(Position position) {
    return min(position.slot + (last_lane_of_block(position) - position.lane) * position.next_slot, GROUP_SIZE - 1u);
}

// Rows that are no neighbours go through shared memory, where there is room: so neighbouring invocations read and write neighbouring fours, and no
// registers hold elements while others' sums are awaited. Fours are moved so that both ways through them meet all banks.
layout(constant_id = 17) const bool HAS_TILE = false;
shared uvec4 tile[HAS_TILE ? 4u * GROUP_SIZE : 1u];
#define TILE_AT(number) tile[(number) ^ (((number) >> 3u) & 3u)]

// What an invocation loads at once: its run's elements, or of a tile every so many fours; zeros where there are none.
struct Fours {
    uvec4 fours[4];
};
uint index_in_tile(Position position, uint i) {
    return position.is_row ? 4u * (position.slot - position.lane) + i * LANES_OF_CHUNK + position.lane : 4u * position.slot + i;
}
uint first_of_four(Position position, uint chunk, uint i) {
    uint four = HAS_TILE ? i * LANES_OF_CHUNK + position.lane : 4u * position.lane + i;
    return chunk * LANES_OF_CHUNK * ELEMENTS_OF_RUN + 4u * four;
}
Fours loaded_fours(Position position, uint chunk, uint end) {
    Fours run;
    if (first_of_four(position, chunk, 3u) + 4u <= end) {
        uint step = IS_REVERSED ? 0u - parameters.input_strides[0] : parameters.input_strides[0];
        [[unroll]] for (uint i = 0u; i < 4u; ++i) {
            uint first = first_of_four(position, chunk, i);
            if (HAS_BLOCKS) {
                Block block = scanned_block(first, 4u);
                run.fours[i] = uvec4(block.a, block.b, block.c, block.d);
            } else {
                uint element = element_offset(IS_REVERSED ? parameters.row_length - 1u - first : first);
                [[unroll]] for (uint j = 0u; j < 4u; ++j) {
                    run.fours[i][j] = load_element(element);
                    element += step;
                }
            }
        }
        return run;
    }
    [[unroll]] for (uint i = 0u; i < 4u; ++i) {
        uint at = first_of_four(position, chunk, i);
        run.fours[i] = uvec4(0u);
        if (at < end) {
            uint count = min(4u, end - at);
            Block block = scanned_block(at, count);
            run.fours[i] = uvec4(block.a, count > 1u ? block.b : 0u, count > 2u ? block.c : 0u, count > 3u ? block.d : 0u);
        }
    }
    return run;
}

void store_quickly(uint at, uint end, uvec4 results) {
    uint position = output_offset(at);
    uint step = IS_REVERSED ? 0u - parameters.output_strides[0] : parameters.output_strides[0];
    if (at + 4u <= end) {
        if (OUTPUT_HAS_BLOCKS) {
            store_four(at, Block(results.x, results.y, results.z, results.w));
            return;
        }
        store_at(position, results.x);
        store_at(position + step, results.y);
        store_at(position + 2u * step, results.z);
        store_at(position + 3u * step, results.w);
        return;
    }
    [[unroll]] for (uint i = 0u; i < 4u; ++i) {
        if (at + i < end) { store_at(position + i * step, results[i]); }
    }
}

// Whether a chunk had no elements of the slow path; else nothing has been stored. Sums are made twice, as holding them takes registers, and
// with these work groups that a core runs at once: columns of 8192 elements have 512 of them, of which an H100 runs 528 at once, or 396.
// Between writing to a pair of shared words and reading others' of it is one barrier, and between reading it and writing to it anew is
// another.
bool is_done_quickly(Position position, uint chunk, Fours loaded, uint end) {
    if (HAS_TILE) {
        [[unroll]] for (uint i = 0u; i < 4u; ++i) {
            TILE_AT(index_in_tile(position, i)) = loaded.fours[i];
        }
        barrier();
    }
#define FOUR_OF_RUN(i) (HAS_TILE ? TILE_AT(4u * position.slot + (i)) : loaded.fours[i])
    QuickState run = NO_QUICK_STATE;
    Seen seen = NOTHING_SEEN;
    [[unroll]] for (uint i = 0u; i < 4u; ++i) {
        uvec4 four = FOUR_OF_RUN(i);
        [[unroll]] for (uint j = 0u; j < 4u; ++j) {
            run = quick_with_element(run, four[j], seen);
        }
    }
    if (!is_quick_right(seen)) { has_slow_path = 1u; }
    // Runs of a block: what the run before and those before it come to. The block's first lane finds what the whole block comes to.
    bool is_followed = chunk + 1u < parameters.chunks;
    uint number = position.lane % 16u;
    SHARE_QUICK(0, position.slot, run)
    barrier();
    if (has_slow_path != 0u) { return false; }
    QuickState of_four = run;
    if (LANES_OF_CHUNK > 1u) { of_four = first_rounds(run, position.slot, number, position.next_slot); }
    SHARE_QUICK(1, position.slot, of_four)
    barrier();
    uint last = last_lane_of_block(position) - (position.lane - number);
    uint previous = number == 0u ? last : number - 1u;
    uint previous_slot = min(position.slot + previous * position.next_slot - number * position.next_slot, GROUP_SIZE - 1u);
    QuickState before_run = second_rounds(QUICK_AT(1, previous_slot), previous_slot, previous / 4u, 4u * position.next_slot);
    QuickState of_chunk = before_run; // in the first lane
    if (number == 0u) { before_run = NO_QUICK_STATE; }
    QuickState before_block = NO_QUICK_STATE;
    if (LANES_OF_CHUNK > 16u) {
        uint block = position.lane / 16u;
        uint first_of_chunk = position.slot - position.lane * position.next_slot;
        if (number == 0u) {
            SHARE_QUICK(2, position.slot, of_chunk)
        }
        barrier();
        if (number == 0u) {
            QuickState of_blocks = rounds_of_blocks(of_chunk, position.slot, block, 16u * position.next_slot);
            SHARE_QUICK(1, position.slot, of_blocks)
        }
        barrier();
        if (block != 0u) { before_block = sum_of_blocks(block - 1u, first_of_chunk, position.next_slot); }
        if (is_followed && position.lane == 0u) { of_chunk = sum_of_blocks(15u, first_of_chunk, position.next_slot); }
    }
    QuickState before = NO_QUICK_STATE;
    if (chunk != 0u) { before = quick_carry_of(chunk, position.row); }
    before = quick_joined(quick_joined(before, before_block), before_run);
    if (is_followed && position.lane == 0u) { note_quick_total(chunk, position.row, of_chunk); }
    run = NO_QUICK_STATE;
    [[unroll]] for (uint i = 0u; i < 4u; ++i) {
        uvec4 four = FOUR_OF_RUN(i);
        uvec4 results;
        [[unroll]] for (uint j = 0u; j < 4u; ++j) {
            QuickState others = run;
            run = quick_with_element(run, four[j], seen);
            results[j] = quick_result_of(quick_joined(before, IS_EXCLUSIVE ? others : run));
        }
        if (HAS_TILE) {
            TILE_AT(4u * position.slot + i) = results;
        } else {
            store_quickly(first_of_four(position, chunk, i), end, results);
        }
    }
    if (HAS_TILE) {
        barrier();
        [[unroll]] for (uint i = 0u; i < 4u; ++i) { // which no other invocation writes for the next chunk
            store_quickly(first_of_four(position, chunk, i), end, TILE_AT(index_in_tile(position, i)));
        }
    }
    return true;
}

// What is carried and was kept of quick states becomes that of others.
void begin_carefully(uint slot) {
    barrier();
    before_sixteens = state_of_quick(quick_before_sixteens);
    for (uint at = slot; at < 18u * CHUNK_ROWS; at += GROUP_SIZE) {
        State state = state_of_quick(quick_state_of_words(history_0[at], history_1[at]));
        EACH_STATE_WORD(WRITE_HISTORY)
    }
    if (slot < 2u * CHUNK_ROWS) {
        uint at = slot;
        State state = state_of_quick(quick_state_of_words(carry_0[at], carry_1[at]));
        EACH_STATE_WORD(WRITE_CARRY)
    }
    barrier();
}

void do_carefully(Position position, uint chunk, uint first, uint end) {
    State run = run_state(first, end);
    with_those_before(run, position.slot, position.lane % 16u, position.next_slot, LANES_OF_CHUNK);
    State before_run = EMPTY_STATE;
    if (position.lane % 16u != 0u) { before_run = shared_state(position.slot - position.next_slot); }
    State before_block = EMPTY_STATE;
    if (LANES_OF_CHUNK > 16u) {
        State block_total = shared_state(last_slot_of_block(position));
        with_those_before(block_total, position.slot, position.lane / 16u, 16u * position.next_slot, (LANES_OF_CHUNK + 15u) / 16u);
        if (position.lane >= 16u) { before_block = shared_state(position.slot - 16u * position.next_slot); }
    }
    if (chunk + 1u < parameters.chunks && position.lane == 0u) {
        note_total(chunk, position.row, shared_state(position.slot + (LANES_OF_CHUNK - 1u) * position.next_slot));
    }
    store_run(first, end, joined(joined(carry_of(chunk, position.row), before_block), before_run));
}

void main() {
    Position position;
    position.slot = index_in_group();
    position.lane = ROWS_ARE_NEIGHBOURS ? position.slot / CHUNKS_OF_GROUP : position.slot % LANES_OF_CHUNK;
    position.row = ROWS_ARE_NEIGHBOURS ? position.slot % CHUNKS_OF_GROUP : position.slot / LANES_OF_CHUNK;
    position.next_slot = ROWS_ARE_NEIGHBOURS ? CHUNKS_OF_GROUP : 1u;
    row_number = work_group_index() * CHUNKS_OF_GROUP + position.row;
    position.is_row = position.lane < LANES_OF_CHUNK && position.row < CHUNKS_OF_GROUP && row_number < parameters.rows;
    row_number = position.is_row ? row_number : 0u;
    row_input = row_offset(row_number, true);
    row_output = row_offset(row_number, false);
    quick_before_sixteens = NO_QUICK_STATE;
    has_slow_path = 0u;
    barrier();
    const uint size = LANES_OF_CHUNK * ELEMENTS_OF_RUN;
    bool is_quick = true;
    for (uint chunk = 0u; chunk < parameters.chunks; ++chunk) {
        uint end = position.is_row ? min(chunk * size + size, parameters.row_length) : 0u;
        uint first = position.is_row ? chunk * size + position.lane * ELEMENTS_OF_RUN : 0u;
        if (is_quick) {
            is_quick = is_done_quickly(position, chunk, loaded_fours(position, chunk, end), end);
            if (!is_quick) { begin_carefully(position.slot); }
        }
        if (!is_quick) {
            do_carefully(position, chunk, first, end);
            barrier(); // what is carried is known, and what was shared has been read
        }
    }
}
