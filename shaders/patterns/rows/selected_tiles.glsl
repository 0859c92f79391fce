// The few first elements of each tile of a row, which may be long, in order: a work group for each tile. A sorted list of them, or, where a tile
// is a row (WRITES_RESULTS), the results.
//
// Each lane reads its elements once, keeps their keys, and finds the first one of them, its leader. Of each family of lanes the first leader is
// taken, and of these the last that is kept is a limit: as many elements as are kept do not come behind it, and seldom many more. Those are
// collected, in any order, and ranked. Should a few lanes have more of them than there is room for, the limit is found anew, as the last
// leader of all that is kept, which no more than the elements of as many lanes do not come behind.
//
// The compile script passes KEY_WORDS, UNIT_BITS, REGISTERS (elements of a lane, 32 or 16: the longest tile has as many for each) and
// COLLECTED (elements that there is room for).
#extension GL_EXT_control_flow_attributes : enable
#include "rows/ordered_rows.glsl"

#ifdef WRITES_RESULTS
#define KEEP(number, candidate) write_result(row, number, POSITION_OF(candidate))
#else
#define KEEP(number, candidate) CANDIDATE_AT(lists, list * parameters.kept + (number)) = candidate
#endif

#define INVOCATIONS 256u
#define FAMILIES 64u // of lanes: more than are ever kept

#if KEY_WORDS == 1
#define KEY uint
#define HIGH
#define KEY_OF(candidate) ((candidate).x)
#define CANDIDATE_OF(key, position) MAKE_CANDIDATE(key, 0u, position)
#else
#define KEY uvec2
#define HIGH .x
#define KEY_OF(candidate) ((candidate).xy)
#define CANDIDATE_OF(key, position) MAKE_CANDIDATE((key).x, (key).y, position)
#endif

#define FOR_EIGHT_REGISTERS(DO, n) DO(n) DO(n + 1u) DO(n + 2u) DO(n + 3u) DO(n + 4u) DO(n + 5u) DO(n + 6u) DO(n + 7u)
#if REGISTERS == 16
#define FOR_EACH_REGISTER(DO) FOR_EIGHT_REGISTERS(DO, 0u) FOR_EIGHT_REGISTERS(DO, 8u)
#else
#define FOR_EACH_REGISTER(DO) FOR_EIGHT_REGISTERS(DO, 0u) FOR_EIGHT_REGISTERS(DO, 8u) FOR_EIGHT_REGISTERS(DO, 16u) FOR_EIGHT_REGISTERS(DO, 24u)
#endif

shared CANDIDATE leaders[INVOCATIONS];
shared CANDIDATE collected[COLLECTED];
shared CANDIDATE limit;
shared uint count;

void collect(CANDIDATE candidate) {
    uint number = atomicAdd(count, 1u);
    if (number < COLLECTED) { collected[number] = candidate; }
}

// How many of what was collected come before a candidate.
uint rank_of(CANDIDATE candidate, uint total) {
    uint rank = 0u;
    for (uint other = 0u; other < total; ++other) { rank += comes_before(collected[other], candidate) ? 1u : 0u; }
    return rank;
}

// The last leader of all that is kept, where those that do not come behind the limit are known to be few.
void find_limit_among_all(uint lane, CANDIDATE leader) {
    barrier(); // all know that there are too many
    if (lane == 0u) { count = 0u; }
    barrier();
    if (!comes_before(limit, leader)) { collect(leader); }
    barrier();
    for (uint number = lane; number < count; number += INVOCATIONS) {
        if (rank_of(collected[number], count) == parameters.kept - 1u) { limit = collected[number]; }
    }
    barrier();
    if (lane == 0u) { count = 0u; }
    barrier();
}

void main() {
    uint list = work_group_index();
    uint lane = index_in_group();
    bool has_work = list < parameters.work_items;
    RowStart row = start_of(list / parameters.tiles);
    uint start = row.input_;
    uint first = list % parameters.tiles * parameters.tile;
    uint end = has_work ? min(parameters.row_length, first + parameters.tile) : first;

    KEY keys[REGISTERS];
#define POSITION(n) (first + lane + (n) * INVOCATIONS)
#define LOAD_SURELY(n) keys[n] = KEY_OF(candidate_at(start, POSITION(n)));
#define LOAD_IF_THERE(n) \
    keys[n] = KEY_OF(NO_CANDIDATE); \
    if (POSITION(n) < end) { keys[n] = KEY_OF(candidate_at(start, POSITION(n))); }
    // A whole tile is read without a branch, so that nothing waits for the element before.
    if (end - first == REGISTERS * INVOCATIONS) {
        FOR_EACH_REGISTER(LOAD_SURELY)
    } else {
        FOR_EACH_REGISTER(LOAD_IF_THERE)
    }
#if KEY_WORDS == 1
    // Places rise: of equal keys the first one seen stays. Where nothing is, keys are the least.
    uint best = keys[0];
    uint best_at = 0u;
#define COMPARE_KEYS(n) \
    if (keys[n] > best) { \
        best = keys[n]; \
        best_at = n; \
    }
    FOR_EACH_REGISTER(COMPARE_KEYS)
    CANDIDATE own = NO_CANDIDATE;
    if (POSITION(0u) < end) { own = CANDIDATE_OF(best, POSITION(best_at)); }
#else
    CANDIDATE own = NO_CANDIDATE;
#define COMPARE(n) \
    { \
        CANDIDATE candidate = CANDIDATE_OF(keys[n], POSITION(n)); \
        own = POSITION(n) < end && comes_before(candidate, own) ? candidate : own; \
    }
    FOR_EACH_REGISTER(COMPARE)
#endif
    // Lanes that have none differ, too: behind all others, so that there are as many leaders as lanes.
    CANDIDATE leader = own;
    if (POSITION_OF(own) == 0xffffffffu) { POSITION_OF(leader) -= INVOCATIONS - lane; }
    leaders[lane] = leader;
    if (lane == 0u) { count = 0u; }
    barrier();
    if (lane < FAMILIES) {
        CANDIDATE first_of_family = leader;
        [[unroll]] for (uint other = FAMILIES; other < INVOCATIONS; other += FAMILIES) {
            CANDIDATE candidate = leaders[lane + other];
            first_of_family = comes_before(candidate, first_of_family) ? candidate : first_of_family;
        }
        leaders[lane] = first_of_family; // no other lane reads it before
    }
    barrier();
    if (lane < FAMILIES) {
        CANDIDATE candidate = leaders[lane];
        uint rank = 0u;
        [[unroll]] for (uint other = 0u; other < FAMILIES; ++other) {
            rank += comes_before(leaders[other], candidate) ? 1u : 0u;
        }
        if (rank == parameters.kept - 1u) { limit = candidate; }
    }
    barrier();
    // Lanes whose leader comes behind the limit have no element that does not. Others have seldom more than that one: a bit for each that may
    // be one, whose element is read again, is a third of the time of looking at all.
    for (bool is_done = false; !is_done;) {
        CANDIDATE last = limit;
        if (!comes_before(last, own)) {
            collect(own);
            uint others = 0u;
#define NOTE_KEY(n) others |= keys[n] HIGH >= last.x ? 1u << (n) : 0u;
            FOR_EACH_REGISTER(NOTE_KEY)
            others &= ~(1u << ((POSITION_OF(own) - first - lane) / INVOCATIONS));
            while (others != 0u) {
                uint position = POSITION(uint(findLSB(others)));
                others &= others - 1u;
                if (position < end) {
                    CANDIDATE candidate = candidate_at(start, position);
                    if (!comes_before(last, candidate)) { collect(candidate); }
                }
            }
        }
        barrier();
        is_done = count <= COLLECTED;
        if (!is_done) { find_limit_among_all(lane, leader); }
    }
    uint total = count;
    for (uint number = lane; number < total; number += INVOCATIONS) {
        CANDIDATE candidate = collected[number];
        uint rank = rank_of(candidate, total);
        if (rank < parameters.kept && has_work) { KEEP(rank, candidate); }
    }
#ifndef WRITES_RESULTS
    for (uint number = total + lane; number < parameters.kept; number += INVOCATIONS) {
        if (has_work) { KEEP(number, NO_CANDIDATE); }
    }
#endif
}
