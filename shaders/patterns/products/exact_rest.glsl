// The results that exact_tiles.glsl has left, of tiles with MOST_APART of them at most: 32 invocations share the terms of each. For those
// who permit a device its own arithmetic.
#define ADDS_SEGMENTS 0
#define COUNTS_TERMS 0
#define SHAPE_AT_RUN_TIME 0
#define READS_REST
#define TILE_ROWS 64
#define TILE_COLUMNS 128
#define INVOCATIONS 256
#include "products/matrix.glsl"
#include "products/matrix_groups.glsl"
#include "products/exact_marks.glsl"

layout(local_size_x = INVOCATIONS) in;

#define ABREAST 32u // invocations of a result
#define TERMS_AT_ONCE 8u
shared uint before[INVOCATIONS]; // how many results there are up to an invocation's mask
shared uint numbers[MOST_APART]; // 32 times the invocation whose mask has a result, and its bit
shared uint parts[INVOCATIONS], bounds[INVOCATIONS];

// Where a result of a tile lies, by its number.
uvec2 place_of(uint number) {
    uint invocation = number / 32u;
    uint subgroup = invocation / 32u;
    uint lane = invocation % 32u;
    uint matrix = number % 32u / 8u;
    uint each = number % 8u;
    uvec2 place = 32u * uvec2(subgroup / 4u, subgroup % 4u) + 16u * uvec2(matrix / 2u, matrix % 2u);
    return place + uvec2(lane / 16u + 2u * each, lane % 16u);
}

// In their order, segment by segment.
uint sum_in_order(Batch batch, uint row, uint column) {
    uint total = exact_sum(batch, row, column, 0u, min(SEGMENT, parameters.terms));
    for (uint first = SEGMENT; first < parameters.terms; first += SEGMENT) {
        total = sum_plus(total, exact_sum(batch, row, column, first, min(first + SEGMENT, parameters.terms)));
    }
    return total;
}

void main() {
    WORK_GROUP(group)
    uint count = words_rest[REST_COUNT(group)];
    if (count == 0u || count > MOST_APART) { return; }
    uint own = index_in_group();
    uint mask = words_rest[REST_MASK(group, own)];
    before[own] = uint(bitCount(mask));
    for (uint distance = 1u; distance < INVOCATIONS; distance *= 2u) {
        barrier();
        uint further = own >= distance ? before[own - distance] : 0u;
        barrier();
        before[own] += further;
    }
    uint next = before[own] - uint(bitCount(mask));
    for (uint rest = mask; rest != 0u; rest &= rest - 1u) {
        numbers[next] = 32u * own + uint(findLSB(rest));
        ++next;
    }
    barrier();
    Position position = position_of(group);
    Batch batch = position.batch;
    uint lane = own % ABREAST;
    for (uint item = own / ABREAST; item < (count + INVOCATIONS / ABREAST - 1u) / (INVOCATIONS / ABREAST) * (INVOCATIONS / ABREAST);
         item += INVOCATIONS / ABREAST) {
        uvec2 place = uvec2(position.first_row, position.first_column) + place_of(numbers[min(item, count - 1u)]);
        Column column = column_at(batch, place.y);
        float sum = 0.0;
        float magnitudes = 0.0; // of the products that are finite before they are rounded
        for (uint first = lane; first < parameters.terms; first += TERMS_AT_ONCE * ABREAST) {
            uvec2 operands[TERMS_AT_ONCE]; // which are on their way together: there is no branch
            [[unroll]] for (uint i = 0u; i < TERMS_AT_ONCE; ++i) {
                uint term = min(first + i * ABREAST, parameters.terms - 1u);
                operands[i] = uvec2(words_left[left_index(batch, place.x, term)], words_right[right_index(column, term)]);
            }
            [[unroll]] for (uint i = 0u; i < TERMS_AT_ONCE; ++i) {
                bool is_term = first + i * ABREAST < parameters.terms;
                operands[i] = is_term ? uvec2(operand(operands[i].x), operand(operands[i].y)) : uvec2(0u);
                vec2 numbers = uintBitsToFloat(operands[i]);
                if (is_finite(numbers.x) && is_finite(numbers.y)) {
                    vec2 sizes = uintBitsToFloat(operands[i] & MAGNITUDE_F32);
                    magnitudes = product_plus(sizes.x, sizes.y, magnitudes);
                }
                sum = product_plus(numbers.x, numbers.y, sum);
            }
        }
        parts[own] = floatBitsToUint(sum);
        bounds[own] = floatBitsToUint(magnitudes);
        for (uint half_ = ABREAST / 2u; half_ > 0u; half_ /= 2u) {
            barrier();
            if (lane < half_) {
                parts[own] = plain_sum(parts[own], parts[own + half_]);
                bounds[own] = plain_sum(bounds[own], bounds[own + half_]);
            }
        }
        if (lane == 0u && item < count) {
            uint total = parts[own];
            // Whether it overflows on its way says its order, if it may.
            if (!is_finite(uintBitsToFloat(total)) && !is_finite(uintBitsToFloat(bounds[own]))) {
                total = sum_in_order(batch, place.x, place.y);
            }
            store_result(batch, finished(batch, total, place.x, place.y), place.x, place.y);
        }
        barrier();
    }
}
