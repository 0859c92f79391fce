// A trial of FLOAT32 arithmetic: dmlvk/trials/arithmetic_trial.py.
// What a device makes of FLOAT32 arithmetic, for dmlvk/trials/arithmetic_trial.py, which knows what it must be: each invocation
// takes three numbers and gives RESULTS results. No constants are among them: llvmpipe takes x + 0
// for x, and x * 0 for 0, whatever x is, and no shader relies on it.
#include "error_free.glsl"

#define RESULTS 12u

layout(local_size_x = 256) in;
layout(std430, set = 0, binding = 0) coherent buffer Operands { uint operands[]; };
layout(std430, set = 0, binding = 1) coherent buffer Results { uint results[]; };
layout(push_constant) uniform Parameters {
    uint base_operands, base_results, count;
} parameters;

void main() {
    uint index = gl_GlobalInvocationID.x;
    if (index >= parameters.count) { return; }
    uint from = parameters.base_operands + 3u * index;
    float a = uintBitsToFloat(operands[from]);
    float b = uintBitsToFloat(operands[from + 1u]);
    float c = uintBitsToFloat(operands[from + 2u]);

    precise float total = a + b;
    precise float difference = a - b;
    precise float product = a * b;
    precise float product_plus = product + c;
    precise float product_from = c - product;
    float sum_error = two_sum(a, b).low;
    float exact_plus = exact_product_plus(leading_half(a), leading_half(b), c);
    precise float of_itself = a - a;
    precise float there_and_back = total - b;
    precise float right = a * c;
    precise float left = b * c;
    precise float of_sums = right + left;
    precise vec4 many = vec4(a, b, c, a) * vec4(b, c, a, b);
    precise vec4 many_plus = many + vec4(c);
    precise float one_by_one = product * c;

    uint to = parameters.base_results + RESULTS * index;
    results[to] = floatBitsToUint(total);
    results[to + 1u] = floatBitsToUint(difference);
    results[to + 2u] = floatBitsToUint(product);
    results[to + 3u] = floatBitsToUint(product_plus);
    results[to + 4u] = floatBitsToUint(product_from);
    results[to + 5u] = floatBitsToUint(sum_error);
    results[to + 6u] = floatBitsToUint(exact_plus);
    results[to + 7u] = floatBitsToUint(of_itself);
    results[to + 8u] = floatBitsToUint(there_and_back);
    results[to + 9u] = floatBitsToUint(of_sums);
    results[to + 10u] = floatBitsToUint(many_plus.x);
    results[to + 11u] = floatBitsToUint(one_by_one);
}
