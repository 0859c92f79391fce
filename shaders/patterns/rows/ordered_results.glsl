// The elements that the list of each row names, and their places.
#define WRITES_RESULTS
#include "rows/ordered_rows.glsl"

void main()
{
    uint item = invocation_index();
    if (item >= parameters.work_items) {
        return;
    }
    uint number = item % parameters.kept;
    RowStart start = start_of(item / parameters.kept);
    uint position = POSITION_OF(CANDIDATE_AT(lists, item));
    uint target = start.values + number * VALUES_STEP;
#if UNIT_BITS == 64
    pairs_values[(BASE_WORD(values) >> 1u) + target] = LOAD_ELEMENT(start.input_ + position * INPUT_STEP);
#else
    uint element = LOAD_ELEMENT(start.input_ + position * INPUT_STEP);
    STORE(UNIT_BITS, words_values, BASE(UNIT_BITS, values) + target, element);
#endif
    target = start.positions + number * POSITIONS_STEP;
    if (POSITIONS_ARE_PAIRS) {
        words_positions[BASE_WORD(positions) + 2u * target] = position;
        words_positions[BASE_WORD(positions) + 2u * target + 1u] = 0u;
    } else {
        words_positions[BASE_WORD(positions) + target] = position;
    }
}
