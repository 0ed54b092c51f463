//! A checkpoint of any bytes is read, or taken for none.
#![no_main]
use libfuzzer_sys::fuzz_target;
use quietus_core::base::blocks::BlockSet;
use quietus_core::base::units::{Addr, Extent};
use quietus_core::volume::Checkpoint;

fuzz_target!(|data: &[u8]| {
    let _ = Checkpoint::from_bytes(data, [0; 16]);
    // Behind the checksum, which a fuzzer cannot guess.
    if let Ok(mut set) = BlockSet::<Addr>::from_bytes(data) {
        set.remove(Extent::new(0, 1 << 20));
        assert_eq!(set.first_run(Extent::new(0, 1 << 20)), None);
    }
});
