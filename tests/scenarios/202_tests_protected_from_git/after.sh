printf '\n\ndef test_mine():\n    assert add(3, 3) == 6\n' >> tests/test_calc.py
