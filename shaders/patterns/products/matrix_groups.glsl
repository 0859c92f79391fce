// Which tile of results a work group computes. Included by the patterns whose work groups compute TILE_ROWS x TILE_COLUMNS results.

#define BAND 8u

struct Position {
    Batch batch;
    uint first_row, first_column, first_segment, end_segment;
};

// Work groups that run at one time shall read the same operands: they go through bands of tiles, downwards first.
Position position_of(uint group) {
    uint tiles_of_one = parameters.row_tiles * parameters.column_tiles;
    uint matrices = group / tiles_of_one;
    uint tile_number = group % tiles_of_one;
    uint band = tile_number / (BAND * parameters.column_tiles);
    uint height = min(BAND, parameters.row_tiles - band * BAND);
    uint within = tile_number - band * BAND * parameters.column_tiles;
    uint first_row = (band * BAND + within % height) * TILE_ROWS;
    uint first_column = within / height * TILE_COLUMNS;
    uint batches = parameters.work_items / tiles_of_one;
    uint first_segment = parameters.first_segment;
    uint end_segment = parameters.end_segment;
    if (SEGMENTS_COME == PARALLEL) {
        batches = batches / SEGMENTS;
        first_segment = matrices / batches;
        end_segment = first_segment + 1u;
    }
    return Position(batch_at(matrices % batches, batches, first_segment), first_row, first_column, first_segment, end_segment);
}
