#!/bin/sh
# Installs what the tests of pages look at them with, where that may be done: Playwright into .venv,
# Chromium from Debian where we are root on Debian. Does nothing, quickly, when it is there. What
# can't be had is said loudly, and the tests that need it skip.
set -u

cd "$(dirname "$0")/.." || exit 1
python=.venv/bin/python

"$python" -c "import playwright" 2> /dev/null ||
    "$python" -m pip install --quiet --disable-pip-version-check -r requirements-browser.txt ||
    echo "SKIP the tests of pages: pip can't install playwright" >&2

# Not named as what it looks for: `command -v` would find the function.
have_browser() {
    [ -n "${FULLBORE_CHROMIUM:-}" ] && return 0
    for name in chromium chromium-browser google-chrome; do
        command -v "$name" > /dev/null && return 0
    done
    if ! command -v apt-get > /dev/null || [ "$(id -u)" != 0 ]; then
        echo "SKIP the tests of pages: no Chromium (apt-get install chromium as root, or name one by FULLBORE_CHROMIUM)" >&2
        return
    fi
    apt-get update -qq > /dev/null
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium \
        fonts-dejavu-core > /dev/null ||
        echo "SKIP the tests of pages: apt-get can't install chromium" >&2
}
have_browser
exit 0
