# To be sourced. Installs Node.js 22 and the packages of package-lock.json below $target, and defines how to use them. The
# script that sources this has to define $here and `fail`.
its_node=22.23.3
directory="$target/node"
mkdir -p "$directory"
. "$here/../../../scripts/npm.sh"
find_platform
# The package `node` would install that of the platform by a script of its own; this is that.
install_packages "node-$platform@$its_node"
its_bin="$directory/node_modules/node-$platform/bin"

# Copies everything that the build reads, and links the packages: copy_sources DIRECTORY
copy_sources() {
  install_page_packages
  rm -rf "$1"
  mkdir -p "$1"
  (cd "$here" && cp -R package.json package-lock.json tsconfig.json vite.config.ts index.html src tests e2e "$1")
  ln -s "$target/packages/node_modules" "$1/node_modules"
}

# The packages are installed again if the lock changed.
install_page_packages() {
  packages="$target/packages"
  if ! cmp -s "$here/package-lock.json" "$packages/installed"; then
    echo "installing the packages of the page into $packages"
    rm -rf "$packages"
    mkdir -p "$packages"
    cp "$here/package.json" "$here/package-lock.json" "$packages"
    npm ci --prefix "$packages" --cache "$packages/cache" --silent --no-audit --no-fund --ignore-scripts ||
      fail "the packages of the page could not be installed from npm"
    rm -rf "$packages/cache"
    cp "$here/package-lock.json" "$packages/installed"
  fi
}

# Runs a script of package.json with Node.js 22: in_page DIRECTORY SCRIPT ARGUMENT…
in_page() {
  (cd "$1" && script=$2 && shift 2 && PATH="$its_bin:$PATH" && export PATH && npm run --silent "$script" -- "$@") ||
    fail "\`npm run $2\` failed in $1"
}
