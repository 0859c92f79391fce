// SCATTER, SCATTER_ND: each element from the update that its place has, or from the input where it has none.
#define HAS_UPDATES
#include "movement/gather_operands.glsl"

// Updates are numbered along these axes, the innermost first.
#define MOVE_TO_UPDATE(n) \
    if (INDICES > n) { \
        offset += number % CHOICES_##n * CHOICE_STRIDE_##n; \
        number /= CHOICES_##n; \
    }

UNIT unit_at(Offsets offsets) {
    uint number = words_index[BASE_WORD(index) + offsets.index];
    if (number == 0u) { return LOAD_UNIT(sparse, offsets.sparse); }
    number -= 1u;
    uint offset = offsets.position;
    MOVE_TO_UPDATE(0) MOVE_TO_UPDATE(1) MOVE_TO_UPDATE(2) MOVE_TO_UPDATE(3)
    MOVE_TO_UPDATE(4) MOVE_TO_UPDATE(5) MOVE_TO_UPDATE(6) MOVE_TO_UPDATE(7)
    return LOAD_UNIT(updates, offset);
}

#include "movement/gathering.glsl"
