// TOP_K, TOP_K1 on processors: the few first elements of each tile of a row, which an invocation goes through once for
// each of them.
#include "rows/ordered_rows.glsl"

void main() {
    WORK_ITEM(list)
    uint first = list % parameters.tiles * parameters.tile;
    uint behind = min(parameters.row_length, first + parameters.tile);
    uint start = start_of(list / parameters.tiles).input_;
    CANDIDATE before = NO_CANDIDATE;
    for (uint rank = 0u; rank < parameters.kept; ++rank) {
        CANDIDATE best = NO_CANDIDATE;
        for (uint position = first; position < behind; ++position) {
            CANDIDATE each = candidate_at(start, position);
            bool is_left = rank == 0u || comes_before(before, each);
            if (is_left && comes_before(each, best)) { best = each; }
        }
        CANDIDATE_AT(lists, list * parameters.kept + rank) = best;
        before = best;
    }
}
