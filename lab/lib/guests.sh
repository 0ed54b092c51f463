# shellcheck shell=bash disable=SC2034,SC2054,SC2154 # variables of who sources this, and for them; commas of QEMU's and UML's
# The forms that a guest may have, and which of them comes up on this machine
# (source common.sh first; $lab_dir is the folder of the lab).
#
#   kvm  the distribution's kernel in QEMU, on the processor's own virtualization
#   uml  user-mode Linux, an ordinary process; x86-64 only
#   tcg  the distribution's kernel in QEMU, every instruction emulated
forms=(kvm uml tcg)	# in the order in which they are tried
declare -A form_name=([kvm]='QEMU with KVM' [uml]='user-mode Linux' [tcg]='emulated QEMU')
# Seconds in which a guest comes up (LAB_TRY_SECONDS: others) and halts, on a busy machine too. Within a virtual
# machine KVM may hang; it needs 2 s where it works.
declare -A form_limit=([kvm]=10 [uml]=60 [tcg]=180)
cpu=$(uname -m)
qemu_system=qemu-system-$cpu

# Where the lab keeps what outlives a run: the choice of the guest, the kernel that was
# fetched, the logs of guests that died.
lab_state() {
	local dir
	for dir in "${LAB_STATE-}" "${CARGO_TARGET_DIR:-$lab_dir/../target}/lab" "${TMPDIR:-/tmp}/quietus-lab-$(id -u)"; do
		if [ -n "$dir" ] && mkdir -p "$dir" 2>/dev/null && [ -w "$dir" ] && [ -O "$dir" ]; then
			readlink -f "$dir"
			return
		fi
	done
	die "no folder for the choice of the guest: set LAB_STATE to one of yours"
}

# The kernel of a guest of form $1, where the user did not name one.
form_kernel() { if [ "$1" = uml ]; then echo linux.uml; else echo "$state/kernel"; fi; }

# Why this machine can have no guest of form $1; nothing if it may.
form_obstacle() {
	case $1 in
	kvm)	if [ ! -e /dev/kvm ]; then echo "there is no /dev/kvm"
		elif [ ! -r /dev/kvm ] || [ ! -w /dev/kvm ]; then echo "/dev/kvm: permission denied (join the group kvm)"
		fi ;;
	uml)	[ "$cpu" = x86_64 ] || echo "user-mode Linux does not exist for $cpu" ;;
	esac
}

# The program that a guest of form $1 lacks, and where to get it; nothing if none.
form_missing() { # FORM KERNEL
	if [ "$1" = uml ]; then
		command -v "$2" >/dev/null || echo "no $2: run lab/setup demo, or install the package user-mode-linux"
	elif ! command -v "$qemu_system" >/dev/null; then
		echo "no $qemu_system: run LAB_GUEST=$1 lab/setup demo"
	elif [ ! -e "$2/initrd" ] && ! command -v busybox >/dev/null; then
		echo "no busybox: run LAB_GUEST=$1 lab/setup demo"
	fi
}

# The first of the forms $@ of which a guest boots here; nothing if none does.
choose_form() {
	local form
	for form; do
		if comes_up "$form" >/dev/null; then echo "$form"; return; fi
	done
}

# Whether a guest of form $1 boots here; prints what came of it. Remembered until this
# machine boots again, or has other programs for it.
comes_up() {
	local kernel=${kernel:-$(form_kernel "$1")} key reason record
	reason=$(form_obstacle "$1")
	[ -n "$reason" ] || reason=$(form_missing "$1" "$kernel")
	if [ -n "$reason" ]; then echo "$reason"; return 1; fi
	key="$(cat /proc/sys/kernel/random/boot_id) $(id -u) $kernel $(command -v "$qemu_system")"
	record=$state/guest-$1.$(cksum <<<"$key" | cut -d ' ' -f 1)
	exec 8>"$record.lock"
	flock 8	# others who ask meanwhile wait for the answer
	if [ ! -e "$record" ]; then
		reason=$(try_form "$1" "$kernel")
		printf '%s\n%s\n' $? "$reason" > "$record.new"
		mv "$record.new" "$record"
	fi
	exec 8>&-
	sed -n 2p "$record"
	[ "$(head -n 1 "$record")" = 0 ]
}

# Boots a guest of form $1 with kernel $2. Prints what came of it; fails if it did not come up.
try_form() {
	local begin=$SECONDS log="$state/try-$1"
	if "$lab_dir/guest-run" --guest "$1" --kernel "$2" --timeout "${LAB_TRY_SECONDS:-${form_limit[$1]}}" --keep "$log" -- true >"$log.out" 2>&1 8>&-; then
		echo "boots and halts in $((SECONDS - begin)) s"
	else
		tail -n 1 "$log.out" | sed 's/^guest-run: //; s/^[^:]* died: //; s/; try .*; its messages: /; see /'
		return 1
	fi
}

# Prints which of the forms $@ is chosen here, and what came of each that was tried.
show_choice() {
	local form reason chosen
	chosen=$(choose_form "$@")
	echo "${chosen:-none}"
	for form; do
		reason=$(comes_up "$form")
		echo "  $form (${form_name[$form]}): $reason"
		if [ "$form" = "$chosen" ]; then return; fi
	done
	return 1
}

# The cause of a guest's death, in one line, from its console $1; its form is $2.
cause_of_death() {
	local text line
	local -A meaning=(
		['ptrace set fp regs failed']='the processor has more registers than this kernel can save (AMX)'
		['failed to set MSR']='KVM refuses a register of this processor'
		['Could not access KVM kernel module|failed to initialize kvm']='KVM cannot be used'
		['Cannot allocate memory|ftruncate|No space left on device']="no room for the guest's memory"
		['Kernel panic - not syncing']='the kernel panicked'
		['guest-init: ']='its first process gave up'
	)
	for text in "${!meaning[@]}"; do
		line=$(grep -aoE -m 1 "($text).*" "$1") && break
	done
	if [ -n "$line" ]; then line="${meaning[$text]}: $line"; else line=$(grep -a . "$1" | tail -n 1); fi
	line=$(tr -d '\r\033' <<<"$line" | cut -c 1-200)
	echo "${form_name[$2]} died: ${line:-it said nothing}"
}

# The next thing to try when a guest of form $1 died.
advice() { if [ "$1" = tcg ]; then echo "lab/guest-run --which --again"; else echo "LAB_GUEST=tcg"; fi; }

# The command of the guest, in the array `machine`.
uml_machine() {
	TMPDIR=$(memory_dir "$mem") || die "no place for $mem MiB of guest memory in /dev/shm, TMPDIR or /var/tmp"
	export TMPDIR
	# shellcheck disable=SC2206 # $append is words
	machine=("$kernel" "mem=${mem}M" root=/dev/root rootfstype=hostfs rootflags=/ ro
		"init=$lab_dir/lib/guest-init" "labrun=$run" "uml_dir=$run/" umid=guest
		"${uml_disk[@]}" con=null con0=null,fd:1 ssl=null ssl0=fd:6,fd:7 $append)
}

qemu_machine() {
	local qemu=() accel console
	host_dir() { qemu+=(-virtfs "local,path=$2,mount_tag=$1,security_model=none,multidevs=remap$3"); }
	host_dir root / ,readonly=on
	host_dir run "$run" ''
	[ -z "$share" ] || host_dir share "$share" ''
	# The chip behind that of the firmware.
	[ -z "$flash" ] || qemu+=(-drive if=pflash,format=raw,readonly=on,file=/usr/share/seabios/bios-256k.bin
		-drive "if=pflash,format=raw,file=$flash")
	if [ "$form" = kvm ]; then accel=(-accel kvm -cpu host); else accel=(-accel tcg -cpu max); fi
	# The first serial line that Linux calls ttyS carries the command's input and output.
	case $cpu in
	x86_64)	console=ttyS1
		accel+=(-machine q35,memory-backend=mem -serial chardev:tty -serial chardev:log) ;;
	*)	console=ttyAMA0
		accel+=(-machine virt,gic-version=max,memory-backend=mem -serial chardev:log -device pci-serial,chardev=tty) ;;
	esac
	# shellcheck disable=SC2016 # the inner shell expands
	machine=(sh -c 'exec "$@" <&6 >&7' qemu "$qemu_system" "${accel[@]}" -nodefaults -no-reboot -display none
		-object "memory-backend-memfd,id=mem,size=${mem}M,share=on" -m "$mem"
		-chardev stdio,id=tty,signal=off -chardev file,id=log,path=/dev/stderr,append=on
		-kernel "$kernel/vmlinuz" -initrd "$kernel/initrd" "${qemu[@]}" "${qemu_disk[@]}"
		-append "console=$console panic=-1 labinit=$lab_dir/lib/guest-init labrun=$run $append")
}
