// Some inputs have their neighbours along another axis than the output: a transposition. A work group computes a tile of
// TILE by TILE elements along axis 0, along which the output has its neighbours, and axis 1, along which those inputs have
// theirs. It reads such an input along axis 1 into shared memory, word by word, and then reads that along axis 0.
//
// A slot of shared memory holds one word, which is 32 / bits elements along axis 1 (64 bits: two words, one element). Slots
// are turned by their row, so that neither way of going through them meets the same memory bank again and again.
#include "elementwise_axes.glsl"

layout(constant_id = OWN_CONSTANT) const uint TILED_INPUTS = 0u; // bit n: input n goes through shared memory
#define TILES_ALONG_0 ((SIZE_0 + TILE - 1u) / TILE)
#define TILES_ALONG_1 ((SIZE_1 + TILE - 1u) / TILE)

#define PER_WORD(bits) CONCATENATE(PER_WORD_, bits)
#define PER_WORD_8 4u
#define PER_WORD_16 2u
#define PER_WORD_32 1u
#define PER_WORD_64 1u

#define SHARED_TILE(n, name) shared uint name##n[TILE * TILE * INPUT_##n##_BITS / 32];
FOR_EACH_INPUT(SHARED_TILE, tile_)

uint slot_of(uint row, uint column) { return row * TILE + ((column + row) & (TILE - 1u)); }

#define IS_TILED(n) ((TILED_INPUTS & (1u << n)) != 0u)
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
#define WRITE_SLOT(bits, tile, slot, contents) CONCATENATE(WRITE_SLOT_, bits)(tile, slot, contents)
#define WRITE_SLOT_8(tile, slot, contents) tile[slot] = contents;
#define WRITE_SLOT_16(tile, slot, contents) tile[slot] = contents;
#define WRITE_SLOT_32(tile, slot, contents) tile[slot] = contents;
#define WRITE_SLOT_64(tile, slot, contents) tile[2u * (slot)] = contents.x; tile[2u * (slot) + 1u] = contents.y;

// The slots of an input are counted along axis 1 first. An invocation reads all that it reads of all inputs before it
// waits for any of it.
#define SLOTS_PER_COLUMN(n) (TILE / PER_WORD(INPUT_##n##_BITS))
#define SLOTS_PER_INVOCATION(n) ((TILE * SLOTS_PER_COLUMN(n) + 255u) / 256u)
#define READ_TILE(n, slots) \
    SLOT(INPUT_##n##_BITS) slots##n[SLOTS_PER_INVOCATION(n)]; \
    if (IS_TILED(n)) { \
        for (uint i = 0u; i < SLOTS_PER_INVOCATION(n); ++i) { \
            uint number = gl_LocalInvocationID.x + 256u * i; \
            uint column = first_0 + number / SLOTS_PER_COLUMN(n); \
            uint line = first_1 + (number % SLOTS_PER_COLUMN(n)) * PER_WORD(INPUT_##n##_BITS); \
            slots##n[i] = SLOT(INPUT_##n##_BITS)(0u); \
            if (column < SIZE_0 && line < SIZE_1) { \
                slots##n[i] = READ_SLOT(INPUT_##n##_BITS, input_##n, \
                    row_input_##n + column * STRIDE_input_##n##_0 + line); \
            } \
        } \
    }
#define WRITE_TILE(n, slots) \
    if (IS_TILED(n)) { \
        for (uint i = 0u; i < SLOTS_PER_INVOCATION(n); ++i) { \
            uint number = gl_LocalInvocationID.x + 256u * i; \
            if (number < TILE * SLOTS_PER_COLUMN(n)) { \
                uint slot = slot_of(number % SLOTS_PER_COLUMN(n), number / SLOTS_PER_COLUMN(n)); \
                WRITE_SLOT(INPUT_##n##_BITS, tile_##n, slot, slots##n[i]) \
            } \
        } \
    }

// The operand at the element `column`, `line` of the tile.
#define TILED(n) \
    LOAD(INPUT_##n, tile_##n, \
        slot_of(line / PER_WORD(INPUT_##n##_BITS), column) * PER_WORD(INPUT_##n##_BITS) \
            + (line & (PER_WORD(INPUT_##n##_BITS) - 1u)))
#define DIRECT(n) \
    LOAD(INPUT_##n, words_input_##n, \
        row_input_##n + (first_0 + column) * STRIDE_input_##n##_0 + (first_1 + line) * STRIDE_input_##n##_1)
#define DECLARE_OPERAND(n, name) \
    VALUE(INPUT_##n) name##n; \
    if (IS_TILED(n)) { \
        name##n = TILED(n); \
    } else { \
        name##n = DIRECT(n); \
    }
#define OPERAND(n, lane) operand_##n

// An invocation owns the words that it writes.
#if OUTPUT_BITS < 32
#define ELEMENTS_OF_A_WORD (32u / OUTPUT_BITS)
#else
#define ELEMENTS_OF_A_WORD 1u
#endif

#define ROW_OF_INPUT(n, type) type row_input_##n = BASE(INPUT_##n##_BITS, input_##n);

void main()
{
    uint tile = work_group_index();
    if (tile >= parameters.work_items) {
        return;
    }
    uint first_0 = (tile % TILES_ALONG_0) * TILE;
    uint row = tile / TILES_ALONG_0;
    uint first_1 = (row % TILES_ALONG_1) * TILE;
    row /= TILES_ALONG_1;
    uint row_output = BASE(OUTPUT_BITS, output);
    FOR_EACH_INPUT(ROW_OF_INPUT, uint)
    MOVE_ALONG(2) MOVE_ALONG(3) MOVE_ALONG(4) MOVE_ALONG(5) MOVE_ALONG(6) MOVE_ALONG(7)

    FOR_EACH_INPUT(READ_TILE, slots_)
    FOR_EACH_INPUT(WRITE_TILE, slots_)
    barrier();

    const uint words_per_line = TILE / ELEMENTS_OF_A_WORD;
    for (uint i = gl_LocalInvocationID.x; i < TILE * words_per_line; i += 256u) {
        uint line = i / words_per_line;
        uint start = (i % words_per_line) * ELEMENTS_OF_A_WORD;
        if (first_1 + line >= SIZE_1 || first_0 + start >= SIZE_0) {
            continue;
        }
        uint target = row_output + (first_1 + line) * STRIDE_output_1 + first_0 + start;
#if OUTPUT_BITS < 32
        uint result = 0u;
        uint mask = 0u;
        for (uint lane = 0u; lane < ELEMENTS_OF_A_WORD; ++lane) {
            uint column = start + lane;
            if (first_0 + column < SIZE_0) {
                FOR_EACH_INPUT(DECLARE_OPERAND, operand_)
                result |= (APPLY(OPERAND, lane) & (0xffffffffu >> (32u - OUTPUT_BITS))) << (lane * OUTPUT_BITS);
                mask |= (0xffffffffu >> (32u - OUTPUT_BITS)) << (lane * OUTPUT_BITS);
            }
        }
        store_bits(target / ELEMENTS_OF_A_WORD, result, mask);
#else
        uint column = start;
        FOR_EACH_INPUT(DECLARE_OPERAND, operand_)
        VALUE(OUTPUT) value = APPLY(OPERAND, 0u);
        STORE(OUTPUT_BITS, words_output, target, value);
#endif
    }
}
