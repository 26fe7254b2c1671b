"""The machines a program runs on: `cpu`, and `null`, which only records."""
