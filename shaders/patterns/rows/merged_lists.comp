// TOP_K, TOP_K1: lists of two tiles made one.
// Of every two neighbouring sorted lists of a row one that has the first candidates of both. An invocation finds by
// bisection how many of the other list come before its own candidate, and so its place. Of equal ones, which only NO_CANDIDATE
// can be, those of the first list come first.
//
// The compile script passes KEY_WORDS.
#define LANES 4
#include "datatypes.glsl"

layout(local_size_x = 256) in;

layout(push_constant) uniform Parameters {
    uint base_lists; // in words; a multiple of 4
    uint base_merged;
    uint work_items; // candidates
    uint lists;      // of a row
    uint list_length; // of a list
    uint kept;       // of a merged one
} parameters;

#include "buffers.glsl"

BUFFER(0, lists)
BUFFER(1, merged)

#include "rows/candidates.glsl"

void main() {
    WORK_ITEM(item)
    uint pairs = (parameters.lists + 1u) / 2u;
    uint within = item % (2u * parameters.list_length);
    uint merged = item / (2u * parameters.list_length);
    uint side = within / parameters.list_length;
    uint number = within % parameters.list_length;
    uint list = merged % pairs * 2u + side;
    uint row_start = merged / pairs * parameters.lists;
    uint start = (row_start + list) * parameters.list_length;
    uint other_start = (row_start + (list ^ 1u)) * parameters.list_length;
    bool is_there = list < parameters.lists;
    bool other_is_there = (list ^ 1u) < parameters.lists;

    CANDIDATE own = NO_CANDIDATE;
    if (is_there) { own = CANDIDATE_AT(lists, start + number); }
    uint low = 0u;
    uint high = other_is_there ? parameters.list_length : 0u;
    while (low < high) {
        uint middle = (low + high) / 2u;
        CANDIDATE other = CANDIDATE_AT(lists, other_start + middle);
        bool is_before = side == 0u ? comes_before(other, own) : !comes_before(own, other);
        low = is_before ? middle + 1u : low;
        high = is_before ? high : middle;
    }
    uint rank = number + low;
    if (rank < parameters.kept) { CANDIDATE_AT(merged, merged * parameters.kept + rank) = own; }
}
