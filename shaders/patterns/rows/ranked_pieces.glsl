// A sorted list of each piece of a row: an invocation counts which elements of its piece come before its own. It waits for
// nobody, and pieces are short.
#include "rows/ordered_rows.glsl"

void main()
{
    uint item = invocation_index();
    if (item >= parameters.work_items) {
        return;
    }
    uint within = item % parameters.piece;
    uint list = item / parameters.piece;
    uint first = list % parameters.pieces * parameters.piece;
    uint count = min(parameters.row_length - first, parameters.piece);
    uint rank = within;
    CANDIDATE own = NO_CANDIDATE;
    if (within < count) {
        uint start = start_of(list / parameters.pieces).input_;
        own = candidate_at(start, first + within);
        rank = 0u;
        for (uint other = 0u; other < count; ++other) {
            rank += comes_before(candidate_at(start, first + other), own) ? 1u : 0u;
        }
    }
    if (rank < parameters.kept) {
        CANDIDATE_AT(lists, list * parameters.kept + rank) = own;
    }
}
