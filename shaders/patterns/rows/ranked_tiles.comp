// TOP_K, TOP_K1: sorted lists of short tiles of rows.
// A sorted list of each tile of a row: an invocation counts which elements of its tile come before its own. It waits for
// nobody, and tiles are short.
#include "rows/ordered_rows.glsl"

void main() {
    WORK_ITEM(item)
    uint within = item % parameters.tile;
    uint list = item / parameters.tile;
    uint first = list % parameters.tiles * parameters.tile;
    uint count = min(parameters.row_length - first, parameters.tile);
    uint rank = within;
    CANDIDATE own = NO_CANDIDATE;
    if (within < count) {
        uint start = start_of(list / parameters.tiles).input_;
        own = candidate_at(start, first + within);
        rank = 0u;
        for (uint other = 0u; other < count; ++other) {
            rank += comes_before(candidate_at(start, first + other), own) ? 1u : 0u;
        }
    }
    if (rank < parameters.kept) { CANDIDATE_AT(lists, list * parameters.kept + rank) = own; }
}
