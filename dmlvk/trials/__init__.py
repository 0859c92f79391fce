"""What a device is tried for when it is opened."""
