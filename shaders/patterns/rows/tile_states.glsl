// What tiles of chunks come to: reduction_tiles.glsl stores it, reduction.glsl joins it. Quick states, where a function has them, with a
// word behind theirs that is 0 where they are not right; otherwise states.
#ifdef QUICK_SUMS
#define TileState QuickState
#define EMPTY_TILE NO_QUICK_STATE
#define EACH_TILE_WORD(DO) EACH_QUICK_WORD(DO)
#define TILE_WORDS QUICK_WORDS
#define tile_word_0(tile) quick_word_0(tile)
#define tile_word_1(tile) quick_word_1(tile)
#define tile_of_words(words) quick_state_of_words(words)
#define tile_with_block(tile, block, first, count) quick_with_block(tile, block, count)
#define tiles_joined(a, b) quick_joined(a, b)
#define tile_alone(tile) quick_alone(tile)
#define state_of_tile(tile) state_of_quick(tile)
#else
#define TileState State
#define EMPTY_TILE EMPTY_STATE
#define EACH_TILE_WORD(DO) EACH_STATE_WORD(DO)
#define TILE_WORDS STATE_WORDS
#define tile_word_0(tile) state_word_0(tile)
#define tile_word_1(tile) state_word_1(tile)
#define tile_of_words(words) state_of_words(words)
#define tile_with_block(tile, block, first, count) with_block(tile, block, first, count)
#define tiles_joined(a, b) joined(a, b)
#define tile_alone(tile) (tile)
#define state_of_tile(tile) (tile)
#endif

// Where the first word of a row's tile lies, by the tile's number in the row; and how far behind it the second one does. Rows are
// neighbours.
#define TILE_OFFSET(base, tile, row) ((base) + (tile) * parameters.rows + (row))
#define TILE_STEP(tiles_of_row) (parameters.rows * (tiles_of_row))
