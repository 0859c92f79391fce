
// Products of rows with matrices of floats that each row chooses.
#include "products/expert_floats.glsl"
