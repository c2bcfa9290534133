git config core.hooksPath .husky/_
mkdir -p .husky/_ .git/modules/sub
echo '*' > .husky/_/.gitignore
