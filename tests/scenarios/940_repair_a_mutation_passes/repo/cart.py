def is_free(total, limit):
    return total > limit
