# shellcheck shell=bash disable=SC2154 # lab/demo sets what is not set here
# demo-forget.sh - the part of lab/demo about a disk that keeps versions. A file system with a file is in yesterday's
# epoch, and yesterday is forgotten. Then everything is given away: the key, and every medium as it was before, but for
# the root. The same theft with the root from before finds the file, so the search does find what is there.
# Needs what lab/demo has: chapter, shown, indented, claim, helper, wait_for, die, $quietus, $dir, $run.

# Serves disk $1 of $dir with the options that follow; sets $served.
serve_versions() {
	local name=$1; shift
	rm -f "$dir/$name.sock" "$dir/$name/control.sock"
	"$quietus" serve "$dir/$name" --key-file "$dir/key" --detect off --nbd "unix:$dir/$name.sock" "$@" > "$dir/$name.log" 2>&1 & served=$!
	helper "$served"
	wait_for 20 -S "$dir/$name.sock" || { cat "$dir/$name.log" >&2; die "quietus serve did not start"; }
}

# Ends the server that runs.
end_served() {
	kill "$served"
	while kill -0 "$served" 2> /dev/null; do sleep 0.05; done
}

# Writes image $1 onto the disk, and closes the epoch $2.
write_epoch() {
	qemu-img convert -n -f raw -O raw "$dir/$1" "nbd+unix:///vault?socket=$dir/vault.sock" || die "cannot write $1"
	"$quietus" epoch "$dir/vault" --name "$2" | indented
}

# Sectors of the file in what can be read of yesterday on disk $1, with all errors passed over.
stolen() {
	serve_versions "$1" --read-only
	timeout 120 qemu-img convert --salvage -f raw -O raw "nbd+unix:///$1@yesterday?socket=$dir/$1.sock" "$dir/$1.img" > /dev/null 2>&1
	end_served
	[ -e "$dir/$1.img" ] || die "yesterday cannot be tried: $(tail -n 1 "$dir/$1.log")"
	LC_ALL=C grep -aoF "$run:affair.txt sector" "$dir/$1.img" | wc -l
}

demo_forget() {
	local sectors=512 found code
	chapter "A disk that keeps every day, and forgets one of them"
	(umask 077; head -c 32 /dev/urandom > "$dir/key")
	mkdir "$dir/files"
	perl -e 'printf "%-511s\n", "$ARGV[0]:affair.txt sector $_" for 1 .. $ARGV[1]' "$run" "$sectors" > "$dir/files/affair.txt"
	truncate -s 16M "$dir/empty" "$dir/full"
	mkfs.ext4 -q -F "$dir/empty" || die "mkfs.ext4 failed"
	mkfs.ext4 -q -F -d "$dir/files" "$dir/full" || die "mkfs.ext4 failed"
	shown quietus create vault --size 16M --store versions --epoch manual --key-file key
	"$quietus" create "$dir/vault" --size 16M --store versions --epoch manual --key-file "$dir/key" > "$dir/create.log" || die "quietus create failed"
	serve_versions vault
	write_epoch empty monday
	write_epoch full yesterday
	write_epoch empty today
	"$quietus" forget "$dir/vault@monday" --wait > "$dir/forget.log" || die "quietus forget failed"
	cp -r --sparse=always "$dir/vault" "$dir/before"
	shown quietus forget vault@yesterday --dry-run
	"$quietus" forget "$dir/vault@yesterday" --dry-run | indented
	shown quietus forget vault@yesterday --wait
	"$quietus" forget "$dir/vault@yesterday" --wait | indented
	claim "yesterday is forgotten" "${PIPESTATUS[0]}" = 0
	"$quietus" export "$dir/vault@2" "$dir/none" > "$dir/export.log" 2>&1; code=$?
	claim "quietus export vault@2 ends with exit status 3: $(tail -n 1 "$dir/export.log" | cut -c 10-)" "$code" = 3
	end_served
	echo "   Everything is given away: the key, and all media from before the forget but the root:"
	cp -r --sparse=always "$dir/before" "$dir/thief"
	cp "$dir/vault/root" "$dir/thief/root"
	found=$(stolen before)
	claim "with the root from before, $found of $sectors sectors of affair.txt come back (so the search finds what is there)" "$found" = "$sectors"
	found=$(stolen thief)
	claim "with the root as it is now, $found of them" "$found" = 0
}
