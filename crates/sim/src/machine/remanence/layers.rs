//! The past layers of each sector as they were, for content that is recognised only with a key found elsewhere.

use crate::machine::remanence::{Mask, SECTOR_BYTES, WORD_BYTES};
use quietus_core::base::zeros::is_zeros;

const WORDS: usize = SECTOR_BYTES / WORD_BYTES;
/// Passes over a word that is not the layer's own, or has no content.
const NOTHING: u8 = u8::MAX;

/// All layers of a medium that were not destroyed.
#[derive(Clone, Debug)]
pub struct Layers {
    passes_min: u8,
    sectors: Vec<Vec<Layer>>,
}

/// A sector as it was once.
#[derive(Clone, Debug)]
pub struct Layer {
    pub bytes: [u8; SECTOR_BYTES],
    passes: [u8; WORDS],
}

impl Layer {
    /// The layer `bytes`, of which `touched` were written.
    fn new(bytes: &[u8; SECTOR_BYTES], touched: Mask) -> Self {
        let mut passes = [NOTHING; WORDS];
        for (n, word) in bytes.chunks_exact(WORD_BYTES).enumerate() {
            if touched.has_word(n) && !is_zeros(word) {
                passes[n] = 0;
            }
        }
        Self { bytes: *bytes, passes }
    }

    /// Covers the layer with another one. A word that is written once more as it is needs its passes anew.
    fn cover(&mut self, bytes: &[u8], touched: Mask) {
        let words = self.bytes.chunks_exact(WORD_BYTES).zip(bytes.chunks_exact(WORD_BYTES)).enumerate();
        for (n, (own, word)) in words.filter(|(n, _)| touched.has_word(*n)) {
            match self.passes[n] {
                NOTHING => {}
                _ if own == word => self.passes[n] = 0,
                passes => self.passes[n] = (passes + 1).min(NOTHING - 1),
            }
        }
    }
}

impl Layers {
    /// The layers of an empty medium of `sectors` sectors, whose bytes count as destroyed after `passes_min` passes;
    /// never, if that is more than a word counts.
    pub fn new(sectors: usize, passes_min: usize) -> Self {
        let passes_min = u8::try_from(passes_min).unwrap_or(NOTHING);
        Self { passes_min, sectors: vec![Vec::new(); sectors] }
    }

    /// Adds a layer of `sector`, which is `bytes` now, `touched` of them written.
    pub fn layer(&mut self, sector: usize, bytes: &[u8], touched: Mask) {
        let Ok(bytes) = <&[u8; SECTOR_BYTES]>::try_from(bytes) else { return };
        let layers = &mut self.sectors[sector];
        layers.iter_mut().for_each(|layer| layer.cover(bytes, touched));
        if !layers.iter().any(|layer| layer.bytes == *bytes) {
            layers.push(Layer::new(bytes, touched));
        }
        layers.retain(|layer| layer.passes.iter().any(|passes| *passes < self.passes_min));
    }

    /// Notes that all that ever was in `sector` is destroyed.
    pub fn erase(&mut self, sector: usize) {
        self.sectors[sector].clear();
    }

    /// The layers of which the bytes `from..to` of `sector` have fewer than `passes` passes somewhere.
    pub fn with(&self, sector: usize, from: usize, to: usize, passes: usize) -> impl Iterator<Item = &Layer> {
        let words = from / WORD_BYTES..to.div_ceil(WORD_BYTES);
        let passes = u8::try_from(passes).unwrap_or(NOTHING).min(self.passes_min);
        let layers = self.sectors.get(sector).map_or(&[][..], Vec::as_slice);
        layers.iter().filter(move |it| it.passes[words.clone()].iter().any(|it| *it < passes))
    }
}

#[cfg(test)]
mod tests {
    use crate::machine::remanence::layers::*;

    const ONE: [u8; SECTOR_BYTES] = [1; SECTOR_BYTES];
    const TWO: [u8; SECTOR_BYTES] = [2; SECTOR_BYTES];

    #[test]
    fn a_layer_is_there_until_its_passes_and_what_was_not_written_is_none() {
        let mut layers = Layers::new(1, 2);
        layers.layer(0, &ONE, Mask::of(0, 64));
        let first =
            |layers: &Layers, from, to| layers.with(0, from, to, 2).map(|it| it.bytes[0]).collect::<Vec<_>>();
        assert_eq!((first(&layers, 0, 32), first(&layers, 64, 96)), (vec![1], vec![]));
        layers.layer(0, &TWO, Mask::of(0, 32));
        assert_eq!((first(&layers, 0, 32), first(&layers, 32, 64)), (vec![1, 2], vec![1]));
        layers.layer(0, &[0; SECTOR_BYTES], Mask::ALL);
        assert_eq!((first(&layers, 0, 32), first(&layers, 32, 64)), (vec![2], vec![1]));
        assert_eq!(layers.with(0, 0, 64, 1).count(), 0, "one pass came over all of it");
        layers.layer(0, &ONE, Mask::of(32, 64));
        assert_eq!(first(&layers, 32, 64), [1], "what comes back needs its passes anew");
        let mut all = Layers::new(1, usize::MAX);
        (0..1000_u64).for_each(|n| all.layer(0, &n.to_le_bytes().repeat(64), Mask::ALL));
        assert_eq!(all.with(0, 0, 32, usize::MAX).count(), 999, "all but the zeros");
    }
}
