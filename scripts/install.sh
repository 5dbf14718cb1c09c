#!/bin/sh
# Installs verbatim's programs for Linux, on x86-64 or 64-bit Arm, without a compiler and without root.
#
#   sh install.sh [--from URL] [--version X] [--prefix DIR] [--key FILE] [--dry-run | --uninstall]
#
#   --from URL      the folder with the files of a release (else $VERBATIM_RELEASES, else what the publisher set, else
#                   the folder of this script, where they lie beside it)
#   --version X     that version (else the one that latest.txt names there)
#   --prefix DIR    DIR/lib/verbatim holds everything; DIR/bin and DIR/share link to it (~/.local)
#   --key FILE      the publisher's public key: refuse what it has not signed (needs ssh-keygen)
#   --dry-run       say what would be installed
#   --uninstall     remove all of it
#
# It needs curl or wget (busybox's will do) for an address, tar, gzip and sha256sum. The archive must have the sum that the release names,
# and the program must start; until then an installation that is there is not touched. A failure or Ctrl-C leaves
# nothing behind. Files that this script has not installed are never replaced.
RELEASES='' # `make release RELEASES=URL` writes the publisher's address here

say() { printf '%s\n' "install.sh: $*" >&2; }
fail() {
    say "$@"
    exit 1
}
fetch() { # URL FILE
    case $1 in file://*)
        cp "${1#file://}" "$2" || fail "cannot read ${1#file://}"
        return
        ;;
    esac
    if command -v curl >/dev/null; then curl -fsSL -o "$2" "$1"; else wget -q -O "$2" "$1"; fi || fail "cannot fetch $1"
}
# directory DIR: makes it and the folders above. `made` and `links` list what clean removes again.
directory() {
    [ ! -d "$1" ] || return 0
    directory "$(dirname "$1")"
    printf '%s\n' "$1" >>"$work/made"
    mkdir "$1" || fail "cannot make the folder $1"
}
clean() {
    trap '' HUP INT TERM
    while IFS= read -r file; do rm -f "$file"; done <"$work/links"
    [ -z "$staged" ] || rm -rf "$staged"
    sort -r "$work/made" | while IFS= read -r folder; do rmdir "$folder" 2>/dev/null; done
    rm -rf "$work"
}
# What the folder of an installation has for DIR/bin and DIR/share; whether DIR/FILE is our link to it.
linked() { (cd "$1" && find bin share/man share/bash-completion share/zsh ! -type d 2>/dev/null); }
ours() { [ "$(readlink "$prefix/$1")" = "$(link_to "$1")" ]; }
link_to() { printf '%s/lib/verbatim/%s\n' "$(dirname "$1" | sed 's|[^/][^/]*|..|g')" "$1"; }

uninstall() {
    [ -x "$home/bin/verbatim" ] || fail "there is no installation in $home"
    linked "$home" >"$work/files"
    while IFS= read -r file; do
        if ours "$file"; then rm -f "$prefix/$file"; fi
        (cd "$prefix" && rmdir -p "$(dirname "$file")" 2>/dev/null)
    done <"$work/files"
    rm -rf "$home" && rmdir "$prefix/lib" 2>/dev/null
    say "removed $home. Kept: each user's conversions, in ~/.cache/verbatim"
}

install_archive() {
    directory "$prefix/lib"
    staged=$(mktemp -d "$prefix/lib/.verbatim.XXXXXX") || fail "cannot write to $prefix/lib"
    tar -xzf "$work/$archive" -C "$staged" || fail "cannot unpack $archive in $prefix/lib"
    new=$staged/${archive%.tar.gz}
    "$new/bin/verbatim" --version >"$work/said" || fail "the program does not start on this machine"
    linked "$new" >"$work/files"
    while IFS= read -r file; do
        if ours "$file" 2>/dev/null; then continue; fi
        if [ -e "$prefix/$file" ] || [ -L "$prefix/$file" ]; then
            fail "$prefix/$file is there, and not by this script: remove it (make uninstall), or choose another --prefix"
        fi
        directory "$prefix/$(dirname "$file")"
        printf '%s\n' "$prefix/$file" >>"$work/links"
        ln -s "$(link_to "$file")" "$prefix/$file" || fail "cannot write $prefix/$file"
    done <"$work/files"

    trap '' HUP INT TERM # two renames, and nothing can fail any more
    [ ! -e "$home" ] || mv "$home" "$staged/old" || fail "cannot replace $home"
    mv "$new" "$home" || { mv "$staged/old" "$home"; fail "cannot write $home"; }
    : >"$work/links"
    : >"$work/made"
    if [ -e "$staged/old" ]; then # links to what is no more
        linked "$staged/old" | while IFS= read -r file; do
            if ours "$file" && [ ! -e "$home/$file" ]; then rm -f "$prefix/$file"; fi
        done
    fi
    say "installed $(head -n 1 "$work/said") in $home"
    case :$PATH: in *:"$prefix/bin":*) say "try: verbatim" ;; *) say "try: $prefix/bin/verbatim (not in your PATH)" ;; esac
}

main() {
    set -u
    from=${VERBATIM_RELEASES:-$RELEASES} version='' prefix=${HOME:+$HOME/.local} key='' mode='' staged=''
    while [ $# -gt 0 ]; do
        case $1 in
        --from | --version | --prefix | --key)
            [ "${2-}" ] || fail "$1 needs a value"
            case $1 in --from) from=${2%/} ;; --version) version=$2 ;; --prefix) prefix=${2%/} ;; --key) key=$2 ;; esac
            shift
            ;;
        --dry-run | --uninstall) mode=$1 ;;
        *) fail "usage: sh install.sh [--from URL] [--version X] [--prefix DIR] [--key FILE] [--dry-run | --uninstall]" ;;
        esac
        shift
    done
    [ "$prefix" ] || fail "HOME is not set: say --prefix DIR"
    case $prefix in /*) ;; *) prefix=$PWD/$prefix ;; esac
    home=$prefix/lib/verbatim
    work=$(mktemp -d) || fail "cannot make a folder in ${TMPDIR:-/tmp}"
    : >"$work/links"
    : >"$work/made"
    trap clean EXIT
    trap 'exit 129' HUP
    trap 'exit 130' INT
    trap 'exit 143' TERM
    if [ "$mode" = --uninstall ]; then
        uninstall
        return
    fi

    case $(uname -s)-$(uname -m) in
    Linux-x86_64 | Linux-amd64) machine=linux-x86_64 ;;
    Linux-aarch64 | Linux-arm64) machine=linux-aarch64 ;;
    *) fail "a release has no programs for $(uname -s) on $(uname -m): build them from the sources" ;;
    esac
    beside=$(dirname "$0")
    if [ -z "$from" ] && [ -f "$beside/latest.txt" ]; then from=file://$(cd "$beside" && pwd); fi
    [ "$from" ] || fail "say --from URL: the folder with the files of a release"
    for tool in tar gzip sha256sum; do command -v $tool >/dev/null || fail "$tool is not installed"; done
    case $from in
    file://*) ;;
    *) command -v curl >/dev/null || command -v wget >/dev/null || fail "neither curl nor wget is installed" ;;
    esac
    if [ -z "$version" ]; then
        fetch "$from/latest.txt" "$work/latest.txt"
        version=$(head -n 1 "$work/latest.txt")
    fi
    case $version in '' | *[!0-9A-Za-z.~+-]* | [!0-9]*) fail "that is no version: '$version'" ;; esac
    sums=verbatim-$version.sha256 archive=verbatim-$version-$machine.tar.gz
    fetch "$from/$sums" "$work/$sums"
    checked="its sum alone (--key FILE checks who signed it)"
    if [ "$key" ]; then
        [ -r "$key" ] || fail "cannot read $key"
        command -v ssh-keygen >/dev/null || fail "--key needs ssh-keygen (OpenSSH 8.2 or newer)"
        fetch "$from/$sums.sig" "$work/$sums.sig"
        sed 's/^/verbatim /' "$key" >"$work/signers"
        ssh-keygen -q -Y verify -f "$work/signers" -I verbatim -n file -s "$work/$sums.sig" <"$work/$sums" >"$work/said" 2>&1 ||
            fail "$sums is not signed by the key in $key"
        checked="its sum, and the signature of the key in $key"
    fi
    awk -v name="$archive" '$2 == name' "$work/$sums" >"$work/sum"
    [ "$(wc -l <"$work/sum")" -eq 1 ] || fail "$from has no $archive: $sums does not name it"
    say "$from/$archive -> $home, checked by $checked"
    [ "$mode" != --dry-run ] || return 0
    fetch "$from/$archive" "$work/$archive"
    (cd "$work" && sha256sum -c sum >said 2>&1) || fail "$archive is damaged: its sum is not the one in $sums"
    install_archive
}

main "$@"
