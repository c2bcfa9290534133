import unittest

import cart


class CartTest(unittest.TestCase):
    def test_total(self):
        self.assertEqual(cart.total([1, 2]), 3)
