// Prefixes of whole rows: a work group goes through all chunks of its row (or rows, where these are neighbours), and carries along what came
// before. Each element is read once. For GPUs; included by scan.glsl, whose order this is, with the same bits. A file that has it defines
//   QuickState, NO_QUICK_STATE, quick_joined(a, b), quick_word_0(state), quick_word_1(state), quick_state_of_words(a, b)
//                                               states of two words, for chunks without rare elements
//   quick_with_element(state, x, farthest)      the state with one more element; `farthest` notes how rare it was
//   is_quick_right(farthest), quick_result_of(state), state_of_quick(state), quick_of_state(state)
// From the first chunk that has a rare element on, a work group takes the states that hold everything.

// Quick states lie in the arrays of words that other states have, two turns of them, so that one wait is enough between them.
shared uint has_rare;
uint turn;
void share_quick(uint slot, QuickState state)
{
    if (turn == 0u) {
        shared_0[slot] = quick_word_0(state);
        shared_1[slot] = quick_word_1(state);
    } else {
        shared_2[slot] = quick_word_0(state);
        shared_3[slot] = quick_word_1(state);
    }
}
QuickState shared_quick(uint slot)
{
    if (turn == 0u) {
        return quick_state_of_words(shared_0[slot], shared_1[slot]);
    }
    return quick_state_of_words(shared_2[slot], shared_3[slot]);
}
QuickState quick_with_those_before(QuickState state, uint slot, uint number, uint step, uint most)
{
    turn ^= 1u;
    share_quick(slot, state);
    barrier();
    [[unroll]] for (uint distance = 1u; distance < 16u; distance *= 2u) {
        if (distance < most) {
            if (number >= distance) {
                state = quick_joined(shared_quick(slot - distance * step), state);
            }
            turn ^= 1u;
            share_quick(slot, state);
            barrier();
        }
    }
    return state;
}

// What chunks came to, of those before that the rounds ask for: the last 1, 2, 4 and 8. Behind them the same of 16 chunks, of which there are four at
// most: the last 1 and 2. For each of up to 16 rows.
#define CHUNK_ROWS 16u
#define OF_SIXTEENS 15u
#define SHARED_HISTORY(n) shared uint history_##n[18 * 16];
EACH_STATE_WORD(SHARED_HISTORY)
#define SHARED_CARRY(n) shared uint carry_##n[2 * 16];
EACH_STATE_WORD(SHARED_CARRY)

State with_history(State state, uint number, uint first_kept, uint most, uint row)
{
    for (uint distance = 1u; distance < most; distance *= 2u) {
        uint at = (first_kept + distance - 1u + number % distance) * CHUNK_ROWS + row;
        uint words[STATE_WORDS];
#define READ_HISTORY(n) words[n] = history_##n[at];
        EACH_STATE_WORD(READ_HISTORY)
#define WRITE_HISTORY(n) history_##n[at] = state_word_##n(state);
        EACH_STATE_WORD(WRITE_HISTORY)
        if (number >= distance) {
            state = joined(state_of_words(words), state);
        }
    }
    return state;
}

// Notes what a chunk of a row came to, and so what comes before the next one.
State before_sixteens;
void note_total(uint chunk, uint row, State total)
{
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
State carry_of(uint chunk, uint row)
{
    if (chunk == 0u) {
        return EMPTY_STATE;
    }
    uint at = (chunk & 1u) * CHUNK_ROWS + row;
    uint words[STATE_WORDS];
#define READ_CARRY(n) words[n] = carry_##n[at];
    EACH_STATE_WORD(READ_CARRY)
    return state_of_words(words);
}

// Where an invocation is.
struct Place {
    uint slot;
    uint lane;
    uint row; // in the work group
    uint next_slot; // how far apart the slots of neighbouring lanes are
    bool is_row;
};

// A lane behind others: the last one of its block, at most the last one there is.
uint last_slot_of_block(Place place)
{
    uint last_lane = min(place.lane | 15u, LANES_OF_CHUNK - 1u);
    return min(place.slot + (last_lane - place.lane) * place.next_slot, 255u);
}

// Whether a chunk had no rare elements; else nothing has been stored.
bool is_done_quickly(Place place, uint chunk, uint first, uint end)
{
    uvec4 fours[4];
    [[unroll]] for (uint i = 0u; i < 4u; ++i) {
        uint at = first + 4u * i;
        fours[i] = uvec4(0u);
        if (at < end) {
            uint count = min(4u, end - at);
            Block block = scanned_block(at, count);
            fours[i] = uvec4(block.a, count > 1u ? block.b : 0u, count > 2u ? block.c : 0u, count > 3u ? block.d : 0u);
        }
    }
    QuickState states[16];
    QuickState run = NO_QUICK_STATE;
    uint farthest = 0u;
    [[unroll]] for (uint i = 0u; i < 16u; ++i) {
        run = quick_with_element(run, fours[i / 4u][i % 4u], farthest);
        states[i] = run;
    }
    if (!is_quick_right(farthest)) {
        has_rare = 1u;
    }
    // Runs of a block, then blocks.
    QuickState total = quick_with_those_before(run, place.slot, place.lane % 16u, place.next_slot, LANES_OF_CHUNK);
    if (has_rare != 0u) {
        return false;
    }
    QuickState before_run = NO_QUICK_STATE;
    if (place.lane % 16u != 0u) {
        before_run = shared_quick(place.slot - place.next_slot);
    }
    QuickState before_block = NO_QUICK_STATE;
    if (LANES_OF_CHUNK > 16u) {
        QuickState block_total = shared_quick(last_slot_of_block(place));
        quick_with_those_before(block_total, place.slot, place.lane / 16u, 16u * place.next_slot, (LANES_OF_CHUNK + 15u) / 16u);
        if (place.lane >= 16u) {
            before_block = shared_quick(place.slot - 16u * place.next_slot);
        }
    }
    if (chunk + 1u < parameters.chunks && place.lane == 0u) {
        note_total(chunk, place.row, state_of_quick(shared_quick(place.slot + (LANES_OF_CHUNK - 1u) * place.next_slot)));
    }
    QuickState before = quick_of_state(carry_of(chunk, place.row));
    before = quick_joined(quick_joined(before, before_block), before_run);
    [[unroll]] for (uint i = 0u; i < 4u; ++i) {
        uint at = first + 4u * i;
        uvec4 results;
        [[unroll]] for (uint j = 0u; j < 4u; ++j) {
            QuickState own = states[4u * i + j];
            if (IS_EXCLUSIVE) {
                own = NO_QUICK_STATE;
                if (4u * i + j > 0u) {
                    own = states[4u * i + j - 1u];
                }
            }
            results[j] = quick_result_of(quick_joined(before, own));
        }
        if (at < end) {
            uint count = min(4u, end - at);
            if (OUTPUT_HAS_BLOCKS && count == 4u) {
                store_four(at, Block(results.x, results.y, results.z, results.w));
            } else {
                store_element(at, results.x);
                if (count > 1u) {
                    store_element(at + 1u, results.y);
                }
                if (count > 2u) {
                    store_element(at + 2u, results.z);
                }
                if (count > 3u) {
                    store_element(at + 3u, results.w);
                }
            }
        }
    }
    return true;
}

void do_carefully(Place place, uint chunk, uint first, uint end)
{
    State run = run_state(first, end);
    with_those_before(run, place.slot, place.lane % 16u, place.next_slot, LANES_OF_CHUNK);
    State before_run = EMPTY_STATE;
    if (place.lane % 16u != 0u) {
        before_run = shared_state(place.slot - place.next_slot);
    }
    State before_block = EMPTY_STATE;
    if (LANES_OF_CHUNK > 16u) {
        State block_total = shared_state(last_slot_of_block(place));
        with_those_before(block_total, place.slot, place.lane / 16u, 16u * place.next_slot, (LANES_OF_CHUNK + 15u) / 16u);
        if (place.lane >= 16u) {
            before_block = shared_state(place.slot - 16u * place.next_slot);
        }
    }
    if (chunk + 1u < parameters.chunks && place.lane == 0u) {
        note_total(chunk, place.row, shared_state(place.slot + (LANES_OF_CHUNK - 1u) * place.next_slot));
    }
    store_run(first, end, joined(joined(carry_of(chunk, place.row), before_block), before_run));
}

void main()
{
    Place place;
    place.slot = index_in_group();
    place.lane = ROWS_ARE_NEIGHBOURS ? place.slot / CHUNKS_OF_GROUP : place.slot % LANES_OF_CHUNK;
    place.row = ROWS_ARE_NEIGHBOURS ? place.slot % CHUNKS_OF_GROUP : place.slot / LANES_OF_CHUNK;
    place.next_slot = ROWS_ARE_NEIGHBOURS ? CHUNKS_OF_GROUP : 1u;
    row_number = work_group_index() * CHUNKS_OF_GROUP + place.row;
    place.is_row = place.lane < LANES_OF_CHUNK && place.row < CHUNKS_OF_GROUP && row_number < parameters.rows;
    row_number = place.is_row ? row_number : 0u;
    row_input = row_place(row_number, true);
    row_output = row_place(row_number, false);
    before_sixteens = EMPTY_STATE;
    turn = 0u;
    has_rare = 0u;
    barrier();
    const uint size = LANES_OF_CHUNK * ELEMENTS_OF_RUN;
    bool is_quick = true;
    for (uint chunk = 0u; chunk < parameters.chunks; ++chunk) {
        uint end = place.is_row ? min(chunk * size + size, parameters.row_length) : 0u;
        uint first = place.is_row ? chunk * size + place.lane * ELEMENTS_OF_RUN : 0u;
        if (is_quick) {
            is_quick = is_done_quickly(place, chunk, first, end);
        }
        if (!is_quick) {
            do_carefully(place, chunk, first, end);
        }
        barrier(); // what is carried is known, and what was shared has been read
    }
}
