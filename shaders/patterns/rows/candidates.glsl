// The elements of a row in the order that an operator wants, as candidates: a key, and the place in the row.
//
// Of two candidates the one of the larger key comes first; of equal keys the one in the lower place. So all candidates of a row
// differ, and their order does not depend on how they are compared. Keys are made of elements so that NaN comes behind
// all numbers, and both zeros are equal (ordered_rows.glsl).
//
// The compile script passes
//   KEY_WORDS   words of a key: 1, or 2 for elements of 64 bits (the high one first)
#if KEY_WORDS == 1
#define CANDIDATE uvec2
#define POSITION_OF(candidate) ((candidate).y)
#define MAKE_CANDIDATE(high, low, position) uvec2(high, position)
#define NO_CANDIDATE uvec2(0u, 0xffffffffu)
#define CANDIDATE_AT(name, number) pairs_##name[(BASE_WORD(name) >> 1u) + (number)]
bool comes_before(uvec2 a, uvec2 b) { return a.x > b.x || (a.x == b.x && a.y < b.y); }
#else
#define CANDIDATE uvec4
#define POSITION_OF(candidate) ((candidate).z)
#define MAKE_CANDIDATE(high, low, position) uvec4(high, low, position, 0u)
#define NO_CANDIDATE uvec4(0u, 0u, 0xffffffffu, 0u)
#define CANDIDATE_AT(name, number) fours_##name[(BASE_WORD(name) >> 2u) + (number)]
bool comes_before(uvec4 a, uvec4 b) {
    if (a.x != b.x) { return a.x > b.x; }
    return a.y > b.y || (a.y == b.y && a.z < b.z);
}
#endif
