def double(n):
    return n + n
