// What neighbours come to, of which there are COUNT, a constant and a power of four above one: joined four at a time, these fours four at a
// time, and so on, all in rising order.
//
// JOINED_BY_FOURS(name, COUNT, State, EMPTY_STATE, fours_state, joined) defines name(first, begin, end), where fours_state(first, begin, end)
// is what the four from number `first` on come to; it is given begin and end, whatever these are.
#define JOINED_BY_FOURS(name, COUNT, State, EMPTY_STATE, fours_state, joined) \
    State name(uint first, uint begin, uint end) { \
        State sixteens = EMPTY_STATE; \
        State sixty_fours = EMPTY_STATE; \
        State all = EMPTY_STATE; \
        for (uint i = 4u; i <= COUNT; i += 4u) { \
            sixteens = joined(sixteens, fours_state(first + i - 4u, begin, end)); \
            if ((i & 15u) == 0u) { \
                sixty_fours = joined(sixty_fours, sixteens); \
                sixteens = EMPTY_STATE; \
            } \
            if ((i & 63u) == 0u) { \
                all = joined(all, sixty_fours); \
                sixty_fours = EMPTY_STATE; \
            } \
        } \
        if (COUNT == 4u) { return sixteens; } \
        if (COUNT == 16u) { return sixty_fours; } \
        return all; \
    }
