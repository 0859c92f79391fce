// Some inputs have their neighbours along another axis than the output: a transposition. A work group computes a tile of
// TILE by TILE elements along axis 0, along which the output has its neighbours, and axis 1, along which those inputs have
// theirs. It reads such an input along axis 1 into shared memory, word by word, and then reads that along axis 0. An
// invocation computes a block: LANES neighbours along axis 0 in each of LINES lines, which lie side by side along axis 1 and
// share the words of those inputs.
//
// A slot of shared memory holds one word, which is 32 / bits elements along axis 1 (64 bits: two words, one element). Slots
// are turned by their row, so that neither way of going through them meets the same memory bank again and again.
//
// Where TILES is 2, a work group may have two tiles, side by side along axis 0 or 1: it reads both before it waits for any.
#include "elementwise/elementwise_axes.glsl"
#include "elementwise/elementwise_vectors.glsl"

// Bit n: the lines of input n, or of the output as the last one, are whole, aligned vectors of LANES elements.
layout(constant_id = OWN_CONSTANT) const uint VECTOR_OPERANDS = 0u;
#if TILES == 2
layout(constant_id = OWN_CONSTANT + 1) const uint TILES_ALONG_0 = 1u; // of every work group; one of the two may be 2
layout(constant_id = OWN_CONSTANT + 2) const uint TILES_ALONG_1 = 1u;
#define FOR_SECOND_TILE(DO) if (TILES_ALONG_0 + TILES_ALONG_1 > 2u) { DO }
#else
#define TILES_ALONG_0 1u
#define TILES_ALONG_1 1u
#define FOR_SECOND_TILE(DO)
#endif
#define ALONG_0 (TILE * TILES_ALONG_0) // elements of a work group
#define ALONG_1 (TILE * TILES_ALONG_1)
#define GROUPS_ALONG_0 ((SIZE_0 + ALONG_0 - 1u) / ALONG_0)
#define GROUPS_ALONG_1 ((SIZE_1 + ALONG_1 - 1u) / ALONG_1)
#define TILES_ARE_WHOLE (SIZE_0 % ALONG_0 == 0u && SIZE_1 % ALONG_1 == 0u)
// Where the tile that has a number begins.
#define TILE_0(number) (first_0 + number * (ALONG_0 - TILE))
#define TILE_1(number) (first_1 + number * (ALONG_1 - TILE))
#define HAS_VECTORS(n) ((VECTOR_OPERANDS & (1u << n)) != 0u)

#define PER_WORD(bits) CONCATENATE(PER_WORD_, bits)
#define PER_WORD_8 4u
#define PER_WORD_16 2u
#define PER_WORD_32 1u
#define PER_WORD_64 1u

// The tiles of those inputs that have any, one behind the other, and where each input's begin. The shorter this is, the more
// work groups share a core; and inputs may be wider than would fit if every one had a tile. The length is a constant of its
// own, of which SPIRV-Cross makes a macro for Metal, where specialization constants are no lengths (its pull request 736).
layout(constant_id = OWN_CONSTANT + 3) const uint TILE_WORDS = 1u;
shared uint tiles[TILE_WORDS];
#define NOT_TILED 0xffffffffu // the input does not go through shared memory
#define FIRST_WORD(n, first_id) layout(constant_id = first_id + n) const uint FIRST_WORD_##n = NOT_TILED;
FOR_EACH_INPUT(FIRST_WORD, OWN_CONSTANT + 4)
#define IS_TILED(n) (FIRST_WORD_##n != NOT_TILED)

// Of the tile that has a number; its slots lie behind those of the tile before.
#define SLOT_OF(n, number, row, column) (number * (TILE * SLOTS_PER_COLUMN(n)) + slot_of(row, column))
uint slot_of(uint row, uint column) { return row * TILE + ((column + row) & (TILE - 1u)); }

// A slot's contents, and where in a buffer they lie.
#define SLOT(bits) CONCATENATE(SLOT_, bits)
#define SLOT_8 uint
#define SLOT_16 uint
#define SLOT_32 uint
#define SLOT_64 uvec2
#define READ_SLOT(bits, name, index) CONCATENATE(READ_SLOT_, bits)(name, index)
#define READ_SLOT_8(name, index) words_##name[(index) >> 2u]
#define READ_SLOT_16(name, index) words_##name[(index) >> 1u]
#define READ_SLOT_32(name, index) words_##name[index]
#define READ_SLOT_64(name, index) pairs_##name[index]
#define WRITE_SLOT(bits, first, slot, contents) CONCATENATE(WRITE_SLOT_, bits)(first, slot, contents)
#define WRITE_SLOT_8(first, slot, contents) tiles[first + slot] = contents;
#define WRITE_SLOT_16(first, slot, contents) tiles[first + slot] = contents;
#define WRITE_SLOT_32(first, slot, contents) tiles[first + slot] = contents;
#define WRITE_SLOT_64(first, slot, contents) \
    tiles[first + 2u * slot] = contents.x; \
    tiles[first + 2u * slot + 1u] = contents.y;

// The slots of an input are counted along axis 1 first; an invocation has every 256th of them, which lie in one line. It
// reads all that it reads of all inputs before it waits for any of it.
#define SLOTS_PER_COLUMN(n) (TILE / PER_WORD(INPUT_##n##_BITS))
#define SLOTS_PER_INVOCATION(n) ((TILE * SLOTS_PER_COLUMN(n) + 255u) / 256u)
#define COLUMNS_BETWEEN_SLOTS(n) (256u / SLOTS_PER_COLUMN(n))
#define SLOT_COLUMN(n, i) (gl_LocalInvocationID.x / SLOTS_PER_COLUMN(n) + COLUMNS_BETWEEN_SLOTS(n) * (i))
#define SLOT_ROW(n) (gl_LocalInvocationID.x % SLOTS_PER_COLUMN(n))
#define DECLARE_SLOTS(n, slots) SLOT(INPUT_##n##_BITS) slots##n[TILES * SLOTS_PER_INVOCATION(n)];
#define READ_TILE(n, number) \
    if (IS_TILED(n)) { \
        uint line = TILE_1(number) + SLOT_ROW(n) * PER_WORD(INPUT_##n##_BITS); \
        uint first = BASE(INPUT_##n##_BITS, input_##n) + row_input_##n \
            + (TILE_0(number) + SLOT_COLUMN(n, 0u)) * STRIDE_input_##n##_0 + line; \
        for (uint i = 0u; i < SLOTS_PER_INVOCATION(n); ++i) { \
            slots_##n[number * SLOTS_PER_INVOCATION(n) + i] = SLOT(INPUT_##n##_BITS)(0u); \
            if (TILES_ARE_WHOLE || (TILE_0(number) + SLOT_COLUMN(n, i) < SIZE_0 && line < SIZE_1)) { \
                slots_##n[number * SLOTS_PER_INVOCATION(n) + i] = READ_SLOT(INPUT_##n##_BITS, input_##n, \
                    first + i * (COLUMNS_BETWEEN_SLOTS(n) * STRIDE_input_##n##_0)); \
            } \
        } \
    }
#define WRITE_TILE(n, number) \
    if (IS_TILED(n)) { \
        for (uint i = 0u; i < SLOTS_PER_INVOCATION(n); ++i) { \
            if (TILE * SLOTS_PER_COLUMN(n) >= 256u || SLOT_COLUMN(n, i) < TILE) { \
                uint slot = SLOT_OF(n, number, SLOT_ROW(n), SLOT_COLUMN(n, i)); \
                WRITE_SLOT(INPUT_##n##_BITS, FIRST_WORD_##n, slot, slots_##n[number * SLOTS_PER_INVOCATION(n) + i]) \
            } \
        } \
    }

// The block that an invocation computes. Where a tile has fewer blocks than the work group has invocations, some have none.
#define ELEMENTS (LANES * LINES)
#define BLOCKS_ALONG_0 (TILE / LANES)
#define COLUMN ((gl_LocalInvocationID.x % BLOCKS_ALONG_0) * LANES)
#define LINE ((gl_LocalInvocationID.x / BLOCKS_ALONG_0) * LINES)
#define LINE_WORDS(bits) ((LANES * bits + 31) / 32)

#if LINES == 1
#define FOR_EACH_LINE(DO, tile) DO(0u, tile)
#elif LINES == 2
#define FOR_EACH_LINE(DO, tile) DO(0u, tile) DO(1u, tile)
#elif LINES == 4
#define FOR_EACH_LINE(DO, tile) DO(0u, tile) DO(1u, tile) DO(2u, tile) DO(3u, tile)
#else
#error LINES must be 1, 2 or 4
#endif
#define FOR_EACH_ELEMENT_WRITTEN_OUT(DO) CONCATENATE(FOR_EACH_OF_, LINES)(DO)
#define FOR_EACH_OF_1(DO) FOR_EACH_LANE_OF(0u, DO)
#define FOR_EACH_OF_2(DO) FOR_EACH_LANE_OF(0u, DO) FOR_EACH_LANE_OF(LANES, DO)
#define FOR_EACH_OF_4(DO) \
    FOR_EACH_LANE_OF(0u, DO) FOR_EACH_LANE_OF(LANES, DO) FOR_EACH_LANE_OF(2u * LANES, DO) FOR_EACH_LANE_OF(3u * LANES, DO)
#if LANES == 2
#define FOR_EACH_LANE_OF(first, DO) DO((first + 0u)) DO((first + 1u))
#elif LANES == 4
#define FOR_EACH_LANE_OF(first, DO) DO((first + 0u)) DO((first + 1u)) DO((first + 2u)) DO((first + 3u))
#else
#define FOR_EACH_LANE_OF(first, DO) \
    DO((first + 0u)) DO((first + 1u)) DO((first + 2u)) DO((first + 3u)) \
    DO((first + 4u)) DO((first + 5u)) DO((first + 6u)) DO((first + 7u))
#endif
// A file of an operation that is to stand in a loop on GPUs, too, defines ELEMENTS_IN_LOOP.
#define FOR_EACH_ELEMENT_IN_LOOP(DO) \
    for (uint element_ = 0u; element_ < ELEMENTS; ++element_) { \
        DO(element_) \
    }
#ifdef ELEMENTS_IN_LOOP
#define FOR_EACH_ELEMENT(DO) FOR_EACH_ELEMENT_IN_LOOP(DO)
#elif defined(LONG_OPERATION)
#define FOR_EACH_ELEMENT(DO) \
    if (ON_PROCESSOR) { \
        FOR_EACH_ELEMENT_IN_LOOP(DO) \
    } else { \
        FOR_EACH_ELEMENT_WRITTEN_OUT(DO) \
    }
#else
#define FOR_EACH_ELEMENT(DO) FOR_EACH_ELEMENT_WRITTEN_OUT(DO)
#endif

// What lies behind the last column or line, of which the last one is taken again.
#define WITHIN(index, last) (TILES_ARE_WHOLE ? index : min(index, last))

// An input that does not go through shared memory is read beside it, line by line, before anything is waited for. Every line
// begins with a word of its own.
#define DIRECT(bits, line, lane) ((line) * (LINE_WORDS(bits) * 32 / bits) + (lane))
#define DECLARE_DIRECT(n, direct) \
    uint direct##n[TILES * LINES * LINE_WORDS(INPUT_##n##_BITS)]; \
    for (int i = 0; i < TILES * LINES * LINE_WORDS(INPUT_##n##_BITS); ++i) { direct##n[i] = 0u; }
#define READ_DIRECT(n, direct) \
    if (!IS_TILED(n)) { \
        uint line_input_##n = row_input_##n + line * STRIDE_input_##n##_1; \
        if (HAS_VECTORS(n)) { \
            uint vector[LINE_WORDS(INPUT_##n##_BITS)]; \
            FETCH_AT(vector, input_##n, INPUT_##n##_BITS, (line_input_##n + WITHIN(column, SIZE_0 - LANES)) / LANES) \
            for (uint i = 0u; i < LINE_WORDS(INPUT_##n##_BITS); ++i) { \
                direct##n[number * LINE_WORDS(INPUT_##n##_BITS) + i] = vector[i]; \
            } \
        } else { \
            for (uint lane = 0u; lane < LANES; ++lane) { \
                VALUE(INPUT_##n) value = LOAD(INPUT_##n, words_input_##n, BASE(INPUT_##n##_BITS, input_##n) \
                    + line_input_##n + WITHIN(column + lane, SIZE_0 - 1u) * STRIDE_input_##n##_0); \
                INSERT(INPUT_##n##_BITS, direct##n, DIRECT(INPUT_##n##_BITS, number, lane), value); \
            } \
        } \
    }
#define READ_LINE(line_of_block, tile) \
    { \
        uint number = tile * LINES + line_of_block; \
        uint column = TILE_0(tile) + COLUMN; \
        uint line = WITHIN(TILE_1(tile) + LINE + line_of_block, SIZE_1 - 1u); \
        FOR_EACH_INPUT(READ_DIRECT, direct_) \
    }

// The slots of a block: LANES words, in each of which its lines lie side by side, or from 32 bits on as many for each line.
#define SLOT_LINES(bits) CONCATENATE(SLOT_LINES_, bits)
#define SLOT_LINES_8 1
#define SLOT_LINES_16 1
#define SLOT_LINES_32 LINES
#define SLOT_LINES_64 LINES
#define SLOT_WORDS(bits) CONCATENATE(SLOT_WORDS_, bits)
#define SLOT_WORDS_8 1
#define SLOT_WORDS_16 1
#define SLOT_WORDS_32 1
#define SLOT_WORDS_64 2
#define READ_SLOTS(n, number) \
    uint loaded_##n[SLOT_LINES(INPUT_##n##_BITS) * LANES * SLOT_WORDS(INPUT_##n##_BITS)]; \
    for (uint k = 0u; k < SLOT_LINES(INPUT_##n##_BITS) * LANES; ++k) { \
        uint slot = SLOT_OF(n, number, LINE / PER_WORD(INPUT_##n##_BITS) + k / LANES, COLUMN + k % LANES); \
        for (uint i = 0u; i < SLOT_WORDS(INPUT_##n##_BITS); ++i) { \
            loaded_##n[SLOT_WORDS(INPUT_##n##_BITS) * k + i] = \
                IS_TILED(n) ? tiles[FIRST_WORD_##n + SLOT_WORDS(INPUT_##n##_BITS) * slot + i] : 0u; \
        } \
    }

// The operand at an element of the block, and where it is among what the slots hold.
#define REGISTER(bits, element) CONCATENATE(REGISTER_, bits)(element)
#define REGISTER_8(element) ((element) % LANES * 4u + ((LINE + (element) / LANES) & 3u))
#define REGISTER_16(element) ((element) % LANES * 2u + ((LINE + (element) / LANES) & 1u))
#define REGISTER_32(element) (element)
#define REGISTER_64(element) (element)
#define DECLARE_OPERAND(n, element) \
    VALUE(INPUT_##n) operand_##n; \
    if (IS_TILED(n)) { \
        operand_##n = LOAD(INPUT_##n, loaded_##n, REGISTER(INPUT_##n##_BITS, element)); \
    } else { \
        operand_##n = LOAD(INPUT_##n, direct_##n, \
            DIRECT(INPUT_##n##_BITS, tile_number * LINES + (element) / LANES, (element) % LANES)); \
    }
#define OPERAND(n, element) operand_##n
#define COMPUTE_ELEMENT(element) \
    if (ALWAYS) { \
        FOR_EACH_INPUT(DECLARE_OPERAND, element) \
        VALUE(OUTPUT) value = APPLY(OPERAND, element); \
        INSERT(OUTPUT_BITS, results, element, value); \
    }

// FAST_OPERATION (elementwise_vectors.glsl). The slots of a block may have elements of another one too: then the slow path there
// counts here.
#ifdef FAST_OPERATION
#define GATHER_SLOW_PATH_OPERANDS(n, type) \
    if (IS_TILED(n)) { \
        for (type k = 0; k < LANES; ++k) { slow_path |= SLOW_PATH_BITS(loaded_##n[k]); } \
    } else { \
        for (type i = 0; i < LINES * LINE_WORDS(INPUT_##n##_BITS); ++i) { \
            slow_path |= SLOW_PATH_BITS(direct_##n[tile_number * LINES * LINE_WORDS(INPUT_##n##_BITS) + i]); \
        } \
    }
#define COMPUTE_QUICK_ELEMENT(element) \
    if (ALWAYS) { \
        FOR_EACH_INPUT(DECLARE_OPERAND, element) \
        INSERT(OUTPUT_BITS, results, element, APPLY_QUICK(OPERAND, element)); \
    }
#define COMPUTE_ELEMENTS \
    uint slow_path = uint(ON_PROCESSOR); \
    FOR_EACH_INPUT(GATHER_SLOW_PATH_OPERANDS, int) \
    if (slow_path == 0u) { FOR_EACH_ELEMENT_WRITTEN_OUT(COMPUTE_QUICK_ELEMENT) } else { FOR_EACH_ELEMENT(COMPUTE_ELEMENT) }
#else
#define COMPUTE_ELEMENTS FOR_EACH_ELEMENT(COMPUTE_ELEMENT)
#endif

// An invocation owns the words that it writes.
#define LINE_OF_RESULTS(number, tile) \
    if (TILES_ARE_WHOLE || (TILE_1(tile) + LINE + number < SIZE_1 && column < SIZE_0)) { \
        uint target = target_of_block + number * STRIDE_output_1; \
        uint line_results[LINE_WORDS(OUTPUT_BITS)]; \
        for (uint i = 0u; i < LINE_WORDS(OUTPUT_BITS); ++i) { \
            line_results[i] = results[number * LINE_WORDS(OUTPUT_BITS) + i]; \
        } \
        if (HAS_VECTORS(INPUT_COUNT)) { \
            STORE_VECTOR(output, OUTPUT_BITS, line_results, target / LANES) \
        } else { \
            STORE_LINE(target) \
        } \
    }
#if OUTPUT_BITS < 32
#define STORE_LINE(target) \
    uint first_word = (BASE(OUTPUT_BITS, output) + target) / (32u / OUTPUT_BITS); \
    for (uint i = 0u; i < LINE_WORDS(OUTPUT_BITS); ++i) { \
        uint left = min(SIZE_0 - min(SIZE_0, column + i * (32u / OUTPUT_BITS)), 32u / OUTPUT_BITS); \
        uint mask = left == 0u ? 0u : 0xffffffffu >> (32u - left * OUTPUT_BITS); \
        store_bits(first_word + i, line_results[i] & mask, mask); \
    }
#else
#define STORE_LINE(target) \
    for (uint lane = 0u; lane < LANES; ++lane) { \
        if (column + lane < SIZE_0) { \
            for (uint i = 0u; i < OUTPUT_BITS / 32; ++i) { \
                words_output[BASE_WORD(output) + (target + lane) * (OUTPUT_BITS / 32) + i] = \
                    line_results[lane * (OUTPUT_BITS / 32) + i]; \
            } \
        } \
    }
#endif

// The block of one of the work group's tiles.
#define COMPUTE_TILE(number) \
    { \
        const uint tile_number = number; \
        FOR_EACH_INPUT(READ_SLOTS, number) \
        uint results[LINES * LINE_WORDS(OUTPUT_BITS)]; \
        for (uint i = 0u; i < LINES * LINE_WORDS(OUTPUT_BITS); ++i) { results[i] = 0u; } \
        COMPUTE_ELEMENTS \
        uint column = TILE_0(number) + COLUMN; \
        uint target_of_block = row_output + (TILE_1(number) + LINE) * STRIDE_output_1 + column; \
        FOR_EACH_LINE(LINE_OF_RESULTS, number) \
    }

#define ROW_OF_INPUT(n, type) type row_input_##n = 0u;

void main() {
    WORK_GROUP(group)
    uint first_0 = (group % GROUPS_ALONG_0) * ALONG_0;
    uint row = group / GROUPS_ALONG_0;
    uint first_1 = (row % GROUPS_ALONG_1) * ALONG_1;
    row /= GROUPS_ALONG_1;
    uint row_output = 0u;
    FOR_EACH_INPUT(ROW_OF_INPUT, uint)
    MOVE_BY(row, 2) MOVE_BY(row, 3) MOVE_BY(row, 4) MOVE_BY(row, 5) MOVE_BY(row, 6) MOVE_BY(row, 7)

    FOR_EACH_INPUT(DECLARE_SLOTS, slots_)
    FOR_EACH_INPUT(DECLARE_DIRECT, direct_)
    FOR_EACH_INPUT(READ_TILE, 0u)
    FOR_SECOND_TILE(FOR_EACH_INPUT(READ_TILE, 1u))
    FOR_EACH_LINE(READ_LINE, 0u)
    FOR_SECOND_TILE(FOR_EACH_LINE(READ_LINE, 1u))
    // What a second tile reads may still be on its way while the first one is computed.
    FOR_EACH_INPUT(WRITE_TILE, 0u)
    barrier();
    if (LINE < TILE) COMPUTE_TILE(0u)
    FOR_SECOND_TILE(FOR_EACH_INPUT(WRITE_TILE, 1u) barrier(); if (LINE < TILE) COMPUTE_TILE(1u))
}
