"""What the lab's Python commands share."""
