//! The bytes of a request.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// A payload. Moves from the front end to the medium or back, and is never copied on the way.
#[derive(Clone)]
pub enum Buf {
    /// Memory of its own, as content that was read always has.
    Owned(Vec<u8>),
    /// Memory of a front end, for a write without a copy. The bytes must not change until the request has
    /// ended: otherwise the watcher would see other bytes than the medium gets.
    Shared(Arc<dyn AsRef<[u8]> + Send + Sync>),
}

impl Buf {
    /// An empty payload.
    #[must_use]
    pub const fn new() -> Self {
        Self::Owned(Vec::new())
    }

    /// The bytes, to be changed: copied first if they are shared.
    pub fn to_mut(&mut self) -> &mut Vec<u8> {
        if let Self::Shared(bytes) = self {
            *self = Self::Owned((**bytes).as_ref().to_vec());
        }
        match self {
            Self::Owned(bytes) => bytes,
            Self::Shared(_) => unreachable!("the bytes are owned by now"),
        }
    }

    /// The bytes: copied if they are shared.
    #[must_use]
    pub fn into_vec(mut self) -> Vec<u8> {
        std::mem::take(self.to_mut())
    }

    /// The memory, to be used again: `None` if it is shared.
    #[must_use]
    pub fn into_memory(self) -> Vec<u8> {
        match self {
            Self::Owned(bytes) => bytes,
            Self::Shared(_) => Vec::new(),
        }
    }
}

impl From<Vec<u8>> for Buf {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Owned(bytes)
    }
}

impl Default for Buf {
    fn default() -> Self {
        Self::new()
    }
}

impl Deref for Buf {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Owned(bytes) => bytes,
            Self::Shared(bytes) => (**bytes).as_ref(),
        }
    }
}

impl PartialEq for Buf {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Buf {}

impl PartialEq<Vec<u8>> for Buf {
    fn eq(&self, other: &Vec<u8>) -> bool {
        **self == **other
    }
}

impl fmt::Debug for Buf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use crate::base::buf::*;

    #[test]
    fn shared_bytes_are_what_they_are_and_are_copied_only_to_be_changed() {
        let memory: Arc<dyn AsRef<[u8]> + Send + Sync> = Arc::new([7_u8; 4]);
        let mut buf = Buf::Shared(Arc::clone(&memory));
        assert_eq!((buf.as_ptr(), &buf[..]), ((*memory).as_ref().as_ptr(), &[7; 4][..]));
        assert_eq!(buf.clone().into_memory(), [0_u8; 0], "the front end keeps its memory");
        buf.to_mut()[0] = 9;
        assert_eq!((buf.into_vec(), (*memory).as_ref()), (vec![9, 7, 7, 7], &[7; 4][..]));
    }

    #[test]
    fn owned_bytes_are_never_copied() {
        let bytes = vec![7; 4];
        let at = bytes.as_ptr();
        let mut buf = Buf::from(bytes);
        assert_eq!(buf.to_mut().as_ptr(), at);
        let memory = buf.into_memory();
        assert_eq!(memory.as_ptr(), at);
        assert_eq!(size_of::<Buf>(), size_of::<Vec<u8>>());
    }
}
