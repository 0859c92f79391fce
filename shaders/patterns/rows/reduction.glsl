// Reduces rows; included last by a file that has defined, beside what reduction_operands.glsl wants,
//   State, EMPTY_STATE                      what elements come to, and what none come to
//   with_block(state, block, first, count)  the state with up to four more elements, from number `first` of the row on
//   joined(a, b)                            what two states come to, of which b has the later elements
//   EACH_STATE_WORD(DO)                     DO(0) DO(1) … for every word of a state
//   EACH_USUAL_STATE_WORD(DO), EACH_SLOW_PATH_STATE_WORD(DO), HAS_SLOW_PATH_WORDS(slot)    optional: the words that every state has, those
//                                                                                          that are 0 in
//                                           most states, and whether one in shared memory has these
//   state_word_<n>(state)                   these words
//   state_of_words(words)                   the state of an array of them
//   HAS_ANY_ORDER                           optional: whether elements may be joined in any order
//   LOADS_NEXT_AHEAD                        optional: whether a GPU gains by loading four more blocks while four are joined, as it does where few
//                                           operations join them
//   QUICK_SUMS                              optional: whether there are quicker functions, for what may turn out to be right in the end:
//     QuickState, NO_QUICK_STATE, quick_with_block(state, block, count), quick_joined(a, b)    as above; of no elements nothing changes
//     begin_quick(), is_quick_right(), state_of_quick(state)    a quick state is a Double
//     QUICK_WORDS, EACH_QUICK_WORD(DO), quick_word_<n>(state), quick_state_of_words(words)    its words
//     quick_alone(state)                      what comes of joining it with none
//   begin_row()                             what is made of a row before its elements are gone through
//   result_of(state)                        the row's result; a uvec2 where it has 64 bits
//
// The order, and with it every bit, follows from the length of the row alone. In a chunk, block b of four neighbours belongs to
// lane b % LANES_OF_CHUNK: of lanes there are 1, 4, 16, 64 or 256, as many as it takes for 16 elements each. A lane joins its
// blocks in rising order, four at a time, and these groups in rising order; neighbouring lanes are joined four at a time, then
// these fours, and so on, all in rising order. States of chunks are elements of a row of states, one to a block's place, and
// joined in the same way. (All states' first words lie in front of all second ones: a work group reads neighbours.)
//
// An invocation goes through LANES_OF_INVOCATION lanes, with SEVERAL_LANES more than one: one on GPUs, where lanes are neighbours in memory; all on processors,
// which lose much by waiting for others; some where rows are neighbours in memory.
layout(constant_id = 12) const bool HAS_WHOLE_FOURS = false; // chunks are multiples of 16 elements, four blocks
layout(constant_id = 13) const uint GROUP_SIZE = 256u;       // invocations of a work group: more only where rows are neighbours

#include "joined_by_fours.glsl"

#define INVOCATIONS_OF_CHUNK (LANES_OF_CHUNK / LANES_OF_INVOCATION)
#define CHUNKS_OF_GROUP (GROUP_SIZE / INVOCATIONS_OF_CHUNK)

// shared_<n>: the words of the invocations' states.
#define SHARED_WORD(n) shared uint shared_##n[GROUP_SIZE];
EACH_STATE_WORD(SHARED_WORD)

#ifndef EACH_SLOW_PATH_STATE_WORD
#define EACH_USUAL_STATE_WORD(DO) EACH_STATE_WORD(DO)
#define EACH_SLOW_PATH_STATE_WORD(DO)
#define HAS_SLOW_PATH_WORDS(slot) false
#endif
#define NO_WORD(n) words[n] = 0u;
#define READ_SHARED(n) words[n] = shared_##n[slot];
#define WRITE_SHARED(n) shared_##n[slot] = state_word_##n(state);

State shared_state(uint slot) {
    uint words[STATE_WORDS];
    EACH_USUAL_STATE_WORD(READ_SHARED)
    EACH_SLOW_PATH_STATE_WORD(NO_WORD)
    if (HAS_SLOW_PATH_WORDS(slot)) {
        EACH_SLOW_PATH_STATE_WORD(READ_SHARED)
    }
    return state_of_words(words);
}

void share_state(uint slot, State state) {
    EACH_USUAL_STATE_WORD(WRITE_SHARED)
    if (HAS_SLOW_PATH_WORDS(slot)) {
        EACH_SLOW_PATH_STATE_WORD(WRITE_SHARED)
    }
}

#if PARTIALS
#define ELEMENTS_OF_STEP 1u
State state_at(uint first) {
    uint words[STATE_WORDS];
    uint offset = parameters.base_input + row_number * parameters.row_length + first;
    uint step = parameters.rows * parameters.row_length;
#define READ_STATE(n) words[n] = words_input[offset + uint(n) * step];
    EACH_STATE_WORD(READ_STATE)
    return state_of_words(words);
}
#define with_step(state, first) joined(state, state_at(first))
#else
#define ELEMENTS_OF_STEP 4u
#define with_step(state, first) with_block(state, load_block(first, min(4u, end - first)), first, min(4u, end - first))
#endif

#if SEVERAL_LANES && defined(HAS_ANY_ORDER) && !PARTIALS
// A tile of the chunk, as it lies in memory.
State lanes_state(uint lane, uint begin, uint end) {
    uint tile = ((end - begin) / 4u / INVOCATIONS_OF_CHUNK + 1u) * 4u;
    uint first = begin + lane / LANES_OF_INVOCATION * tile;
    uint stop = min(first + tile, end);
    State state = EMPTY_STATE;
    for (; first + 16u <= stop; first += 16u) {
        Block a = load_block(first, 4u);
        Block b = load_block(first + 4u, 4u);
        Block c = load_block(first + 8u, 4u);
        Block d = load_block(first + 12u, 4u);
        state = with_block(state, a, first, 4u);
        state = with_block(state, b, first + 4u, 4u);
        state = with_block(state, c, first + 8u, 4u);
        state = with_block(state, d, first + 12u, 4u);
    }
    for (; first < stop; first += 4u) {
        state = with_block(state, load_block(first, min(4u, stop - first)), first, min(4u, stop - first));
    }
    return state;
}
#else
// What the elements of a lane from `begin` to `end` of the row come to.
State lane_state(uint lane, uint begin, uint end) {
    const uint step = ELEMENTS_OF_STEP * LANES_OF_CHUNK;
    State state = EMPTY_STATE;
    for (uint first = begin + lane * ELEMENTS_OF_STEP; first < end; first += 4u * step) {
        State group = EMPTY_STATE;
#if LOADS_AHEAD && defined(LOADS_NEXT_AHEAD) && !PARTIALS
        if (first + 15u * step + ELEMENTS_OF_STEP <= end) {
            // A whole lane.
            Block blocks[4];
            [[unroll]] for (uint i = 0u; i < 4u; ++i) {
                blocks[i] = load_block(first + i * step, 4u);
            }
            [[unroll]] for (uint done = 0u; done < 16u; done += 4u) {
                Block next[4];
                if (done < 12u) {
                    [[unroll]] for (uint i = 0u; i < 4u; ++i) {
                        next[i] = load_block(first + (done + 4u + i) * step, 4u);
                    }
                }
                group = EMPTY_STATE;
                [[unroll]] for (uint i = 0u; i < 4u; ++i) {
                    group = with_block(group, blocks[i], first + (done + i) * step, 4u);
                }
                state = joined(state, group);
                if (done < 12u) { blocks = next; }
            }
            return state;
        }
#endif
#if LOADS_AHEAD
        // A GPU waits for memory once for four blocks that it has asked for, and four times where each is asked for after the last
        // one's sum.
        if (first + 3u * step + ELEMENTS_OF_STEP <= end) {
#if PARTIALS
            if (first + 15u * step < end) {
                // A whole lane's: there is but a work group for each row, and it waits for all of them once.
                State states[16];
                [[unroll]] for (uint i = 0u; i < 16u; ++i) {
                    states[i] = state_at(first + i * step);
                }
                [[unroll]] for (uint i = 0u; i < 16u; i += 4u) {
                    group = joined(joined(joined(joined(EMPTY_STATE, states[i]), states[i + 1u]), states[i + 2u]), states[i + 3u]);
                    state = joined(state, group);
                }
                return state;
            }
            State a = state_at(first);
            State b = state_at(first + step);
            State c = state_at(first + 2u * step);
            State d = state_at(first + 3u * step);
            group = joined(joined(joined(joined(group, a), b), c), d);
#else
            Block a = load_block(first, 4u);
            Block b = load_block(first + step, 4u);
            Block c = load_block(first + 2u * step, 4u);
            Block d = load_block(first + 3u * step, 4u);
            group = with_block(group, a, first, 4u);
            group = with_block(group, b, first + step, 4u);
            group = with_block(group, c, first + 2u * step, 4u);
            group = with_block(group, d, first + 3u * step, 4u);
#endif
            state = joined(state, group);
            continue;
        }
#endif
        for (uint i = 0u; i < 4u; ++i) {
            uint at = first + i * step;
            if (at < end) { group = with_step(group, at); }
        }
        state = joined(state, group);
    }
    return state;
}

// What neighbouring lanes come to. (An invocation that has one lane only is a shader of its own, for those drivers that compile what constants
// exclude.)
#if SEVERAL_LANES
State fours_state(uint lane, uint begin, uint end) {
    State state = EMPTY_STATE;
    for (uint i = 0u; i < 4u; ++i) { state = joined(state, lane_state(lane + i, begin, end)); }
    return state;
}
JOINED_BY_FOURS(lanes_state, LANES_OF_INVOCATION, State, EMPTY_STATE, fours_state, joined)
#else
#define lanes_state(lane, begin, end) lane_state(lane, begin, end)
#endif
#endif

#if defined(QUICK_SUMS) && PARTIALS && LOADS_AHEAD && !SEVERAL_LANES
#define HAS_QUICK_STATES
// The same of states that have nothing rare.
#define QUICK_STATE_AT(first) \
    quick_state_at(parameters.base_input + row_number * parameters.row_length + (first), parameters.rows * parameters.row_length)
QuickState quick_lanes_state(uint lane, uint begin, uint end) {
    const uint step = LANES_OF_CHUNK;
    QuickState state = NO_QUICK_STATE;
    uint first = begin + lane;
    if (first + 15u * step < end) {
        QuickState states[16];
        [[unroll]] for (uint i = 0u; i < 16u; ++i) {
            states[i] = QUICK_STATE_AT(first + i * step);
        }
        [[unroll]] for (uint i = 0u; i < 16u; i += 4u) {
            QuickState group = quick_joined(quick_joined(quick_joined(states[i], states[i + 1u]), states[i + 2u]), states[i + 3u]);
            state = quick_joined(state, group);
        }
        return state;
    }
    for (; first < end; first += 4u * step) {
        QuickState group = NO_QUICK_STATE;
        for (uint at = first; at < min(first + 4u * step, end); at += step) {
            group = quick_joined(group, QUICK_STATE_AT(at));
        }
        state = quick_joined(state, group);
    }
    return state;
}
#endif

#if defined(QUICK_SUMS) && !PARTIALS && !defined(JOINS_TILES)
#if SEVERAL_LANES
// Four lanes at once: their blocks are neighbours in memory. A chunk has whole fours of blocks, or counts what is there.
#define COUNT_FROM(at) (HAS_WHOLE_FOURS ? 4u : min(end - min(at, end), 4u))
#define BLOCK_FROM(at) load_block(HAS_WHOLE_FOURS || at < end ? at : begin, HAS_WHOLE_FOURS ? 4u : max(COUNT_FROM(at), 1u))
QuickState quick_fours_state(uint lane, uint begin, uint end) {
    const uint step = ELEMENTS_OF_STEP * LANES_OF_CHUNK;
    QuickState a = NO_QUICK_STATE;
    QuickState b = NO_QUICK_STATE;
    QuickState c = NO_QUICK_STATE;
    QuickState d = NO_QUICK_STATE;
    for (uint first = begin + lane * ELEMENTS_OF_STEP; first < end; first += 4u * step) {
        QuickState group_a = NO_QUICK_STATE;
        QuickState group_b = NO_QUICK_STATE;
        QuickState group_c = NO_QUICK_STATE;
        QuickState group_d = NO_QUICK_STATE;
        uint stop = min(first + 4u * step, end);
        for (uint at = first; at < stop; at += step) {
            Block block_a = BLOCK_FROM(at);
            Block block_b = BLOCK_FROM(at + 4u);
            Block block_c = BLOCK_FROM(at + 8u);
            Block block_d = BLOCK_FROM(at + 12u);
            group_a = quick_with_block(group_a, block_a, COUNT_FROM(at));
            group_b = quick_with_block(group_b, block_b, COUNT_FROM(at + 4u));
            group_c = quick_with_block(group_c, block_c, COUNT_FROM(at + 8u));
            group_d = quick_with_block(group_d, block_d, COUNT_FROM(at + 12u));
        }
        a = quick_joined(a, group_a);
        b = quick_joined(b, group_b);
        c = quick_joined(c, group_c);
        d = quick_joined(d, group_d);
    }
    return quick_joined(quick_joined(quick_joined(a, b), c), d);
}
JOINED_BY_FOURS(quick_lanes_state, LANES_OF_INVOCATION, QuickState, NO_QUICK_STATE, quick_fours_state, quick_joined)
#else
QuickState quick_lanes_state(uint lane, uint begin, uint end) {
    const uint step = ELEMENTS_OF_STEP * LANES_OF_CHUNK;
    QuickState state = NO_QUICK_STATE;
    for (uint first = begin + lane * ELEMENTS_OF_STEP; first < end; first += 4u * step) {
        QuickState group = NO_QUICK_STATE;
#if LOADS_AHEAD
        // A GPU waits for memory once for four blocks that it has asked for, and four times where each is asked for after the last
        // one's sum.
        if (first + 3u * step + ELEMENTS_OF_STEP <= end) {
            Block a = load_block(first, 4u);
            Block b = load_block(first + step, 4u);
            Block c = load_block(first + 2u * step, 4u);
            Block d = load_block(first + 3u * step, 4u);
            group = quick_with_block(group, a, 4u);
            group = quick_with_block(group, b, 4u);
            group = quick_with_block(group, c, 4u);
            group = quick_with_block(group, d, 4u);
            state = quick_joined(state, group);
            continue;
        }
#endif
        for (uint i = 0u; i < 4u; ++i) {
            uint at = first + i * step;
            if (at < end) {
                uint count = min(4u, end - at);
                group = quick_with_block(group, load_block(at, count), count);
            }
        }
        state = quick_joined(state, group);
    }
    return state;
}
#endif
#endif

#if defined(HAS_QUICK_STATES) || (defined(QUICK_SUMS) && !PARTIALS && !SEVERAL_LANES)
// Where invocations have one lane each.
#define HAS_QUICK_TREE
#define LANES_OF_TREE LANES_OF_CHUNK
#include "quick_tree.glsl"
#endif

#ifdef JOINS_TILES
// A chunk's tiles, which reduction_tiles.glsl has stored: they are the companion.
#include "rows/tile_states.glsl"
layout(constant_id = 15) const uint TILES = 1u; // of a chunk
bool are_tiles_right;
TileState tile_at(uint number) {
    uint offset = TILE_OFFSET(parameters.base_companion, number, row_number);
    uint step = TILE_STEP(TILES * parameters.chunks);
    uint words[TILE_WORDS];
#define READ_TILE(n) words[n] = words_companion[offset + uint(n) * step];
    EACH_TILE_WORD(READ_TILE)
#ifdef QUICK_SUMS
    are_tiles_right = are_tiles_right && words_companion[offset + TILE_WORDS * step] != 0u;
#endif
    return tile_of_words(words);
}
TileState fours_of_tiles(uint number, uint begin, uint end) {
    TileState tile = tile_at(number);
    for (uint i = 1u; i < 4u; ++i) { tile = tiles_joined(tile, tile_at(number + i)); }
    return tile;
}
JOINED_BY_FOURS(several_tiles, TILES, TileState, EMPTY_TILE, fours_of_tiles, tiles_joined)
TileState chunk_of_tiles(uint chunk, out bool are_right) {
    are_tiles_right = true;
    TileState tile = EMPTY_TILE;
    if (TILES == 1u) {
        tile = tile_at(chunk);
    } else {
        tile = several_tiles(chunk * TILES, 0u, 0u);
    }
    are_right = are_tiles_right;
    return tile;
}
#endif

#ifdef RESULT_IS_WIDE
#define RESULT uvec2
#else
#define RESULT uint
#endif
void store_result(uint offset, RESULT result) {
#ifdef RESULT_IS_WIDE
    if (OUTPUT_WIDTH == 64u) {
        offset = (parameters.base_output >> 1u) + offset;
        STORE_64(words_output, offset, result);
        return;
    }
    uint word = result.x;
#else
    uint word = result;
#endif
    if (OUTPUT_WIDTH == 8u) {
        offset = (parameters.base_output << 2u) + offset;
        STORE_8(words_output, offset, word);
    } else if (OUTPUT_WIDTH == 16u) {
        offset = (parameters.base_output << 1u) + offset;
        STORE_16(words_output, offset, word);
    } else {
        words_output[parameters.base_output + offset] = word;
    }
}

// The chunk of this invocation, among those of its work group, in the rows that are reduced.
struct Chunk {
    uint number; // in its row
    bool is_there;
};
Chunk begin_chunk(uint in_group) {
    uint number = work_group_index() * CHUNKS_OF_GROUP + in_group;
    bool is_there = number < parameters.rows * parameters.chunks;
    number = is_there ? number : 0u;
    row_number = ROWS_ARE_NEIGHBOURS ? number % parameters.rows : number / parameters.chunks;
    row_input = row_offset(row_number, true);
    begin_row();
    return Chunk(ROWS_ARE_NEIGHBOURS ? number / parameters.rows : number % parameters.chunks, is_there);
}

void finish(Chunk chunk, State state) {
    if (!chunk.is_there) { return; }
    if (IS_LAST) {
        store_result(row_offset(row_number, false), result_of(state));
    } else {
        uint offset = parameters.base_output + row_number * parameters.chunks + chunk.number;
        uint step = parameters.rows * parameters.chunks;
#define STORE_STATE(n) words_output[offset + uint(n) * step] = state_word_##n(state);
        EACH_STATE_WORD(STORE_STATE)
    }
}

void main() {
    uint slot = index_in_group();
    uint in_chunk = ROWS_ARE_NEIGHBOURS ? slot / CHUNKS_OF_GROUP : slot % INVOCATIONS_OF_CHUNK;
    Chunk chunk = begin_chunk(ROWS_ARE_NEIGHBOURS ? slot % CHUNKS_OF_GROUP : slot / INVOCATIONS_OF_CHUNK);

    // Those that are too many have no elements.
    uint begin = chunk.number * CHUNK;
    uint end = chunk.is_there ? min(begin + CHUNK, parameters.row_length) : begin;
#ifdef JOINS_TILES
    bool is_right = true;
    State state = state_of_tile(chunk_of_tiles(chunk.number, is_right));
#ifdef QUICK_SUMS
    if (!is_right) { state = lanes_state(0u, begin, end); }
#endif
#elif defined(HAS_QUICK_TREE)
    begin_quick();
    State state = EMPTY_STATE;
    QuickState quick = quick_lanes_state(in_chunk * LANES_OF_INVOCATION, begin, end);
    bool is_right = is_quick_right();
    if (!is_right) { quick = Double(uintBitsToFloat(NAN_F32), 0.0); }
    if (LANES_OF_CHUNK > 1u && !ROWS_ARE_NEIGHBOURS) {
        QuickState all = quick_tree(slot, quick);
        if (slot < CHUNKS_OF_GROUP && is_number(all)) { finish(begin_chunk(slot), state_of_quick(all)); }
        if (slot < CHUNKS_OF_GROUP) { shared_6[slot] = uint(is_number(all)); }
        barrier();
        uint are_right = 1u;
        for (uint i = 0u; i < CHUNKS_OF_GROUP; ++i) { are_right &= shared_6[i]; }
        if (are_right != 0u) { return; }
        barrier();
        begin_chunk(slot / INVOCATIONS_OF_CHUNK); // the lane's own again
    }
    state = state_of_quick(quick);
    if (!is_right) { state = lanes_state(in_chunk * LANES_OF_INVOCATION, begin, end); }
#elif defined(QUICK_SUMS) && !PARTIALS
    begin_quick();
    State state = state_of_quick(quick_lanes_state(in_chunk * LANES_OF_INVOCATION, begin, end));
    if (!is_quick_right()) { state = lanes_state(in_chunk * LANES_OF_INVOCATION, begin, end); }
#else
    State state = lanes_state(in_chunk * LANES_OF_INVOCATION, begin, end);
#endif

    if (INVOCATIONS_OF_CHUNK > 1u) {
        share_state(slot, state);
        for (uint distance = 1u; distance < INVOCATIONS_OF_CHUNK; distance *= 4u) {
            barrier();
            // Neighbours join what there is, so that few instructions are executed for many; in the end, one chunk's states each.
            if (slot < GROUP_SIZE / 4u / distance) {
                uint first = 4u * distance * slot;
                if (ROWS_ARE_NEIGHBOURS) {
                    first = 4u * distance * CHUNKS_OF_GROUP * (slot / CHUNKS_OF_GROUP) + slot % CHUNKS_OF_GROUP;
                }
                state = shared_state(first);
                for (uint i = 1u; i < 4u; ++i) {
                    state = joined(state, shared_state(first + i * distance * (ROWS_ARE_NEIGHBOURS ? CHUNKS_OF_GROUP : 1u)));
                }
                share_state(first, state);
            }
        }
        if (slot >= CHUNKS_OF_GROUP) { return; }
        chunk = begin_chunk(slot);
    }
    finish(chunk, state);
}
