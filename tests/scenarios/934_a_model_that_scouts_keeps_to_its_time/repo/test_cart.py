import unittest

from cart import Cart


class CartTest(unittest.TestCase):
    def test_total(self):
        cart = Cart()
        cart.add("nut", 2, 3)
        self.assertEqual(cart.total(), 6)
