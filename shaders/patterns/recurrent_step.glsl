// The main function of one step: see recurrent.glsl. The file defines
//   WRITES_HIDDEN       1 where the state is written, and the output with it
//   WRITES_SECOND       1 where its other part is
void main()
{
    uint number = invocation_index();
    if (number >= parameters.work_items) {
        return;
    }
    uint words = (parameters.hidden + UNITS_OF_WORD - 1u) / UNITS_OF_WORD;
    uint word = number % words;
    row = number / words % parameters.batch;
    direction = parameters.first_direction + number / words / parameters.batch;
    state_row = (direction * parameters.batch + row) * words;
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
    uint time = parameters.times[direction];
    bool is_there = true;
    if (HAS(HAS_LENGTHS)) {
        is_there = time < words_constants[BASE_WORD(constants) + parameters.lengths + row];
    }
    uint place = BASE_WORD(state) + state_row + word;
#if WRITES_SECOND
    if (is_there) {
        words_state[place + parameters.second_state] = second;
    }
#endif
#if WRITES_HIDDEN
    if (is_there) {
        words_state[place] = hidden;
    }
    if (HAS(HAS_SEQUENCE)) {
        uint step_row = (time * parameters.directions + direction) * parameters.batch + row;
        words_sequence[BASE_WORD(sequence) + step_row * words + word] = is_there ? hidden : 0u;
    }
#endif
}
