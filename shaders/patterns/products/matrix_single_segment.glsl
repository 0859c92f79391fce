// Inside of a main function: the sums of one segment's terms, `first` to `end`, in `sums`, and whether they are `plain`. What they are
// computed from is named as in matrix_single.glsl. Behind it all invocations are through with the tiles.
    LOOK_FROM_HERE
    [[unroll]] for (uint i = 0u; i < RESULT_ROWS; ++i) {
        sums[i] = 0.0;
    }
    LOAD_TILES(first)
    PUT_TILES(0u)
    barrier();
    uint tile = 0u;
    for (uint term = first; term < end; term += TILE_TERMS) {
        bool has_next = term + TILE_TERMS < end;
        if (has_next) {
            LOAD_TILES(term + TILE_TERMS)
        }
        [[unroll]] for (uint four = 0u; four < FOURS; ++four) {
            vec4 b = uintBitsToFloat(tiles[tile * TILE + (TILE_ROWS + own_column) * LINE + four]);
            [[unroll]] for (uint i = 0u; i < RESULT_ROWS; ++i) {
                vec4 a = uintBitsToFloat(tiles[tile * TILE + (i * INVOCATION_ROWS + own_row) * LINE + four]);
                [[unroll]] for (uint step = 0u; step < 4u; ++step) {
                    sums[i] = product_plus(a[step], b[step], sums[i]);
                }
            }
        }
        tile = 1u - tile;
        if (has_next) {
            PUT_TILES(tile)
        }
        barrier();
    }
    LOOK_BACK
