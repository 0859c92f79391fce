// A sorted list of the few first elements of each tile of a row, which may be long: a work group for each tile.
//
// Each lane reads its elements once, keeps their keys, and finds the first one of them. Of the lanes' ones the last that is kept
// is a limit: as many elements as are kept do not come behind it, and all others that do not lie in the same lanes. Those are
// collected, in any order, and ranked. The limit is found among those lanes' ones that are kept of a block of lanes each: in each block
// by comparing all with all, and then by bisection of the other blocks' lists, all of them at once.
#extension GL_EXT_control_flow_attributes : enable
#include "rows/ordered_rows.glsl"

#define INVOCATIONS 256u
#define BLOCK 32u
#define BLOCKS (INVOCATIONS / BLOCK)
#define REGISTERS 32 // elements of a lane: the longest tile has as many for each

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
#define FOR_EACH_REGISTER(DO) FOR_EIGHT_REGISTERS(DO, 0u) FOR_EIGHT_REGISTERS(DO, 8u) FOR_EIGHT_REGISTERS(DO, 16u) FOR_EIGHT_REGISTERS(DO, 24u)

shared CANDIDATE firsts[INVOCATIONS];
shared CANDIDATE collected[COLLECTED];
shared CANDIDATE limit;
shared uint count;

void collect(CANDIDATE candidate)
{
    uint number = atomicAdd(count, 1u);
    if (number < COLLECTED) { // there are never more
        collected[number] = candidate;
    }
}

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
    // Lanes that have none differ, too: behind all others, so that each block's list has no gap.
    CANDIDATE leader = own;
    if (POSITION_OF(own) == 0xffffffffu) {
        POSITION_OF(leader) -= INVOCATIONS - lane;
    }
    firsts[lane] = leader;
    if (lane == 0u) {
        count = 0u;
    }
    barrier();
    uint rank = 0u;
    [[unroll]] for (uint other = 0u; other < BLOCK; ++other) {
        rank += comes_before(firsts[lane / BLOCK * BLOCK + other], leader) ? 1u : 0u;
    }
    if (rank < parameters.kept) {
        collected[lane / BLOCK * parameters.kept + rank] = leader;
    }
    barrier();
    if (lane < BLOCKS * parameters.kept) {
        leader = collected[lane];
        uint before[BLOCKS]; // elements of each list that come before that one
        [[unroll]] for (uint block = 0u; block < BLOCKS; ++block) {
            before[block] = 0u;
        }
        for (uint step = 1u << uint(findMSB(parameters.kept)); step > 0u; step /= 2u) {
            [[unroll]] for (uint block = 0u; block < BLOCKS; ++block) {
                uint next = before[block] + step;
                CANDIDATE other = collected[block * parameters.kept + min(next, parameters.kept) - 1u];
                before[block] = next <= parameters.kept && comes_before(other, leader) ? next : before[block];
            }
        }
        rank = 0u;
        [[unroll]] for (uint block = 0u; block < BLOCKS; ++block) {
            rank += before[block];
        }
        if (rank == parameters.kept - 1u) {
            limit = leader;
        }
    }
    barrier();
    // Lanes whose first element comes behind the limit have none that does not. Others have seldom more than that one: a bit for each that may
    // be one, whose element is read again, is a third of the time of looking at all.
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
                if (!comes_before(last, candidate)) {
                    collect(candidate);
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
