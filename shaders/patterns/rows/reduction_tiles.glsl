// Reduces tiles of rows that are neighbours in memory, for processors: the neighbouring lanes that an invocation has of a chunk.
// reduction.glsl, which tells the order and what a file defines, joins the tiles in another launch.
//
// An invocation's elements lie far apart, those of the next invocations behind them. Where each has few of them, memory is gone through in
// few pages at a time, and soon from end to end of a page. A load takes an invocation's time, as llvmpipe does it lane by lane: nearly
// the same time for two words as for one, so that with ROW_PAIRS an invocation has two rows.
#include "joined_by_fours.glsl"
#include "rows/tile_states.glsl"

layout(constant_id = 12) const uint BLOCKS_OF_LANE = 0u; // which every lane has; 0: not all have as many, or not all are whole
layout(constant_id = 15) const uint TILES = 1u;         // of a chunk, of LANES_OF_INVOCATION each

// Where an element lies. (The stride is read once: a processor's driver does not see that it stays the same.)
uint element_step;
uint row_element_offset(uint element) { return ROW_AXES == 1u ? row_input + element * element_step : element_offset(element); }

#ifdef ROW_PAIRS
#define ROWS_AT_ONCE 2u
// An element at an even place, and the one behind it.
uvec2 load_two(uint offset) {
    if (WIDTH == 32u) { return pairs_input[(parameters.base_input + offset) >> 1u]; }
    bool is_half = WIDTH == 16u;
    uint mask = is_half ? 0xffffu : 0xffu;
    uint word = words_input[parameters.base_input + (is_half ? offset >> 1u : offset >> 2u)] >> (is_half ? 0u : (offset & 2u) * 8u);
    return uvec2(widened_element(word & mask), widened_element((word >> (is_half ? 16u : 8u)) & mask));
}

struct Blocks {
    Block first;
    Block second;
};
struct TileStates {
    TileState first;
    TileState second;
};
#define EMPTY_TILES TileStates(EMPTY_TILE, EMPTY_TILE)

Blocks load_blocks(uint first, uint count) {
    uint last = first + count - 1u;
    uvec2 a = load_two(row_element_offset(first));
    uvec2 b = load_two(row_element_offset(min(first + 1u, last)));
    uvec2 c = load_two(row_element_offset(min(first + 2u, last)));
    uvec2 d = load_two(row_element_offset(min(first + 3u, last)));
    return Blocks(Block(a.x, b.x, c.x, d.x), Block(a.y, b.y, c.y, d.y));
}
TileStates with_blocks(TileStates tiles, Blocks blocks, uint first, uint count) {
    return TileStates(tile_with_block(tiles.first, blocks.first, first, count), tile_with_block(tiles.second, blocks.second, first, count));
}
TileStates both_alone(TileStates tiles) { return TileStates(tile_alone(tiles.first), tile_alone(tiles.second)); }
TileStates both_joined(TileStates a, TileStates b) { return TileStates(tiles_joined(a.first, b.first), tiles_joined(a.second, b.second)); }
#else
#define ROWS_AT_ONCE 1u
#define TileStates TileState
#define EMPTY_TILES EMPTY_TILE
#define with_blocks(tile, block, first, count) tile_with_block(tile, block, first, count)
#define load_blocks(first, count) load_block(first, count)
#define both_alone(tile) tile_alone(tile)
#define both_joined(a, b) tiles_joined(a, b)
#endif

#define STEP (4u * LANES_OF_CHUNK)

// So many blocks of a lane, from its element `first` on.
#define GROUP_OF_BLOCKS(group, first, blocks) \
    TileStates group = EMPTY_TILES; \
    [[unroll]] for (uint i_ = 0u; i_ < blocks; ++i_) { \
        uint at_ = first + i_ * STEP; \
        group = with_blocks(group, load_blocks(at_, 4u), at_, 4u); \
    }

// What a lane comes to, of which all blocks are there. (Loops of known length have no lanes to be masked, nor exits to be guessed. What
// would be joined with nothing is not joined: drivers do not leave that out.)
TileStates whole_lane_tiles(uint first) {
    GROUP_OF_BLOCKS(first_group, first, min(BLOCKS_OF_LANE, 4u))
    TileStates tiles = both_alone(first_group);
    if (BLOCKS_OF_LANE > 4u) {
        for (uint i = 8u; i <= BLOCKS_OF_LANE; i += 4u) {
            first += 4u * STEP;
            GROUP_OF_BLOCKS(group, first, 4u)
            tiles = both_joined(tiles, group);
        }
        if (BLOCKS_OF_LANE % 4u != 0u) {
            first += 4u * STEP;
            GROUP_OF_BLOCKS(group, first, BLOCKS_OF_LANE % 4u)
            tiles = both_joined(tiles, group);
        }
    }
    return tiles;
}

TileStates lane_tiles(uint lane, uint begin, uint end) {
    uint first = begin + 4u * lane;
    if (BLOCKS_OF_LANE != 0u) { return whole_lane_tiles(first); }
    TileStates tiles = EMPTY_TILES;
    for (; first < end; first += 4u * STEP) {
        TileStates group = EMPTY_TILES;
        uint stop = min(first + 4u * STEP, end);
        for (uint at = first; at < stop; at += STEP) {
            uint count = min(4u, end - at);
            group = with_blocks(group, load_blocks(at, count), at, count);
        }
        tiles = both_joined(tiles, group);
    }
    return tiles;
}

// Loads a word of each cache line that four lanes lie in, where eight invocations together have a line's elements: each loads words of
// other lines, so that eight are waited for at once, not each by itself.
uint touched = 0u;
void touch_fours(uint lane, uint begin) {
    uint first = begin + 4u * lane + (index_in_group() & 7u);
    for (uint block = 0u; block < BLOCKS_OF_LANE; ++block) {
        for (uint row = 0u; row < 16u; row += 8u) {
            uint offset = row_element_offset(first + row + block * STEP);
            touched |= words_input[parameters.base_input + (WIDTH == 32u ? offset : WIDTH == 16u ? offset >> 1u : offset >> 2u)];
        }
    }
}

TileStates fours_tiles(uint lane, uint begin, uint end) {
    if (BLOCKS_OF_LANE != 0u) { touch_fours(lane, begin); }
    TileStates tiles = lane_tiles(lane, begin, end);
    [[dont_unroll]] for (uint i = 1u; i < 4u; ++i) {
        tiles = both_joined(tiles, lane_tiles(lane + i, begin, end));
    }
    return tiles;
}
JOINED_BY_FOURS(lanes_tiles, LANES_OF_INVOCATION, TileStates, EMPTY_TILES, fours_tiles, both_joined)

void store_tile(uint tile, uint row, TileState state, bool is_right) {
    uint offset = TILE_OFFSET(parameters.base_output, tile, row);
    uint step = TILE_STEP(TILES * parameters.chunks);
#define STORE_TILE(n) words_output[offset + uint(n) * step] = tile_word_##n(state);
    EACH_TILE_WORD(STORE_TILE)
#ifdef QUICK_SUMS
    words_output[offset + TILE_WORDS * step] = uint(is_right);
#endif
    if (touched == 0u && parameters.chunks == 0u) {
        words_output[offset] = 0u; // never; but no driver knows that, or it would leave out what is touched
    }
}

void main() {
    uint number = work_group_index() * 256u + index_in_group();
    uint units = parameters.rows / ROWS_AT_ONCE;
    uint tile = number / units;
    bool is_there = tile < TILES * parameters.chunks;
    tile = is_there ? tile : 0u;
    row_number = number % units * ROWS_AT_ONCE;
    row_input = row_offset(row_number, true);
    element_step = parameters.input_strides[0];
    begin_row();
    uint begin = tile / TILES * CHUNK;
    uint end = min(begin + CHUNK, parameters.row_length);
#ifdef QUICK_SUMS
    begin_quick();
#endif
    TileStates tiles = lanes_tiles(tile % TILES * LANES_OF_INVOCATION, begin, end);
#ifdef QUICK_SUMS
    bool is_right = is_quick_right();
#else
    const bool is_right = true;
#endif
    if (!is_there) { return; }
#ifdef ROW_PAIRS
    store_tile(tile, row_number, tiles.first, is_right);
    store_tile(tile, row_number + 1u, tiles.second, is_right);
#else
    store_tile(tile, row_number, tiles, is_right);
#endif
}
