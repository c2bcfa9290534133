SUM = 3
