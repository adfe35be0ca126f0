#!/usr/bin/env bash
# A container engine for the tests: Podman, at a socket of its own, with an image that is made of Debian packages.
#
#   scripts/test-engine.sh start    prepares what is missing, starts the engine, and prints the two variables;
#                                   without root and with PROWESS_WAIVE_ROOT=1, the one that waives its tests
#   scripts/test-engine.sh stop     stops it
#
# What is there already is used again. It needs root and apt once; nothing but apt's own mirrors is asked.
set -euo pipefail

at=${PROWESS_TEST_ENGINE_DIR:-/var/lib/prowess-test-engine}
# Each checkout has a service of its own; images are shared.
checkout=$(cd "$(dirname "$0")/.." && pwd | cksum | cut -d ' ' -f 1)
socket=/run/prowess-test-engine-$checkout.sock
service=$at/service-$checkout
image=localhost/prowess-test:$(cksum <"$0" | cut -d ' ' -f 1)
packages=(bash coreutils dash findutils grep libc-bin libpython3.11-stdlib perl-base procps python3-minimal sed util-linux)

export CONTAINERS_CONF=$at/containers.conf
engine=(podman --root "$at/storage" --runroot "$at/run")

# Runs something for so many seconds at most, until it succeeds.
wait_for() {
  local until=$((SECONDS + $1))
  shift
  until "$@" >/dev/null 2>&1; do
    ((SECONDS < until)) || return 1
    sleep 0.1
  done
}

install_engine() {
  command -v podman >/dev/null && command -v runc >/dev/null && return
  command -v apt-get >/dev/null || { echo "podman and runc are missing: install them" >&2; exit 1; }
  apt-get update -q >&2
  DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends podman runc >&2
}

# Limits of the engine's own would be above those of a machine that is a container itself.
configure() {
  mkdir -p "$at"
  cat >"$CONTAINERS_CONF" <<END
[containers]
default_ulimits = []
netns = "none"
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
runtime = "runc"
END
}

# An image from packages, as apt would install them on an empty system.
build_image() (
  "${engine[@]}" image exists "$image" && return
  root=$(mktemp -d)
  trap 'rm -rf "$root"' EXIT
  mkdir -p "$root/debs/partial" "$root/system"/{etc,proc,sys,dev,tmp,run,ws,usr/{bin,sbin,lib,lib64}}
  : >"$root/nothing-installed"
  chmod 755 "$root" && chmod 777 "$root/debs/partial"
  download() {
    apt-get -qqy --no-install-recommends --download-only -o Dir::State::status="$root/nothing-installed" \
      -o Dir::Cache::archives="$root/debs" -o Debug::NoLocking=1 install "${packages[@]}" >&2
  }
  # Without lists, or with old ones, it fails.
  download || { apt-get update -qq >&2 && download; }
  for link in bin sbin lib lib64; do ln -s "usr/$link" "$root/system/$link"; done
  for deb in "$root"/debs/*.deb; do
    dpkg-deb --fsys-tarfile "$deb" | tar -x --keep-directory-symlink -C "$root/system"
  done
  ln -sf dash "$root/system/usr/bin/sh"
  rm -rf "$root/system"/usr/share/{doc,man,info,locale}
  printf 'root:x:0:0::/root:/bin/sh\nnobody:x:65534:65534::/:/bin/sh\n' >"$root/system/etc/passwd"
  printf 'root:x:0:\nnogroup:x:65534:\n' >"$root/system/etc/group"
  # Variables and a volume of an image must not reach a command.
  tar -c -C "$root/system" . | "${engine[@]}" import --quiet --change 'ENV IMAGE_VARIABLE=leaked' \
    --change 'ENV BASH_ENV=/etc/leaked' --change 'VOLUME /srv/volume' - "$image" >/dev/null
)

# Containers of a killed engine may be impossible to remove, and every executor tries it again. So an engine starts
# without containers, unless an engine of another checkout runs.
remove_containers() {
  [ -d "$at/storage" ] || return 0
  local other
  for other in "$at"/service-*.pid; do
    [ -e "$other" ] && grep -qs "prowess-test-engine" "/proc/$(cat "$other")/cmdline" && return
  done
  timeout 60 "${engine[@]}" rm --all --force --time 0 >/dev/null 2>&1 && return
  awk -v at="$at/" 'index($2, at) == 1 { print $2 }' /proc/mounts | sort -r | xargs -r umount --lazy
  rm -rf "$at/storage" "$at/run"
}

answers() { podman --url "unix://$socket" version; }

start() {
  if [ "$(id -u)" != 0 ]; then
    if [ "${PROWESS_WAIVE_ROOT:-}" = 1 ]; then
      echo "the test engine needs root: tests of containers are waived by PROWESS_WAIVE_ROOT=1" >&2
      echo "export PROWESS_WAIVE_CONTAINERS=1"
      return
    fi
    echo "the test engine needs root: run this as root, or set PROWESS_WAIVE_ROOT=1 to go without containers" >&2
    exit 1
  fi
  install_engine
  configure
  answers >/dev/null 2>&1 || remove_containers
  build_image
  if ! answers >/dev/null 2>&1; then
    rm -f "$socket"
    # As a daemon: with a session and output of its own, and elsewhere, because its helpers write where they are.
    cd "$at"
    setsid "${engine[@]}" system service --time=0 "unix://$socket" >"$service.log" 2>&1 </dev/null &
    echo $! >"$service.pid"
    wait_for 30 answers || { echo "the engine does not answer; see $service.log" >&2; exit 1; }
  fi
  echo "export PROWESS_TEST_ENGINE=$socket PROWESS_TEST_IMAGE=$image"
}

stop() {
  local process
  process=$(cat "$service.pid" 2>/dev/null) || return 0
  rm -f "$service.pid" "$socket"
  grep -qs "$socket" "/proc/$process/cmdline" || return 0
  kill "$process" && wait_for 10 test ! -e "/proc/$process"
}

case ${1:-} in
  start | stop) "$1" ;;
  *) echo "usage: $0 start | stop" >&2; exit 2 ;;
esac
