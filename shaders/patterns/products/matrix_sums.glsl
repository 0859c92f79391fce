// The second step where totals were written: adds those of segments that were computed PARALLEL, in rising order, and finishes
// the results. The compile script passes INVOCATIONS.
#define ADDS_SEGMENTS 1
#define COUNTS_TERMS 0
#define SHAPE_AT_RUN_TIME 0
#include "products/matrix.glsl"

layout(local_size_x = INVOCATIONS) in;

void main() {
    uint invocation = work_group_index() * INVOCATIONS + index_in_group();
    if (invocation >= parameters.work_items) { return; }
    uint results = parameters.rows * parameters.columns;
    uint at_once = OUTPUT_HAS_PAIRS ? 2u : 1u;
    uint batches = parameters.work_items / (results / at_once);
    uint word = 0u;
    for (uint part = 0u; part < at_once; ++part) {
        uint number = invocation * at_once + part;
        uint position = number % results;
        uint row = position / parameters.columns;
        uint column = position % parameters.columns;
        Batch batch = batch_at(number / results, batches, 0u);
        uint index = batch.totals + position;
        uint sum = words_totals[index];
        for (uint segment = 1u; SEGMENTS_COME == PARALLEL && segment < SEGMENTS; ++segment) {
            index += batches * results;
            sum = sum_plus(sum, words_totals[index]);
        }
        uint result = finished(batch, sum, row, column);
        word |= result << (part * 16u);
        if (!OUTPUT_HAS_PAIRS) {
            store_result(batch, result, row, column);
        } else if (part == 1u) {
            words_output[output_index(batch, row, column) >> 1u] = word;
        }
    }
}
