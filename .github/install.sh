#!/bin/sh
# Installs onecard: one binary into ~/.local/bin, after its checksum was verified. Needs no rights and no packages.
#
#   curl -fsSL https://github.com/OWNER/onecard/releases/latest/download/install.sh | sh
#
# Everything is a function and the last line calls it, so a script that arrives cut off does nothing.
set -u

# Where the releases are: filled in when a release is made. Elsewhere ONECARD_REPOSITORY says it, or the checkout's origin.
REPOSITORY=''

usage() {
  cat <<'END'
install.sh: download onecard, verify its checksum, put it into a folder

Options (or the variable in brackets):
  --version VERSION  such as 0.1.0 [ONECARD_VERSION, default: the latest]
  --to FOLDER        where the binary goes [ONECARD_INSTALL_DIR, default: ~/.local/bin]
  --from URL         releases of a mirror, without a slash at the end
                     [ONECARD_RELEASES, default: those of ONECARD_REPOSITORY, an address or OWNER/NAME of GitHub]
END
}

say() { printf '%s\n' "$*" >&2; }

fail() {
  say "error: $1"
  [ $# -lt 2 ] || say "hint: $2"
  exit 1
}

has() { command -v "$1" >/dev/null 2>&1; }

# The target whose archive runs here. Linux archives need glibc: a static binary could not load the driver's library.
detect_target() {
  system=$(uname -s)
  machine=$(uname -m)
  case $machine in
    x86_64 | amd64) machine=x86_64 ;;
    aarch64 | arm64) machine=aarch64 ;;
    *) fail "there is no onecard for this processor ($machine)" "with Rust installed: cargo install --git, or cargo build --release" ;;
  esac
  case $system in
    Linux) check_libc; echo "$machine-unknown-linux-gnu" ;;
    Darwin)
      # A shell that runs translated calls an Apple processor x86_64.
      if [ "$machine" = x86_64 ] && [ "$(sysctl -n sysctl.proc_translated 2>/dev/null || true)" = 1 ]; then
        machine=aarch64
      fi
      echo "$machine-apple-darwin"
      ;;
    *) fail "there is no onecard for this system ($system)" "on Windows take the .zip of the release page" ;;
  esac
}

check_libc() {
  version=$(getconf GNU_LIBC_VERSION 2>/dev/null || true)
  version=${version#glibc }
  case $version in
    '')
      # Alpine and others; the text of musl's ldd goes to stderr.
      if (ldd --version 2>&1 || true) | grep -qi musl; then
        fail "this system uses musl; onecard needs glibc 2.17 or newer, as NVIDIA's driver does" \
          "use an image with glibc (debian, ubuntu, rockylinux), or gcompat"
      fi
      ;;
    2.[0-9] | 2.1[0-6] | 2.[0-9].* | 2.1[0-6].*)
      fail "glibc $version is too old: onecard needs 2.17 or newer" "any distribution since 2014 has it"
      ;;
  esac
}

# fetch URL FILE. Only options that curl has had since 7.10 and wget since 1.10; busybox has a part of them.
fetch() {
  if has curl; then
    curl -fsSL --connect-timeout 20 --speed-limit 1 --speed-time 60 -o "$2" "$1"
  elif has wget; then
    if wget --help 2>&1 | grep -q -e --tries; then
      wget -q --tries=2 --timeout=60 -O "$2" "$1"
    else
      wget -q -T 60 -O "$2" "$1"
    fi
  else
    fail "neither curl nor wget is here" "install one of them, or download the archive by hand"
  fi
}

sha256_of() {
  if has sha256sum; then
    sha256sum "$1" | cut -d ' ' -f 1
  elif has shasum; then
    shasum -a 256 "$1" | cut -d ' ' -f 1
  elif has openssl; then
    openssl dgst -sha256 "$1" | sed 's/^.* //'
  else
    fail "nothing here computes SHA-256 (sha256sum, shasum, openssl)" "an archive that was not verified is not installed"
  fi
}

# The whole path as the shell would find it, or nothing.
on_path() {
  case ":${PATH:-}:" in
    *":$1:"*) return 0 ;;
    *) return 1 ;;
  esac
}

# The address that a script lying in a checkout was cloned from; nothing for one that came through a pipe.
origin() {
  case $0 in
    */.github/install.sh) ;;
    *) return 0 ;;
  esac
  has git || return 0
  git -C "${0%/*}" remote get-url origin 2>/dev/null |
    sed -n -e 's|/$||' -e 's|\.git$||' -e 's|^ssh://git@|git@|' -e 's|^git@\([^:/]*\)[:/]|https://\1/|' -e '/^https:/p'
}

main() {
  version=${ONECARD_VERSION:-latest}
  folder=${ONECARD_INSTALL_DIR:-}
  releases=${ONECARD_RELEASES:-}
  while [ $# -gt 0 ]; do
    case $1 in
      --version | --to | --from)
        [ $# -ge 2 ] || fail "$1 needs a value"
        case $1 in
          --version) version=$2 ;;
          --to) folder=$2 ;;
          --from) releases=$2 ;;
        esac
        shift 2
        ;;
      -h | --help) usage; exit 0 ;;
      *) fail "unknown option $1" "see --help" ;;
    esac
  done
  if [ -z "$folder" ]; then
    [ -n "${HOME:-}" ] || fail "HOME is not set, so there is no ~/.local/bin" "name a folder: --to FOLDER"
    folder=$HOME/.local/bin
  fi
  if [ -z "$releases" ]; then
    repository=${ONECARD_REPOSITORY:-${REPOSITORY:-$(origin)}}
    case $repository in
      https://*/*/* | http://*/*/*) releases=${repository%/}/releases ;;
      *:* | */*/*) fail "no repository is named like this: $repository" "ONECARD_REPOSITORY is an address or OWNER/NAME" ;;
      */*) releases=https://github.com/$repository/releases ;;
      *) fail "this script does not say where the releases are" \
        "set ONECARD_REPOSITORY to the address of the repository that it came from, such as https://github.com/OWNER/onecard" ;;
    esac
  fi
  has tar || fail "tar is needed to unpack the archive"
  target=$(detect_target) || exit 1
  archive=onecard-$target.tar.gz
  case $version in
    latest) base=$releases/latest/download ;;
    *) base=$releases/download/v${version#v} ;;
  esac

  # Refused before anything is downloaded.
  mkdir -p "$folder" 2>/dev/null || fail "cannot make the folder $folder" "name one that you may write to: --to FOLDER"
  probe=$folder/.onecard-write-$$
  (: >"$probe") 2>/dev/null || fail "no permission to write to $folder" "name one that you may write to: --to FOLDER"
  rm -f "$probe"

  work=$(mktemp -d 2>/dev/null || mktemp -d -t onecard) || fail "no temporary folder can be made" "set TMPDIR"
  trap 'rm -rf "$work"' EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM HUP

  say "onecard: downloading $archive ($version)"
  fetch "$base/SHA256SUMS" "$work/SHA256SUMS" ||
    fail "cannot download $base/SHA256SUMS" "is there such a version, and does this machine reach that host? a mirror: --from URL"
  wanted=$(sed -n "s/^\([0-9a-f]\{64\}\)[ *]*$archive\$/\1/p" "$work/SHA256SUMS")
  [ -n "$wanted" ] || fail "this release has no $archive" "build it: cargo build --release"
  fetch "$base/$archive" "$work/$archive" ||
    fail "the download of $archive broke off; nothing was installed" "run this again"
  found=$(sha256_of "$work/$archive") || exit 1
  [ "$found" = "$wanted" ] ||
    fail "the checksum of $archive is wrong; nothing was installed (is $found, must be $wanted)" \
      "run this again; if it stays wrong, the download is damaged or not the released one"

  tar -xzof "$work/$archive" -C "$work" || fail "$archive cannot be unpacked; nothing was installed"
  unpacked=$work/onecard-$target/onecard
  [ -f "$unpacked" ] || fail "$archive holds no onecard; nothing was installed"
  chmod 755 "$unpacked"
  said=$("$unpacked" --version 2>&1) || fail "the binary does not run here: $said" "build it on this machine: cargo build --release"
  # Beside its place, then renamed: whoever runs onecard meanwhile has the old one or the new one.
  { cp "$unpacked" "$folder/.onecard-new-$$" && mv -f "$folder/.onecard-new-$$" "$folder/onecard"; } || {
    rm -f "$folder/.onecard-new-$$"
    fail "cannot write $folder/onecard" "is the disk full, or is it a folder?"
  }

  say "installed $said as $folder/onecard"
  if on_path "$folder"; then
    say "next: onecard env"
  else
    say "$folder is not on the PATH: export PATH=\"$folder:\$PATH\""
    say "next: $folder/onecard env"
  fi
}

main "$@"
