from calc import total

assert total([1.5, 2]) == 3
