// TOP_K, TOP_K1: values and indices.
// The elements that the list of each row names, and their places.
#define HAS_LISTS
#define WRITES_RESULTS
#include "rows/ordered_rows.glsl"

void main() {
    WORK_ITEM(item)
    uint number = item % parameters.kept;
    write_result(start_of(item / parameters.kept), number, POSITION_OF(CANDIDATE_AT(lists, item)));
}
