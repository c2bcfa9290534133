def subtotal(prices):
    total = 0
    for price in prices:
        price = int(price)
    return total
