// Outputs whose elements are each taken from a place that indices tell: included last by an operator's file, which defines
//   unit_at(places)   the unit that belongs at places.dense
//
// An invocation takes LANES units, a whole work group's number of them apart, so that neighbouring invocations take
// neighbouring ones at the same time: all are loaded, then all are stored. Units of 8 and 16 bits of a packed output
// (OUTPUT_PACKED) are made into whole words first.

#define FIRST_ITEM (work_group_index() * (256u * LANES) + index_in_group())

#if UNIT_BITS < 32
#define UNITS_IN_WORD (32u / UNIT_BITS)

// Of the last word some bits may lie behind the output's end: they stay as they are.
void make_word(uint word) {
    uint first = word * UNITS_IN_WORD;
    uint count = min(parameters.elements - first, UNITS_IN_WORD);
    uint bits = 0u;
    for (uint k = 0u; k < UNITS_IN_WORD; ++k) {
        if (k < count) { bits |= unit_at(offsets_of(first + k)) << (k * UNIT_BITS); }
    }
    uint offset = BASE_WORD(dense) + word;
    if (count == UNITS_IN_WORD) {
        words_dense[offset] = bits;
    } else {
        atomicAnd(words_dense[offset], 0xffffffffu << (count * UNIT_BITS));
        atomicOr(words_dense[offset], bits);
    }
}
#endif

#if UNIT_BITS >= 64
#define STORE_UNIT(offset, unit) LOAD_UNIT(dense, offset) = unit
#elif UNIT_BITS == 32
#define STORE_UNIT(offset, unit) words_dense[BASE_WORD(dense) + (offset)] = unit
#else
#define STORE_UNIT(offset, unit) STORE(UNIT_BITS, words_dense, BASE(UNIT_BITS, dense) + (offset), unit)
#endif

void main() {
    uint first = FIRST_ITEM;
#if UNIT_BITS < 32
    if (OUTPUT_PACKED) {
        uint words = (parameters.elements + (UNITS_IN_WORD - 1u)) / UNITS_IN_WORD;
        for (uint lane = 0u; lane < LANES; ++lane) {
            uint word = first + lane * 256u;
            if (word < words) { make_word(word); }
        }
        return;
    }
#endif
    UNIT units[LANES];
    uint targets[LANES];
#define TAKE_UNIT(lane) \
    { \
        uint element = first + lane * 256u; \
        units[lane] = NO_UNIT; \
        targets[lane] = 0u; \
        if (element < parameters.elements) { \
            Offsets offsets = offsets_of(element); \
            targets[lane] = offsets.dense; \
            units[lane] = unit_at(offsets); \
        } \
    }
    FOR_EACH_LANE(TAKE_UNIT)
#define PUT_UNIT(lane) \
    if (first + lane * 256u < parameters.elements) { STORE_UNIT(targets[lane], units[lane]); }
    FOR_EACH_LANE(PUT_UNIT)
}
