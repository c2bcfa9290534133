import unittest

from cart import Cart


class CartTest(unittest.TestCase):
    def setUp(self):
        self.cart = Cart()
        self.cart.add("nut", 2, 3)
        self.cart.add("pear", 1)

    def test_total(self):
        self.assertEqual(self.cart.total(), 7)

    def test_count(self):
        self.assertEqual(self.cart.count(), 4)

    def test_names(self):
        self.assertEqual(list(self.cart.items), ["nut", "pear"])
