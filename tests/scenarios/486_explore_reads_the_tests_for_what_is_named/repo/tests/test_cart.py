import cart
