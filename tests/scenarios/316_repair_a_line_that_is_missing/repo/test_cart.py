import unittest

from cart import subtotal


class CartTest(unittest.TestCase):
    def test_none(self):
        self.assertEqual(subtotal([]), 0)

    def test_subtotal(self):
        self.assertEqual(subtotal(["1", "2"]), 3)
