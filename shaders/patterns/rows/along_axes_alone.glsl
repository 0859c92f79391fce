// The way ALONE of along_axes.glsl: every invocation computes a row, its elements lane after lane.
#define LOAD_AGAIN(name, first) load_block(first, x_##name);
#define KEEP_AGAIN(name) TERMS_AGAIN(name)
#define EACH_BLOCK(DO) for (uint first = 0u; first < ROW_LENGTH; first += 4u) DO(0, first)

void main() {
    uint group = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x;
    uint row_number = group * 256u + index_in_group();
    if (row_number >= parameters.work_items) { return; }
    move_to_row(row_number);

    uint x_0[4];
    Extremes seen = NO_EXTREMES;
    EACH_BLOCK(SEE_BLOCK)
    Peak peak = peak_of_extremes(seen, 0u);

#ifndef RESULT_WITHOUT_SUM
    bool row_has_sum = has_sum(peak);
    PowerBasis basis = basis_of(peak);
    // A processor would execute both sides of a branch.
    const bool has_far = true;
    bool has_peak = true;
    Double terms_0[4];
    Double row_sum = FIRST_OF_SUMS;
    for (uint chain = 0u; chain < CHAINS; ++chain) {
        Double chain_sum = FIRST_OF_SUMS;
        for (uint i = 0u; i < LANES_IN_CHAIN; ++i) {
            Double sum = Double(FIRST_SUM, 0.0);
            uint lane = chain * LANES_IN_CHAIN + i;
            for (uint first = 4u * lane; first < ROW_LENGTH; first += 4u * LANES_PER_ROW) ADD_BLOCK(0, first)
            if (LANES_IN_CHAIN > 1u) {
                chain_sum = with_next_sum(chain_sum, sum_complete(sum, FIRST_SUM));
            } else {
                chain_sum = sum_complete(sum, FIRST_SUM);
            }
        }
        row_sum = with_next_sum(row_sum, LANES_IN_CHAIN > 1u ? complete_sum(chain_sum) : chain_sum);
    }
    ROW row = row_of(row_words_of(complete_sum(row_sum), basis), basis, has_far);
#endif
    EACH_BLOCK(STORE_BLOCK)
}
