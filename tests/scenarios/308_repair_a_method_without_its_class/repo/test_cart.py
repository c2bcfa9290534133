import unittest

from cart import Cart


class CartTest(unittest.TestCase):
    def test_total(self):
        self.assertEqual(Cart([1, 2]).total, 3)

    def test_third(self):
        self.assertEqual(str(Cart([5]).third()), "1.66")
