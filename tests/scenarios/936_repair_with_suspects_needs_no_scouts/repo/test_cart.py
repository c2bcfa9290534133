import unittest

from cart import discounted, subtotal


class CartTest(unittest.TestCase):
    def test_subtotal(self):
        self.assertEqual(subtotal([1, 2]), 3)

    def test_discounted(self):
        self.assertEqual(discounted([100, 100], 10), 180)
