"""Standard streams that outlive the terminal they lead to."""

import errno
import io
import os
import sys
from collections.abc import Buffer
