import sys

sys.path.insert(0, ".")
from calc import add

assert add(1, 2) == 3
