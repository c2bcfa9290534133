def total(): return 0
