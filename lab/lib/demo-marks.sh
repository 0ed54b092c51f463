# shellcheck shell=bash disable=SC2154 # lab/demo sets what is not set here
# demo-marks.sh - the part of lab/demo about marks. A guest marks one folder with the attribute `s`, writes a file there and
# one elsewhere, and deletes both. Only the marked one is destroyed; no pass goes over the other.
# Needs what lab/demo has: chapter, shown, indented, claim, helper, wait_for, die, boot, hear, tell, halt, on_medium, elsewhere.

demo_marks() {
	local disk=$dir/marks nbd=$dir/marks.sock marked=patients/diagnosis.txt other=public/brochure.txt passed
	chapter "A disk that destroys only what is marked with chattr +s"
	shown quietus create marks --size "$size" --policy purge-2
	"$quietus" create "$disk" --size "$size" --policy purge-2 --idle-after 3s | indented
	[ "${PIPESTATUS[0]}" = 0 ] || die "quietus create failed"
	shown quietus serve marks --sensitive marked --settle 1s "   (this guest syncs all that it writes)"
	"$quietus" serve "$disk" --sensitive marked --settle 1s --nbd "unix:$nbd" > "$dir/marks.log" 2>&1 & helper $!
	wait_for 20 -S "$nbd" || { cat "$dir/marks.log" >&2; die "quietus serve did not start"; }
	# The file system is looked at while it is at rest: below a journal, the content that was there at a mount is not known before the next unmount.
	"$here/guest-run" --disk "nbd+unix:///?socket=$nbd" --fs "$fs" --mkfs "${mkfs[*]}" -- true > /dev/null 2>&1 || die "mkfs.$fs failed"
	sleep 2
	boot marks
	hear unmarked
	"$quietus" shred "$disk" --now > /dev/null
	claim "a file came and went before anything was marked, and passes wrote $(passes) bytes" "$(passes)" = 0
	tell mark
	hear written
	shown quietus sensitive marks
	"$quietus" sensitive "$disk" | indented
	# A map proves nothing against what was written within the one or two seconds before it.
	sleep 2.1
	tell delete
	hear gone
	passed=$(passes)
	shown quietus shred marks --now
	"$quietus" shred "$disk" --now | indented
	claim "$marked: $(on_medium "$marked") of ${sectors[$marked]} sectors left on the raw medium" "$(on_medium "$marked")" = 0
	claim "$marked: $(elsewhere "$marked") in the journal and the other files of the disk" "$(elsewhere "$marked")" = 0
	claim "$other: ${sectors[$other]} sectors, $(on_medium "$other") on the raw medium: not marked, so no pass went over it" \
		"$(on_medium "$other")" -ge "${sectors[$other]}"
	passed=$((($(passes) - passed) / 512))
	# Two passes over the marked file, and no more than half as much over anything else.
	claim "passes wrote $passed sectors" "$passed" -lt "$((${sectors[$marked]} * 3))"
	tell halt
	halt
}

# Bytes that passes have written.
passes() { "$quietus" status "$disk" --json | grep -o '"passed_bytes":[0-9]*' | tr -dc '0-9'; }
