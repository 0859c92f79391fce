// GATHER, GATHER_ELEMENTS, GATHER_ND, GATHER_ND1: the elements that indices point to.
#include "movement/gather_operands.glsl"

#define CHOOSE(n) \
    if (INDICES > n) { \
        Index index = load_index(offsets.index + n * INDEX_STEP); \
        source += nearest_choice(index, CHOICES_##n) * CHOICE_STRIDE_##n; \
    }

UNIT unit_at(Offsets offsets) {
    uint source = offsets.sparse;
    CHOOSE(0) CHOOSE(1) CHOOSE(2) CHOOSE(3) CHOOSE(4) CHOOSE(5) CHOOSE(6) CHOOSE(7)
    return LOAD_UNIT(sparse, source);
}

#include "movement/gathering.glsl"
