//! Words of feature bits, as the superblocks of file systems and of journals have them.

/// A word: its letter, the bits that are understood, and the names of some that are not.
pub type Word = (char, u32, &'static [(u32, &'static str)]);

/// The names, in back quotes, of the features in `found` that are not understood; made up as e2fsprogs does where
/// there is none.
#[must_use]
pub fn unknown(words: &[Word; 3], found: [u32; 3]) -> Vec<String> {
    let unknown = words.iter().zip(found).flat_map(|((letter, understood, named), bits)| {
        let bits = (0..u32::BITS).filter(move |bit| bits & !understood & 1 << bit != 0);
        bits.map(move |bit| match named.iter().find(|(mask, _)| *mask == 1 << bit) {
            Some((_, name)) => format!("`{name}`"),
            None => format!("`FEATURE_{letter}{bit}`"),
        })
    });
    unknown.collect()
}
