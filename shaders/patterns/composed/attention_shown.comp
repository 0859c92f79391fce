// CACHED_ATTENTION, where scores or shares are an output: a word for each invocation. Rows have as many elements as the longest sequence
// has keys, and stand behind one another; keys that a query does not see have 0.

#include "composed/attention_shown_operands.glsl"

layout(constant_id = 15) const bool SHOWS_SHARES = false;

#define ELEMENTS (32u / ELEMENT_BITS)

uint shown_at(uint element, uint keys) {
    uint number = element / keys;
    uint key = element - number * keys;
    Row row = row_at(number);
    if (key < row.seen.x || key > row.seen.y) { return 0u; }
    float score = score_at(row, key);
    if (!SHOWS_SHARES) { return floatBitsToUint(score); }
    uint of_row = BASE_WORD(rows) + 3u * number; // what attention_totals.comp found
    uint weight = words_rows[of_row + 1u];
    if (weight == 0u) { return 0u; }
    precise float below = score - uintBitsToFloat(words_rows[of_row]);
    precise float share = share_of(below) * uintBitsToFloat(weight);
    return divide_f32(as_result(share), words_rows[of_row + 2u]);
}

void main() {
    uint word = invocation_index();
    uint all = COUNTS_PAST ? past_of(0u) + parameters.tokens : words_total[BASE_WORD(total)];
    uint keys = max(1u, min(all, parameters.columns));
    uint elements = keys * parameters.all_rows;
    uint first = word * ELEMENTS;
    if (word >= parameters.work_items || first >= elements) { return; }
#if ELEMENT_BITS == 16
    uint both = float16_from_float32(shown_at(first, keys));
    if (first + 1u < elements) { both |= float16_from_float32(shown_at(first + 1u, keys)) << 16u; }
    words_result[BASE_WORD(result) + word] = both;
#else
    words_result[BASE_WORD(result) + word] = shown_at(first, keys);
#endif
}
