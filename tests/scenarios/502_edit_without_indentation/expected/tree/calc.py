def total(items):
    result = int(sum(items))
    return result
