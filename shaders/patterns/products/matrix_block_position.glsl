// The block of BLOCK_ROWS x BLOCK_COLUMNS results that is an invocation's own: its columns are INVOCATIONS apart, so that those of
// neighbouring invocations are neighbours.
struct Block {
    Batch batch;
    uint first_row;
    uint own_column; // the first one
    uint first_segment, end_segment;
};

// Of an invocation of a work group that has something to do.
Block block_of(uint group) {
    uint tiles_of_one = parameters.row_tiles * parameters.column_tiles;
    uint matrices = group / tiles_of_one;
    uint tile_number = group % tiles_of_one;
    uint first_row = tile_number % parameters.row_tiles * BLOCK_ROWS;
    uint own_column = tile_number / parameters.row_tiles * (BLOCK_COLUMNS * INVOCATIONS) + index_in_group();
    uint batches = parameters.work_items / tiles_of_one;
    uint first_segment = parameters.first_segment;
    uint end_segment = parameters.end_segment;
    if (SEGMENTS_COME == PARALLEL) {
        batches = batches / SEGMENTS;
        first_segment = matrices / batches;
        end_segment = first_segment + 1u;
    }
    return Block(batch_at(matrices % batches, batches, first_segment), first_row, own_column, first_segment, end_segment);
}
