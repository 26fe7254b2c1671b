"""How the machine treats each kind of Python value: attributes, calls, tensors, modules, outside objects."""
