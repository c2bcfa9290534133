printf 'one\r\ntwo\r\nthree\r\n' | tee edited.txt written.txt > patched.txt
git config --global core.autocrlf >/dev/null 2>&1 || true
