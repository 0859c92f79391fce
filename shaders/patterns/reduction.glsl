// Reduces rows; included last by a file that has defined, beside what reduction_operands.glsl wants,
//   State, EMPTY_STATE                      what elements come to, and what none come to
//   with_block(state, block, first, count)  the state with up to four more elements, from number `first` of the row on
//   joined(a, b)                            what two states come to, of which b has the later elements
//   EACH_STATE_WORD(DO)                     DO(0) DO(1) … for every word of a state
//   state_word_<n>(state)                   these words
//   state_of_words(words)                   the state of an array of them
//   begin_row()                             what is made of a row before its elements are gone through
//   result_of(state)                        the row's result; a uvec2 where it has 64 bits
//
// The order, and with it every bit, follows from the length of the row alone. In a chunk, block b of four neighbours belongs to
// lane b % LANES_OF_CHUNK: of lanes there are 1, 4, 16, 64 or 256, as many as it takes for 16 elements each. A lane joins its
// blocks in rising order, four at a time, and these groups in rising order; neighbouring lanes are joined four at a time, then
// these fours, and so on, all in rising order. States of chunks are elements of a row of states, one to a block's place, and
// joined in the same way.
//
// An invocation goes through LANES_OF_INVOCATION lanes, with SEVERAL_LANES more than one: one on GPUs, where lanes are neighbours in memory; all on processors,
// which lose much by waiting for others; some where rows are neighbours in memory.
#define INVOCATIONS_OF_CHUNK (LANES_OF_CHUNK / LANES_OF_INVOCATION)
#define CHUNKS_OF_GROUP (256u / INVOCATIONS_OF_CHUNK)

// shared_<n>: the words of the invocations' states.
#define SHARED_WORD(n) shared uint shared_##n[256];
EACH_STATE_WORD(SHARED_WORD)

State shared_state(uint slot)
{
    uint words[STATE_WORDS];
#define READ_SHARED(n) words[n] = shared_##n[slot];
    EACH_STATE_WORD(READ_SHARED)
    return state_of_words(words);
}

void share_state(uint slot, State state)
{
#define WRITE_SHARED(n) shared_##n[slot] = state_word_##n(state);
    EACH_STATE_WORD(WRITE_SHARED)
}

#if PARTIALS
#define ELEMENTS_OF_STEP 1u
State with_step(State state, uint first)
{
    uint words[STATE_WORDS];
    uint place = parameters.base_input + (row_number * parameters.row_length + first) * STATE_WORDS;
#define READ_STATE(n) words[n] = words_input[place + uint(n)];
    EACH_STATE_WORD(READ_STATE)
    return joined(state, state_of_words(words));
}
#else
#define ELEMENTS_OF_STEP 4u
#define with_step(state, first) with_block(state, load_block(first, min(4u, end - first)), first, min(4u, end - first))
#endif

// What the elements of a lane from `begin` to `end` of the row come to.
State lane_state(uint lane, uint begin, uint end)
{
    const uint step = ELEMENTS_OF_STEP * LANES_OF_CHUNK;
    State state = EMPTY_STATE;
    for (uint first = begin + lane * ELEMENTS_OF_STEP; first < end; first += 4u * step) {
        State group = EMPTY_STATE;
#if LOADS_AHEAD
        // A GPU waits for memory once for four blocks that it has asked for, and four times where each is asked for after the last
        // one's sum.
        if (first + 3u * step + ELEMENTS_OF_STEP <= end) {
            Block a = load_block(first, 4u);
            Block b = load_block(first + step, 4u);
            Block c = load_block(first + 2u * step, 4u);
            Block d = load_block(first + 3u * step, 4u);
            group = with_block(group, a, first, 4u);
            group = with_block(group, b, first + step, 4u);
            group = with_block(group, c, first + 2u * step, 4u);
            group = with_block(group, d, first + 3u * step, 4u);
            state = joined(state, group);
            continue;
        }
#endif
        for (uint i = 0u; i < 4u; ++i) {
            uint at = first + i * step;
            if (at < end) {
                group = with_step(group, at);
            }
        }
        state = joined(state, group);
    }
    return state;
}

// What neighbouring lanes come to, joined four at a time. (An invocation that has one lane only is a shader of its own, for those drivers
// that compile what constants exclude.)
#if SEVERAL_LANES
State lanes_state(uint lane, uint begin, uint end)
{
    State fours = EMPTY_STATE;
    State sixteens = EMPTY_STATE;
    State sixty_fours = EMPTY_STATE;
    State all = EMPTY_STATE;
    for (uint i = 1u; i <= LANES_OF_INVOCATION; ++i) {
        fours = joined(fours, lane_state(lane + i - 1u, begin, end));
        if ((i & 3u) == 0u) {
            sixteens = joined(sixteens, fours);
            fours = EMPTY_STATE;
        }
        if ((i & 15u) == 0u) {
            sixty_fours = joined(sixty_fours, sixteens);
            sixteens = EMPTY_STATE;
        }
        if ((i & 63u) == 0u) {
            all = joined(all, sixty_fours);
            sixty_fours = EMPTY_STATE;
        }
    }
    if (LANES_OF_INVOCATION == 4u) {
        return sixteens;
    }
    if (LANES_OF_INVOCATION == 16u) {
        return sixty_fours;
    }
    return all;
}
#else
#define lanes_state(lane, begin, end) lane_state(lane, begin, end)
#endif

#ifdef RESULT_IS_WIDE
#define RESULT uvec2
#else
#define RESULT uint
#endif
void store_result(uint place, RESULT result)
{
#ifdef RESULT_IS_WIDE
    if (OUTPUT_WIDTH == 64u) {
        place = (parameters.base_output >> 1u) + place;
        STORE_64(words_output, place, result);
        return;
    }
    uint word = result.x;
#else
    uint word = result;
#endif
    if (OUTPUT_WIDTH == 8u) {
        place = (parameters.base_output << 2u) + place;
        STORE_8(words_output, place, word);
    } else if (OUTPUT_WIDTH == 16u) {
        place = (parameters.base_output << 1u) + place;
        STORE_16(words_output, place, word);
    } else {
        words_output[parameters.base_output + place] = word;
    }
}

void main()
{
    uint group = work_group_index();
    uint slot = index_in_group();
    uint in_chunk = ROWS_ARE_NEIGHBOURS ? slot / CHUNKS_OF_GROUP : slot % INVOCATIONS_OF_CHUNK;
    uint in_group = ROWS_ARE_NEIGHBOURS ? slot % CHUNKS_OF_GROUP : slot / INVOCATIONS_OF_CHUNK;
    uint next_slot = ROWS_ARE_NEIGHBOURS ? CHUNKS_OF_GROUP : 1u;
    uint chunk_number = group * CHUNKS_OF_GROUP + in_group;
    bool is_chunk = chunk_number < parameters.rows * parameters.chunks;
    chunk_number = is_chunk ? chunk_number : 0u;
    row_number = ROWS_ARE_NEIGHBOURS ? chunk_number % parameters.rows : chunk_number / parameters.chunks;
    uint chunk = ROWS_ARE_NEIGHBOURS ? chunk_number / parameters.rows : chunk_number % parameters.chunks;
    row_input = row_place(row_number, true);
    begin_row();

    // Those that are too many have no elements.
    uint begin = chunk * CHUNK;
    uint end = is_chunk ? min(begin + CHUNK, parameters.row_length) : begin;
    State state = lanes_state(in_chunk * LANES_OF_INVOCATION, begin, end);

    if (INVOCATIONS_OF_CHUNK > 1u) {
        share_state(slot, state);
        for (uint distance = 1u; distance < INVOCATIONS_OF_CHUNK; distance *= 4u) {
            barrier();
            if (in_chunk % (4u * distance) == 0u) {
                for (uint i = 1u; i < 4u; ++i) {
                    state = joined(state, shared_state(slot + i * distance * next_slot));
                }
                share_state(slot, state);
            }
        }
    }
    if (!is_chunk || in_chunk != 0u) {
        return;
    }
    if (IS_LAST) {
        store_result(row_place(row_number, false), result_of(state));
    } else {
        uint place = parameters.base_output + (row_number * parameters.chunks + chunk) * STATE_WORDS;
#define STORE_STATE(n) words_output[place + uint(n)] = state_word_##n(state);
        EACH_STATE_WORD(STORE_STATE)
    }
}
