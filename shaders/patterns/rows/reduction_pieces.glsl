// Reduces pieces of rows that are neighbours in memory, for processors: the neighbouring lanes that an invocation has of a chunk.
// reduction.glsl, which tells the order and what a file defines, joins the pieces in another launch.
//
// An invocation's elements lie far apart, those of the next invocations behind them. Where each has few of them, memory is gone through in
// few pages at a time, and soon from end to end of a page. A load takes an invocation's time, as llvmpipe does it lane by lane: nearly
// the same time for two words as for one, so that with ROW_PAIRS an invocation has two rows.
#include "joined_by_fours.glsl"
#include "rows/piece_states.glsl"

layout(constant_id = 12) const uint BLOCKS_OF_LANE = 0u; // which every lane has; 0: not all have as many, or not all are whole
layout(constant_id = 15) const uint PIECES = 1u;         // of a chunk, of LANES_OF_INVOCATION each

// Where an element lies. (The stride is read once: a processor's driver does not see that it stays the same.)
uint element_step;
uint row_element_place(uint element) { return ROW_AXES == 1u ? row_input + element * element_step : element_place(element); }

#ifdef ROW_PAIRS
#define ROWS_AT_ONCE 2u
// An element at an even place, and the one behind it.
uvec2 load_two(uint place)
{
    if (WIDTH == 32u) {
        return pairs_input[(parameters.base_input + place) >> 1u];
    }
    bool is_half = WIDTH == 16u;
    uint mask = is_half ? 0xffffu : 0xffu;
    uint word = words_input[parameters.base_input + (is_half ? place >> 1u : place >> 2u)] >> (is_half ? 0u : (place & 2u) * 8u);
    return uvec2(widened_element(word & mask), widened_element((word >> (is_half ? 16u : 8u)) & mask));
}

struct Blocks {
    Block first;
    Block second;
};
struct Pieces {
    Piece first;
    Piece second;
};
#define EMPTY_PIECES Pieces(EMPTY_PIECE, EMPTY_PIECE)

Blocks load_blocks(uint first, uint count)
{
    uint last = first + count - 1u;
    uvec2 a = load_two(row_element_place(first));
    uvec2 b = load_two(row_element_place(min(first + 1u, last)));
    uvec2 c = load_two(row_element_place(min(first + 2u, last)));
    uvec2 d = load_two(row_element_place(min(first + 3u, last)));
    return Blocks(Block(a.x, b.x, c.x, d.x), Block(a.y, b.y, c.y, d.y));
}
Pieces with_blocks(Pieces pieces, Blocks blocks, uint first, uint count)
{
    return Pieces(piece_with_block(pieces.first, blocks.first, first, count), piece_with_block(pieces.second, blocks.second, first, count));
}
Pieces both_alone(Pieces pieces) { return Pieces(piece_alone(pieces.first), piece_alone(pieces.second)); }
Pieces both_joined(Pieces a, Pieces b) { return Pieces(pieces_joined(a.first, b.first), pieces_joined(a.second, b.second)); }
#else
#define ROWS_AT_ONCE 1u
#define Pieces Piece
#define EMPTY_PIECES EMPTY_PIECE
#define with_blocks(piece, block, first, count) piece_with_block(piece, block, first, count)
#define load_blocks(first, count) load_block(first, count)
#define both_alone(piece) piece_alone(piece)
#define both_joined(a, b) pieces_joined(a, b)
#endif

#define STEP (4u * LANES_OF_CHUNK)

// So many blocks of a lane, from its element `first` on.
#define GROUP_OF_BLOCKS(group, first, blocks) \
    Pieces group = EMPTY_PIECES; \
    [[unroll]] for (uint i_ = 0u; i_ < blocks; ++i_) { \
        uint at_ = first + i_ * STEP; \
        group = with_blocks(group, load_blocks(at_, 4u), at_, 4u); \
    }

// What a lane comes to, of which all blocks are there. (Loops of known length have no lanes to be masked, nor exits to be guessed. What would be
// joined with nothing is not joined: drivers do not leave that out.)
Pieces whole_lane_pieces(uint first)
{
    GROUP_OF_BLOCKS(first_group, first, min(BLOCKS_OF_LANE, 4u))
    Pieces pieces = both_alone(first_group);
    if (BLOCKS_OF_LANE > 4u) {
        for (uint i = 8u; i <= BLOCKS_OF_LANE; i += 4u) {
            first += 4u * STEP;
            GROUP_OF_BLOCKS(group, first, 4u)
            pieces = both_joined(pieces, group);
        }
        if (BLOCKS_OF_LANE % 4u != 0u) {
            first += 4u * STEP;
            GROUP_OF_BLOCKS(group, first, BLOCKS_OF_LANE % 4u)
            pieces = both_joined(pieces, group);
        }
    }
    return pieces;
}

Pieces lane_pieces(uint lane, uint begin, uint end)
{
    uint first = begin + 4u * lane;
    if (BLOCKS_OF_LANE != 0u) {
        return whole_lane_pieces(first);
    }
    Pieces pieces = EMPTY_PIECES;
    for (; first < end; first += 4u * STEP) {
        Pieces group = EMPTY_PIECES;
        uint stop = min(first + 4u * STEP, end);
        for (uint at = first; at < stop; at += STEP) {
            uint count = min(4u, end - at);
            group = with_blocks(group, load_blocks(at, count), at, count);
        }
        pieces = both_joined(pieces, group);
    }
    return pieces;
}

// Loads a word of each cache line that four lanes lie in, where eight invocations together have a line's elements: each loads words of other
// lines, so that eight are waited for at once, not each by itself.
uint touched = 0u;
void touch_fours(uint lane, uint begin)
{
    uint first = begin + 4u * lane + (index_in_group() & 7u);
    for (uint block = 0u; block < BLOCKS_OF_LANE; ++block) {
        for (uint row = 0u; row < 16u; row += 8u) {
            uint place = row_element_place(first + row + block * STEP);
            touched |= words_input[parameters.base_input + (WIDTH == 32u ? place : WIDTH == 16u ? place >> 1u : place >> 2u)];
        }
    }
}

Pieces fours_pieces(uint lane, uint begin, uint end)
{
    if (BLOCKS_OF_LANE != 0u) {
        touch_fours(lane, begin);
    }
    Pieces pieces = lane_pieces(lane, begin, end);
    [[dont_unroll]] for (uint i = 1u; i < 4u; ++i) {
        pieces = both_joined(pieces, lane_pieces(lane + i, begin, end));
    }
    return pieces;
}
JOINED_BY_FOURS(lanes_pieces, LANES_OF_INVOCATION, Pieces, EMPTY_PIECES, fours_pieces, both_joined)

void store_piece(uint piece, uint row, Piece state, bool is_right)
{
    uint place = PIECE_PLACE(parameters.base_output, piece, row);
    uint step = PIECE_STEP(PIECES * parameters.chunks);
#define STORE_PIECE(n) words_output[place + uint(n) * step] = piece_word_##n(state);
    EACH_PIECE_WORD(STORE_PIECE)
#ifdef QUICK_SUMS
    words_output[place + PIECE_WORDS * step] = uint(is_right);
#endif
    if (touched == 0u && parameters.chunks == 0u) {
        words_output[place] = 0u; // never; but no driver knows that, or it would leave out what is touched
    }
}

void main()
{
    uint number = work_group_index() * 256u + index_in_group();
    uint units = parameters.rows / ROWS_AT_ONCE;
    uint piece = number / units;
    bool is_there = piece < PIECES * parameters.chunks;
    piece = is_there ? piece : 0u;
    row_number = number % units * ROWS_AT_ONCE;
    row_input = row_place(row_number, true);
    element_step = parameters.input_strides[0];
    begin_row();
    uint begin = piece / PIECES * CHUNK;
    uint end = min(begin + CHUNK, parameters.row_length);
#ifdef QUICK_SUMS
    begin_quick();
#endif
    Pieces pieces = lanes_pieces(piece % PIECES * LANES_OF_INVOCATION, begin, end);
#ifdef QUICK_SUMS
    bool is_right = is_quick_right();
#else
    const bool is_right = true;
#endif
    if (!is_there) {
        return;
    }
#ifdef ROW_PAIRS
    store_piece(piece, row_number, pieces.first, is_right);
    store_piece(piece, row_number + 1u, pieces.second, is_right);
#else
    store_piece(piece, row_number, pieces, is_right);
#endif
}
