//! Whatever stands in a key file, it is read or refused, and never opens with a key that is not its own.
#![no_main]
use libfuzzer_sys::fuzz_target;
use quietus_seal::keys::{Credential, KeyFile, PAGE_BYTES, Stretch};
use quietus_seal::{DiskId, Generation, Generator, Session};

const OWNER: Credential<'_> = Credential::KeyFile(&[1; 32]);

fuzz_target!(|input: &[u8]| {
    let Some(([a, b, c], patch)) = input.split_first_chunk() else { return };
    let created = KeyFile::create(DiskId([2; 16]), &OWNER, Stretch::default(), &mut Generator::new(&[3; 32]));
    let (mut file, unlocked) = created.expect("a key file of 32 bytes opens a slot");
    file.add_session(Session([4; 16]), Generation(0)).expect("the first session");
    let mut bytes = file.to_bytes();
    let at = u32::from_le_bytes([*a, *b, *c, 0]) as usize % bytes.len();
    bytes.iter_mut().skip(at).zip(patch).for_each(|(byte, other)| *byte = *other);
    for page in
        bytes.as_chunks_mut::<PAGE_BYTES>().0.iter_mut().filter(|page| page.iter().any(|byte| *byte != 0))
    {
        let sum = crc32c::crc32c(&page[..PAGE_BYTES - 4]);
        page[PAGE_BYTES - 4..].copy_from_slice(&sum.to_le_bytes());
    }
    let Ok(read) = KeyFile::from_bytes(&bytes) else { return };
    let again = KeyFile::from_bytes(&read.to_bytes()).expect("what was written is read");
    assert_eq!(again.slots().len(), read.slots().len());
    if let Ok(opened) = read.unlock(&OWNER) {
        assert_eq!(opened.newest().0, unlocked.newest().0, "only its own key opens");
    }
});
