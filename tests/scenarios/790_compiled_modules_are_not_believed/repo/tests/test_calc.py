from calc import add

assert add(1, 2) == 3
