// How many results of a tile are not certified, and a bit for each: of the results of an invocation of exact_tiles.glsl.

// Up to so many results of a tile are computed one by one, and all of the tile where there are more.
#define MOST_APART 256u

#define REST_COUNT(group) (BASE_WORD(rest) + (group))
#define REST_MASK(group, invocation) (BASE_WORD(rest) + parameters.work_items + (group) * 256u + (invocation))
