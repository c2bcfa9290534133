import unittest

from sign import sign


class SignTest(unittest.TestCase):
    def test_sign(self):
        self.assertEqual(sign("a")[-1:], "a")
