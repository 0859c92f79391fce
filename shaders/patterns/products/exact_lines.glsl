// What is known of a line of an operand of an exact product as a whole, and its magnitudes: exact_layout.glsl. A work group has a line.
//
// The unit is a power of two of an eighth to a 32nd of the mean of the magnitudes that are no zeros.
#extension GL_EXT_control_flow_attributes : enable

#include "datatypes.glsl"

#define LANES 4
#include "buffers.glsl"

#define INVOCATIONS 64
layout(local_size_x = INVOCATIONS) in;

BUFFER(0, operand)

layout(push_constant) uniform Parameters {
    uint base_operand;
    uint work_items; // lines of all copies
    uint lines;      // of each
    uint copies;
    uint terms;
} parameters;

#include "arithmetic.glsl"
#include "products/exact_layout.glsl"

shared uvec4 largest[INVOCATIONS]; // p, a block's sum, whether something is out of range, how many are no zeros
shared vec4 totals[INVOCATIONS];   // of p, of sums, of p for each that is no zero

vec4 sum_of(vec4 a, vec4 b)
{
    precise vec4 sum = a + b;
    return sum;
}

void main()
{
    uint group = work_group_index();
    if (group >= parameters.work_items) {
        return;
    }
    uint own = index_in_group();
    uint lines = parameters.lines;
    uint copy = group / lines;
    uint line = group % lines;
    uint base = BASE_WORD(operand) >> 2u;
    uint first_block = base + block_at(parameters.copies, copy, 0u, lines) + line;
    uvec4 most = uvec4(0u);
    vec4 total = vec4(0.0);
    for (uint block = own; block < BLOCKS; block += INVOCATIONS) {
        uvec4 numbers = fours_operand[first_block + block * lines];
        most = uvec4(max(most.xyz, numbers.xyw), most.w + numbers.z);
        precise float weighted = float(int(numbers.z)) * uintBitsToFloat(numbers.x); // exact
        total = sum_of(total, vec4(uintBitsToFloat(numbers.x), uintBitsToFloat(numbers.y), weighted, 0.0));
    }
    largest[own] = most;
    totals[own] = total;
    for (uint half_ = INVOCATIONS / 2u; half_ > 0u; half_ /= 2u) {
        barrier();
        if (own < half_) {
            uvec4 other = largest[own + half_];
            largest[own] = uvec4(max(largest[own].xyz, other.xyz), largest[own].w + other.w);
            totals[own] = sum_of(totals[own], totals[own + half_]);
        }
    }
    barrier();
    most = largest[0];
    uvec4 whole = floatBitsToUint(totals[0]);
    uint unit = most.w == 0u ? 0u : (whole.y >> 23u) - uint(findMSB(most.w)) - 4u; // its exponent, biased
    if (own == 0u) {
        uint at = base + line_at(parameters.copies, copy, lines) + 2u * line;
        fours_operand[at] = uvec4(most.x, whole.x, most.y, whole.y);
        fours_operand[at + 1u] = uvec4(whole.z, unit << 23u, most.z, 0u);
    }
    uvec4 planes = uvec4(plane_at(copy, 0u, lines), plane_at(copy, 1u, lines), plane_at(copy, 2u, lines), plane_at(copy, MAGNITUDES, lines));
    planes += base + line * LINE_VECTORS;
    for (uint vector = own; vector < LINE_VECTORS; vector += INVOCATIONS) {
        // Of a term n p 2^-23 that was rounded, (2 |n| - 1) p 2^-24 is no more than its magnitude.
        int down = int(unit) + 24 - int(fours_operand[first_block + vector / BLOCK_VECTORS * lines].x >> 23u);
        ivec4 first = ivec4(fours_operand[planes.x + vector]);
        ivec4 second = ivec4(fours_operand[planes.y + vector]);
        ivec4 third = ivec4(fours_operand[planes.z + vector]);
        uvec4 magnitudes = uvec4(0u);
        [[unroll]] for (int i = 0; i < 4; ++i) {
            ivec4 upper = bitfieldExtract(first, 8 * i, 8) << 16;
            ivec4 integers = upper + (bitfieldExtract(second, 8 * i, 8) << 8) + bitfieldExtract(third, 8 * i, 8);
            uvec4 sizes = uvec4(max(integers, -integers));
            uvec4 doubled = 2u * sizes - min(sizes, uvec4(1u));
            uvec4 units = down >= 0 ? doubled >> min(uint(down), 31u) : doubled << min(uint(-down), 7u);
            magnitudes |= min(units, uvec4(127u)) << uint(8 * i);
        }
        fours_operand[planes.w + vector] = magnitudes;
    }
}
