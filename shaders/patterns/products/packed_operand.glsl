// Packs an operand of an integer product: lines of its terms as signed bytes behind one another, with zeros behind them up to what tiles
// read at once. A line is a row of the left operand or a column of the right one; of a convolution's input, what one window sees.
//
// The compile script passes CONVOLUTION (0 or 1).
#extension GL_EXT_control_flow_attributes : enable

#include "datatypes.glsl"

#define LANES 4
#include "buffers.glsl"

#define INVOCATIONS 128
layout(local_size_x = INVOCATIONS) in;

BUFFER(0, source)
BUFFER(1, zero) // the zero point, which stands for padding too; where there is none, something else that is not read
BUFFER(2, output)

#define ADDS_SEGMENTS 0
#define COUNTS_TERMS 0
#define SHAPE_AT_RUN_TIME 0
#define OPERAND uint8
#define OPERAND_BITS 8
#define RESULT_BITS 32
#define PARALLEL 2u
#define SEGMENTS_COME 1u
#define WRITES_TOTALS false
layout(constant_id = 2) const bool IS_RIGHT = false;
layout(constant_id = 3) const bool HAS_ZERO = false;
// 0x80 where elements are unsigned: 128 less makes them signed ones.
layout(constant_id = 4) const uint FLIPPED = 0u;
// Whether an element's neighbours in memory are neighbouring terms, and whether words hold four of them.
layout(constant_id = 5) const bool ALONG_TERMS = false;
layout(constant_id = 6) const bool HAS_WORDS = false;

layout(push_constant) uniform Parameters {
    uint base_source, base_zero, base_output;
// Here row_tiles are the lines of each batch in the output, and column_tiles its vectors of 16 terms in each.
#include "products/matrix_parameters.glsl"
} parameters;

// The operand is the one or the other.
#define base_left base_source
#define base_right base_source
#define base_addend base_source
#define words_right words_source

#include "products/matrix_batch.glsl"

#define PADDING 0x80000000u // which no element is
uint operand(uint bits) { return bits; }

#include "products/matrix_operands.glsl"

#define TERMS_OF_VECTOR 16u

// Four terms from a first one on, which is a term of the line.
uint packed_word(Batch batch, Column column, uint line, uint first, uint zero) {
    if (HAS_WORDS) {
        uint index = IS_RIGHT ? right_index(column, first) : left_index(batch, line, first);
        return words_source[index >> 2u] ^ FLIPPED * 0x01010101u;
    }
    uint word = 0u;
    [[unroll]] for (uint position = 0u; position < 4u; ++position) {
        uint term = first + position;
        if (term < parameters.terms) {
            uint bits = IS_RIGHT ? right_bits(column, term) : LOAD(OPERAND, words_source, left_index(batch, line, term));
            word |= ((bits == PADDING ? zero : bits) ^ FLIPPED) << (8u * position);
        }
    }
    return word;
}

void main() {
    uint item = work_group_index() * INVOCATIONS + index_in_group();
    if (item >= parameters.work_items) { return; }
    uint inner = ALONG_TERMS ? parameters.column_tiles : parameters.row_tiles;
    uint outer = ALONG_TERMS ? parameters.row_tiles : parameters.column_tiles;
    uint rest = item / inner;
    uint line = ALONG_TERMS ? rest % outer : item % inner;
    uint first = (ALONG_TERMS ? item % inner : rest % outer) * TERMS_OF_VECTOR;
    uint number = rest / outer;
    uint position = (number * parameters.row_tiles + line) * parameters.column_tiles + first / TERMS_OF_VECTOR;
    uvec4 terms = uvec4(0u);
    if (line < (IS_RIGHT ? parameters.columns : parameters.rows)) {
        uint zero = HAS_ZERO ? LOAD(OPERAND, words_zero, BASE(8, zero)) : 0u;
        Batch batch = batch_at(number, parameters.work_items / (inner * outer), 0u);
        Column column = column_at(batch, line);
        [[unroll]] for (uint word = 0u; word < 4u; ++word) {
            if (first + 4u * word < parameters.terms) {
                terms[word] = packed_word(batch, column, line, first + 4u * word, zero);
            }
        }
    }
    fours_output[(BASE_WORD(output) >> 2u) + position] = terms;
}
