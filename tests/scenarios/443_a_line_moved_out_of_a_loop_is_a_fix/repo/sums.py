def total(numbers):
    s = 0
    for number in numbers:
        s += number
        return s
