printf 'ab\000cd' > picture.bin
