"""How operators are computed: from a checked description to a shader variant, its constants and its launch size."""
