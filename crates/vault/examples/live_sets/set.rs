//! What all ways to know what is live have in common.

use quietus_vault::Reference;
use quietus_vault::live::{LiveSet, Ordinals, Perfect};

pub trait Set {
    fn mark(&mut self, chunks: &[Reference]);

    fn is_live(&self, chunk: &Reference) -> bool;

    /// Appends to `out` whether each chunk is live.
    fn look_up(&self, chunks: &[Reference], out: &mut Vec<bool>) {
        out.extend(chunks.iter().map(|chunk| self.is_live(chunk)));
    }

    /// Bytes of memory.
    fn bytes(&self) -> usize;
}

macro_rules! of_the_vault {
    ($set:ty) => {
        impl Set for $set {
            fn mark(&mut self, chunks: &[Reference]) {
                LiveSet::mark(self, chunks);
            }

            fn is_live(&self, chunk: &Reference) -> bool {
                let mut found = Vec::with_capacity(1);
                LiveSet::look_up(self, &[*chunk], &mut found);
                found[0]
            }

            fn look_up(&self, chunks: &[Reference], out: &mut Vec<bool>) {
                LiveSet::look_up(self, chunks, out);
            }

            fn bytes(&self) -> usize {
                LiveSet::bytes(self)
            }
        }
    };
}

of_the_vault!(Ordinals);
of_the_vault!(Perfect);
