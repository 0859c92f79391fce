"""Arrays: on the host and as bytes of a buffer, on the device, parts of them, memory for them."""
