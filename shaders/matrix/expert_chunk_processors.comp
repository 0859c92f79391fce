// Products of rows with packed matrices that each row chooses, chunk by chunk, on processors.
#include "products/experts.glsl"
#define main multiply
#include "products/chunk_processors.glsl"
#undef main

void main() {
    FIND_EXPERT
    multiply();
}
