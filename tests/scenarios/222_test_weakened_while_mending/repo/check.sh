grep -q "== 3" tests/test_calc.py && exec python3 -c "import calc; assert calc.add(1, 2) == 3"
! grep -q "== 3" tests/test_calc.py
