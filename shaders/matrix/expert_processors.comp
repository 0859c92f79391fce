
// Products of rows with packed matrices that each row chooses, on processors.
#include "products/experts.glsl"
#define main multiply
#include "products/block_processors.glsl"
#undef main

void main() {
    FIND_EXPERT
    multiply();
}
