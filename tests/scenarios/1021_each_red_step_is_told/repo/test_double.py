import unittest

from double import double


class Test(unittest.TestCase):
    def test_two(self):
        self.assertEqual(double(2), 4)
