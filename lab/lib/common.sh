# shellcheck shell=bash disable=SC2034 # fronts: for those who source this
# Shared by the lab's shell scripts (source it).
helpers=() # processes that end with us
fronts=()  # those of them that stand between the guest and the NBD server

die() { echo "${0##*/}: $*" >&2; exit 125; }

# Prints the comment at the top of the script.
usage() { sed -n '2,/^[^#]/{/^#/!d;s/^# \{0,1\}//p}' "$0"; }

# Remembers a process; disowned, so that the shell says nothing when it ends.
helper() { helpers+=("$1"); disown "$1"; }

# Ends, newest first, every helper; one that does not listen is killed.
stop_helpers() {
	local i tries
	[ -z "${fuse_dir-}" ] || fusermount3 -qu "$fuse_dir" 2>/dev/null
	for ((i = ${#helpers[@]} - 1; i >= 0; i--)); do
		kill "${helpers[i]}" 2>/dev/null
		for ((tries = 0; tries < 250; tries++)); do
			kill -0 "${helpers[i]}" 2>/dev/null || break
			sleep 0.02
		done
		kill -9 "${helpers[i]}" 2>/dev/null
	done
	helpers=() fronts=()
}

# wait_for SECONDS TEST-ARGS...: poll `test TEST-ARGS`.
wait_for() {
	local n=$(($1 * 50)); shift
	while ! test "$@"; do
		((n-- > 0)) || return 1
		sleep 0.02
	done
}

# A directory in memory for the guest's RAM, which UML maps executable.
# Containers often have a tiny or noexec /dev/shm.
memory_dir() {
	local mib=$1 dir probe
	for dir in /dev/shm "${TMPDIR:-/tmp}" /var/tmp; do
		[ "$(df -m --output=avail "$dir" 2>/dev/null | tail -1)" -gt "$mib" ] 2>/dev/null || continue
		probe=$(mktemp "$dir/probe.XXXXXX") || continue
		printf '#!/bin/sh\n' > "$probe"; chmod +x "$probe"
		if "$probe" 2>/dev/null; then rm -f "$probe"; echo "$dir"; return; fi
		rm -f "$probe"
	done
	return 1
}

# The path of the unix socket in an NBD URI.
uri_socket() { local s=${1#*socket=}; readlink -f "${s%%&*}"; }

# The export's name in a nbd+unix URI.
uri_export() { local e=${1#nbd+unix://}; e=${e%%\?*}; echo "${e#/}"; }

# NBD URI -> file DIR/disk.  One connection and one thread, so that the server
# sees one ordered stream.  Writes go straight through; reads may be answered
# by the host's page cache until the file is opened anew.
start_nbdfuse() {
	mkdir -p "$2"
	nbdfuse -C 1 -s "$2/disk" "$1" & helper $!
	fuse_dir=$2 fronts=("$!")
	wait_for 10 -e "$2/disk"
}

# NBD URI -> vhost-user-blk socket.  discard=unmap passes TRIM on.  $3: seconds
# to wait for a server that is gone.
start_vhost_user_blk() {
	local server name
	server="server.type=unix,server.path=$(uri_socket "$1")" name=$(uri_export "$1")
	[ -z "$name" ] || server+=",export=$name"
	qemu-storage-daemon \
		--blockdev "driver=nbd,node-name=disk,discard=unmap,reconnect-delay=${3:-0},$server" \
		--export "type=vhost-user-blk,id=disk,node-name=disk,writable=on,addr.type=unix,addr.path=$2" &
	helper $!; fronts=("$!")
	wait_for 10 -S "$2"
}

# In a network namespace of our own: a tap with the server's address on it, and
# a relay there that passes every byte between TCP and the server's socket.
start_tap_relay() {
	ip link set lo up &&
	ip tuntap add dev labtap mode tap &&
	ip addr add 10.99.0.1/30 dev labtap && ip link set labtap up || return 1
	socat TCP-LISTEN:10809,bind=10.99.0.1,fork,reuseaddr,nodelay \
		"UNIX-CONNECT:$(uri_socket "$1")" & helper $!
	fronts=("$!")
	sleep 0.2
	kill -0 "$!" 2>/dev/null
}
