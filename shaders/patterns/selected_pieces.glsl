// A sorted list of the few first elements of each piece of a row, which may be long: a work group for each piece.
//
// Each lane finds the first one of its elements. Of the lanes' ones the last that is kept is a limit: as many elements as are kept
// do not come behind it, and all others that do not lie in the same lanes. Those are collected, in any order, and ranked.
#include "ordered_rows.glsl"

#define INVOCATIONS 256u

shared CANDIDATE firsts[INVOCATIONS];
shared CANDIDATE collected[COLLECTED];
shared CANDIDATE limit;
shared uint count;

void main()
{
    uint list = work_group_index();
    uint lane = index_in_group();
    bool has_work = list < parameters.work_items;
    uint start = start_of(list / parameters.pieces).input_;
    uint first = list % parameters.pieces * parameters.piece;
    uint end = has_work ? min(parameters.row_length, first + parameters.piece) : first;

    CANDIDATE own = NO_CANDIDATE;
    for (uint place = first + lane; place < end; place += INVOCATIONS) {
        CANDIDATE candidate = candidate_at(start, place);
        own = comes_before(candidate, own) ? candidate : own;
    }
    firsts[lane] = own;
    if (lane == 0u) {
        count = 0u;
        limit = NO_CANDIDATE;
    }
    barrier();
    uint rank = 0u;
    for (uint other = 0u; other < INVOCATIONS; ++other) {
        rank += comes_before(firsts[other], own) ? 1u : 0u;
    }
    if (rank == parameters.kept - 1u && PLACE_OF(own) != 0xffffffffu) {
        limit = own;
    }
    barrier();
    // Lanes whose first element comes behind the limit have none that does not.
    CANDIDATE last = limit;
    if (!comes_before(last, own)) {
        for (uint place = first + lane; place < end; place += INVOCATIONS) {
            CANDIDATE candidate = candidate_at(start, place);
            if (!comes_before(last, candidate)) {
                uint number = atomicAdd(count, 1u);
                if (number < COLLECTED) { // there are never more
                    collected[number] = candidate;
                }
            }
        }
    }
    barrier();
    uint total = min(count, COLLECTED);
    for (uint number = lane; number < total; number += INVOCATIONS) {
        CANDIDATE candidate = collected[number];
        uint before = 0u;
        for (uint other = 0u; other < total; ++other) {
            before += comes_before(collected[other], candidate) ? 1u : 0u;
        }
        if (before < parameters.kept && has_work) {
            CANDIDATE_AT(lists, list * parameters.kept + before) = candidate;
        }
    }
    for (uint number = total + lane; number < parameters.kept; number += INVOCATIONS) {
        if (has_work) {
            CANDIDATE_AT(lists, list * parameters.kept + number) = NO_CANDIDATE;
        }
    }
}
