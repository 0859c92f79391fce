"""The numeric contract, measured: references, inputs, and what runs operators on them."""
