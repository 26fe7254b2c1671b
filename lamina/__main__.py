"""`python -m lamina` is the `lamina` command."""

from __future__ import annotations

import sys

from lamina.cli import main

sys.exit(main())
