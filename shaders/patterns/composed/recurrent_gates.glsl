// The main function of a step whose products are there. An invocation computes a 32-bit word of the state, so one unit or two.
uint projection(uint gate, uint unit) { return words_projections[projection_index(gate, unit)]; }

uint recurrence(uint gate, uint unit) {
    uint position = direction * parameters.batch + row;
    uint first = gate == LATER_PRODUCTS ? parameters.second_recurrences : 0u;
    uint product_row = gate == LATER_PRODUCTS ? position : position * min(GATES, LATER_PRODUCTS) + gate;
    return words_recurrences[BASE_WORD(recurrences) + first + product_row * parameters.hidden + unit];
}

void main() {
    WORK_ITEM(number)
    uint word = number % WORDS;
    row = number / WORDS % parameters.batch;
    direction = parameters.first_direction + number / WORDS / parameters.batch;
    state_row = (direction * parameters.batch + row) * WORDS;
    uint hidden = 0u;
    uint second = 0u;
    for (uint lane = 0u; lane < UNITS_OF_WORD; ++lane) {
        uint unit = word * UNITS_OF_WORD + lane;
        if (unit < parameters.hidden) {
            Unit next = stepped(unit);
            hidden |= NARROW(next.hidden) << (lane * 16u);
            second |= NARROW(next.second) << (lane * 16u);
        }
    }
    store_word(word, hidden, second);
}
