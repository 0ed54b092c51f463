# make help says what there is.

TARGET = $(or $(CARGO_TARGET_DIR),target)
BINARY = $(TARGET)/release/quietus
# The server as the tests build it: with assertions.
TESTED = $(abspath $(TARGET)/debug/quietus)
PREFIX ?= /usr/local
SEEDS ?= 1000000
FUZZ_SECONDS ?= 60
export QUIETUS = $(abspath $(BINARY))

.PHONY: help setup demo test check soak lab bench fuzz build install clean

help:
	@sed -n 's/^## //p' Makefile

## make setup     the packages that everything below needs
setup:
	lab/setup

## make demo      a disk, a real Linux guest, a file deleted: its bytes are gone
demo:
	lab/setup build demo
	$(MAKE) build
	lab/demo

## make test      all set-up, then format, clippy, tests, and the lab in short: 15 minutes on two processors
test:
	lab/setup build test
	QUIETUS=$(TESTED) lab/lib/steps lab/lib/test.steps

## make check     the rest, before a larger change counts as done: at most an hour, after make test
check:
	lab/setup build test
	cargo deny --version >/dev/null 2>&1 || cargo install cargo-deny --locked --quiet
	QUIETUS=$(TESTED) lab/lib/steps lab/lib/check.steps

## make soak      a million simulated histories, the rules of inference on trial, 1,000 kills of the server
soak: build
	cargo run --release --locked -p quietus-sim -- soak --only 0 --seeds $(SEEDS)
	cargo run --release --locked -p quietus-sim -- differential
	cargo run --release --locked -p quietus-sim -- marked-block
	cargo run --release --locked -p quietus-sim -- marked-block --files 2
	cargo run --release --locked -p quietus-sim -- key-life --states 800000
	cargo run --release --locked -p quietus-sim -- key-life --blocks 3 --states 100000
	cargo run --release --locked -p quietus-sim -- key-life --walks 100000
	cargo run --release --locked -p quietus-sim -- unit-life --states 1000000
	cargo run --release --locked -p quietus-sim -- unit-life --units 2 --states 500000
	cargo run --release --locked -p quietus-sim -- unit-life --units 2 --failures --states 300000
	cargo run --release --locked -p quietus-sim -- unit-life --walks 200000
	cargo run --release --locked -p quietus-sim -- soak --seeds 100000
	cargo test --release --locked -p quietus-core -- --ignored
	lab/kill9 --rounds 1000
	lab/kill9 --store sealed --rounds 1000 --search-every 5 --size 16M
	lab/purge-cuts --start
	lab/power-cut-loop --fs ext2 --cut alternate --rounds 1000

## make lab       every client's suite, guests, power cuts
lab:
	lab/setup build lab
	$(MAKE) build
	lab/conformance
	lab/demo
	lab/power-cut-loop --fs ext4 --cut alternate --rounds 20
	lab/table8 --self-test
	lab/table8 --self-test --fs ext4 --mode journal
	lab/table8 --self-test --fs ext3 --mode writeback
	lab/table8 --fs ext2,ext3,ext4 --marked 0.1 --policy purge-2
	lab/power-cut-loop --fs ext2 --cut alternate --rounds 10 --marked 0.3
	lab/power-cut-loop --fs ext4 --cut alternate --rounds 10 --marked 0.3
	lab/table8 --fs vfat,fat16,fat12 --operations 1500 --size 128M
	lab/table8 --fs exfat --operations 1000 --size 64M
	lab/power-cut-loop --fs vfat --cut alternate --rounds 5
	lab/conformance --short --store overlay
	lab/demo --store overlay
	lab/kill9 --store overlay --rounds 100
	lab/power-cut-loop --store overlay --fs ext2 --rounds 5
	lab/epochs --store versions --operations 3000
	lab/epochs --fs ext2 --operations 3000
	lab/epochs --fs vfat
	lab/kill9 --store versions --rounds 100 --size 16M
	lab/kill9 --store sealed --rounds 100 --size 16M
	lab/purge-cuts
	lab/mtd
	lab/nand
	lab/power-cut-loop --store versions --fs ext4 --cut alternate --rounds 5
	lab/power-cut-loop --store versions-none --fs ext4 --cut alternate --rounds 5
	lab/overlays
	lab/partitions
	lab/external-journal
	lab/facts
	lab/facts --self-test
	lab/judge
	lab/remanence --fs ext4,ntfs --serve=--settle=3s --settle 6

## make bench     side by side with nbdkit and qemu-nbd
bench:
	lab/setup build lab
	$(MAKE) build
	for name in io "io --store overlay" "io --store versions" overlay shrink shred sparse detect instructions attach latency seal \
		forget epochs vault sanitize paths marks; do \
		lab/bench $$name --update docs/benchmarks.md || exit; done
	lab/overlays --update docs/benchmarks.md
	lab/table8 --style mail,build,database,log,mixed --update docs/benchmarks.md
	lab/judge --update docs/benchmarks.md
	lab/facts --update docs/benchmarks.md

## make fuzz      each fuzz target for FUZZ_SECONDS (60)
fuzz:
	cargo fuzz --version >/dev/null 2>&1 || cargo install cargo-fuzz --locked
	set -e; for target in $$(cargo fuzz list); do \
		RUSTC_BOOTSTRAP=1 cargo fuzz run --sanitizer none $$target -- -max_total_time=$(FUZZ_SECONDS); done

## make install   the binary, manual pages and completions, below PREFIX
install: build
	install -D -s $(BINARY) $(DESTDIR)$(PREFIX)/bin/quietus
	install -d $(DESTDIR)$(PREFIX)/share/man/man1
	cargo xtask man $(DESTDIR)$(PREFIX)/share/man/man1
	install -d $(DESTDIR)$(PREFIX)/share/bash-completion/completions $(DESTDIR)$(PREFIX)/share/zsh/site-functions $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d
	$(BINARY) completions bash > $(DESTDIR)$(PREFIX)/share/bash-completion/completions/quietus
	$(BINARY) completions zsh > $(DESTDIR)$(PREFIX)/share/zsh/site-functions/_quietus
	$(BINARY) completions fish > $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/quietus.fish

build:
	cargo build --release --locked -p quietus

clean:
	cargo clean
