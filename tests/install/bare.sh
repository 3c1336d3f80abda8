# bare.sh - a bare Debian or Ubuntu in a folder, for scripts that read this.
#
# `bare TREE` makes $root: a copy of TREE, or with an empty TREE what
# debootstrap makes.  It is gone when the script ends.  For debootstrap:
#
#     SUITE        its name; the one of this system
#     MIRROR       where its packages are
#     COMPONENTS   main; Ubuntu's packages need main,universe
#     SCRIPT       for a SUITE that debootstrap does not know: gutsy, for Ubuntu
[ "$(id -u)" -eq 0 ] || { echo "$0: root is needed for chroot" >&2; exit 1; }

bare_leave()
{
    umount "$root/proc" 2>/dev/null || :
    umount "$root/dev/shm" 2>/dev/null || :
    rm -rf --one-file-system "$root"
}

bare()
{
    root=$(mktemp -d)
    trap bare_leave EXIT
    if [ -n "$1" ]; then
        cp -a "$1/." "$root"
    else
        [ -z "${SCRIPT-}" ] || [ -n "${MIRROR-}" ] ||
            { echo "$0: a SCRIPT needs a MIRROR" >&2; exit 1; }
        debootstrap --variant=minbase --components="${COMPONENTS:-main}" \
            "${SUITE:-$(. /etc/os-release && echo "$VERSION_CODENAME")}" \
            "$root" ${MIRROR:+"$MIRROR"} ${SCRIPT:+"$SCRIPT"}
    fi
    mkdir -p "$root/proc" "$root/dev/shm"
    mount -t proc proc "$root/proc"
    mount -t tmpfs tmpfs "$root/dev/shm"
    cp /etc/resolv.conf "$root/etc/resolv.conf"
    cp /etc/apt/apt.conf.d/*proxy* "$root/etc/apt/apt.conf.d/" 2>/dev/null || :
}
