#!/usr/bin/env bash
# What the release workflow does with the built binaries; each step can be run by hand.
#
#   release.sh stamp OWNER/NAME              this tree's address (GITHUB_SERVER_URL is honoured) into README, examples, action,
#                                            install script, and `repository` of Cargo.toml, which `cargo binstall` asks for
#   release.sh check BINARY                  the newest glibc that it asks for, and the libraries that it needs
#   release.sh pack TARGET BINARY RUNNABLE   dist/onecard-TARGET.tar.gz (.zip for Windows); completions and man pages
#                                            are written by RUNNABLE, a onecard that runs here
#   release.sh finish                        dist/install.sh of the stamped tree, dist/SHA256SUMS
set -euo pipefail
top=$(cd "$(dirname "$0")/.." && pwd)
# Archives hold the same bytes whenever they are made from the same commit.
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-0}

fail() {
  echo "error: $*" >&2
  exit 1
}

stamp() {
  local address=${GITHUB_SERVER_URL:-https://github.com}/$1 file
  [[ $1 =~ ^[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+$ ]] || fail "expected OWNER/NAME, not $1"
  for file in README.md .github/install.sh .github/action/action.yml "$top"/.github/examples/*; do
    sed -i.unstamped -e "s|https://github\.com/OWNER/onecard|$address|g" -e "s|OWNER/onecard|$1|g" \
      -e "s|^REPOSITORY='[^']*'\$|REPOSITORY='$address'|" "$top/${file#"$top/"}"
    rm -f "$top/${file#"$top/"}.unstamped"
  done
  sed -i.unstamped -e '/^repository = /d' -e "s|^license = .*|&\nrepository = \"$address\"|" "$top/Cargo.toml"
  rm -f "$top/Cargo.toml.unstamped"
  echo "stamped with $address"
}

check() {
  local newest wrong
  newest=$(objdump -T "$1" | grep -o 'GLIBC_[0-9.]*' | sort -uV | tail -n 1)
  echo "$1 asks for $newest"
  [ "$(printf '%s\nGLIBC_2.17\n' "$newest" | sort -V | tail -n 1)" = GLIBC_2.17 ] || fail "that is newer than 2.17"
  # libc's own parts only: no OpenSSL, no CUDA, no C++ runtime.
  wrong=$(objdump -p "$1" | awk '$1 == "NEEDED" { print $2 }' |
    grep -vE '^(libc|libm|libdl|libpthread|librt|libutil|ld-linux.*)\.so' || true)
  [ -z "$wrong" ] || fail "it needs $wrong"
}

pack() {
  local target=$1 binary=$2 runnable=$3 name work
  name=onecard-$target
  work=$(mktemp -d)
  mkdir -p "$work/$name/completions" dist
  case $target in
    *windows*) install -m 755 "$binary" "$work/$name/onecard.exe" ;;
    *) install -m 755 "$binary" "$work/$name/onecard" ;;
  esac
  cp "$top/README.md" "$top/LICENSE" "$work/$name/"
  cp -R "$top/.github/examples" "$work/$name/examples"
  "$runnable" --licenses >"$work/$name/LICENSES-THIRD-PARTY"
  "$runnable" --quiet --man "$work/$name/man"
  "$runnable" --completions bash >"$work/$name/completions/onecard"
  "$runnable" --completions zsh >"$work/$name/completions/_onecard"
  "$runnable" --completions fish >"$work/$name/completions/onecard.fish"
  "$runnable" --completions powershell >"$work/$name/completions/_onecard.ps1"
  find "$work/$name" -exec touch -d "@$SOURCE_DATE_EPOCH" {} +
  case $target in
    *windows*)
      (cd "$work" && zip -qrX "$name.zip" "$name")
      mv "$work/$name.zip" dist/
      ;;
    *)
      tar -C "$work" --sort=name --owner=0 --group=0 --numeric-owner -cf - "$name" | gzip -9n >"dist/$name.tar.gz"
      ;;
  esac
  rm -rf "$work"
}

finish() {
  grep -q "^REPOSITORY='http" "$top/.github/install.sh" || fail "the install script knows no address: release.sh stamp OWNER/NAME first"
  install -m 755 "$top/.github/install.sh" dist/install.sh
  (cd dist && rm -f SHA256SUMS && sha256sum -- * >"$OLDPWD/SHA256SUMS.new" && mv "$OLDPWD/SHA256SUMS.new" SHA256SUMS)
}

case ${1:-} in
  stamp | check | pack | finish) ;;
  *) sed -n '2,10s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac
"$@"
