// A sorted list of the few first elements of each tile of a row, which may be long: a work group for each tile.
//
// Each lane reads its elements once, keeps their keys, and finds the first one of them. Of the lanes' ones the last that is kept
// is a limit: as many elements as are kept do not come behind it, and all others that do not lie in the same lanes. Those are
// collected, in any order, and ranked. The limit is found among those lanes' ones that are kept of a block of lanes each.
#include "rows/ordered_rows.glsl"

#define INVOCATIONS 256u
#define BLOCK 32u
#define REGISTERS 32 // elements of a lane: the longest tile has as many for each

#if KEY_WORDS == 1
#define KEY uint
#define KEY_OF(candidate) ((candidate).x)
#define CANDIDATE_OF(key, position) MAKE_CANDIDATE(key, 0u, position)
#else
#define KEY uvec2
#define KEY_OF(candidate) ((candidate).xy)
#define CANDIDATE_OF(key, position) MAKE_CANDIDATE((key).x, (key).y, position)
#endif

#define FOR_EIGHT_REGISTERS(DO, n) DO(n) DO(n + 1u) DO(n + 2u) DO(n + 3u) DO(n + 4u) DO(n + 5u) DO(n + 6u) DO(n + 7u)
#define FOR_EACH_REGISTER(DO) FOR_EIGHT_REGISTERS(DO, 0u) FOR_EIGHT_REGISTERS(DO, 8u) FOR_EIGHT_REGISTERS(DO, 16u) FOR_EIGHT_REGISTERS(DO, 24u)

shared CANDIDATE firsts[INVOCATIONS];
shared CANDIDATE collected[COLLECTED];
shared CANDIDATE limit;
shared uint leading; // lanes' first elements that are kept of their block
shared uint count;

void main()
{
    uint list = work_group_index();
    uint lane = index_in_group();
    bool has_work = list < parameters.work_items;
    uint start = start_of(list / parameters.tiles).input_;
    uint first = list % parameters.tiles * parameters.tile;
    uint end = has_work ? min(parameters.row_length, first + parameters.tile) : first;

    KEY keys[REGISTERS];
#define POSITION(n) (first + lane + (n) * INVOCATIONS)
#define LOAD_SURELY(n) keys[n] = KEY_OF(candidate_at(start, POSITION(n)));
#define LOAD_IF_THERE(n) \
    keys[n] = KEY_OF(NO_CANDIDATE); \
    if (POSITION(n) < end) { \
        keys[n] = KEY_OF(candidate_at(start, POSITION(n))); \
    }
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
    if (POSITION(0u) < end) {
        own = CANDIDATE_OF(best, POSITION(best_at));
    }
#else
    CANDIDATE own = NO_CANDIDATE;
#define COMPARE(n) \
    { \
        CANDIDATE candidate = CANDIDATE_OF(keys[n], POSITION(n)); \
        own = POSITION(n) < end && comes_before(candidate, own) ? candidate : own; \
    }
    FOR_EACH_REGISTER(COMPARE)
#endif
    firsts[lane] = own;
    if (lane == 0u) {
        leading = 0u;
        count = 0u;
        limit = NO_CANDIDATE;
    }
    barrier();
    uint rank = 0u;
    for (uint other = 0u; other < BLOCK; ++other) {
        rank += comes_before(firsts[lane / BLOCK * BLOCK + other], own) ? 1u : 0u;
    }
    if (rank < parameters.kept && POSITION_OF(own) != 0xffffffffu) {
        collected[atomicAdd(leading, 1u)] = own;
    }
    barrier();
    uint leaders = leading;
    if (lane < leaders) {
        CANDIDATE candidate = collected[lane];
        rank = 0u;
        for (uint other = 0u; other < leaders; ++other) {
            rank += comes_before(collected[other], candidate) ? 1u : 0u;
        }
        if (rank == parameters.kept - 1u) {
            limit = candidate;
        }
    }
    barrier();
    // Lanes whose first element comes behind the limit have none that does not.
    CANDIDATE last = limit;
    if (!comes_before(last, own)) {
#define COLLECT(n) \
    { \
        CANDIDATE candidate = CANDIDATE_OF(keys[n], POSITION(n)); \
        if (POSITION(n) < end && !comes_before(last, candidate)) { \
            uint number = atomicAdd(count, 1u); \
            if (number < COLLECTED) { /* there are never more */ \
                collected[number] = candidate; \
            } \
        } \
    }
        FOR_EACH_REGISTER(COLLECT)
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
