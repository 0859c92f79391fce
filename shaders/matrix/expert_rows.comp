// Products of rows with packed matrices that each row chooses, on GPUs.
#include "products/experts.glsl"
#define main multiply
#include "products/block_rows.glsl"
#undef main

void main() {
    FIND_EXPERT
    multiply();
}
