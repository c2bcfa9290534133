ln -s tests checks
ln -s tests/test_calc.py alias.py
