APP = 1
