"""Graph breaks: where a capture pauses, the one instruction run natively there, and how the frame goes on."""
