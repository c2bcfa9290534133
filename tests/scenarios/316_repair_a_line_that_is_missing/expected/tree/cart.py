def subtotal(prices):
    total = 0
    for price in prices:
        price = int(price)
        total += price
    return total
