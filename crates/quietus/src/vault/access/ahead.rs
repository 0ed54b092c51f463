//! Chunks that a client gets soon, asked for several at a time, so that it need not wait for each.
//!
//! What is expected is only a hint: a chunk that was not expected, or that came too early and was dropped, is asked for when it is got.

use crate::vault::access::request::{GOT_MAX, Refusal};
use quietus_vault::Reference;
use quietus_vault::chunk::Bytes;
use std::collections::VecDeque;

/// Requests under way at once: one is answered while the content of the other is used.
const UNDER_WAY_MAX: usize = 2;
/// Chunks that wait to be got; the oldest are dropped. At most 16 MiB.
const ARRIVED_MAX: usize = 4 * GOT_MAX;
/// Chunks that are expected; the last ones are not.
const EXPECTED_MAX: usize = 1 << 16;

/// The content of a chunk, or why it cannot be had.
type Got = Result<Bytes, Refusal>;

/// See the module's documentation. `A` is an answer that is under way.
#[derive(Default)]
pub(in super::super) struct Ahead<A> {
    /// In the order in which they are got.
    expected: VecDeque<Reference>,
    /// In the order in which they were asked for.
    under_way: VecDeque<(Vec<Reference>, A)>,
    arrived: VecDeque<(Reference, Got)>,
}

impl<A> Ahead<A> {
    /// The chunks to get next, before all that were expected earlier.
    pub(in super::super) fn expect(&mut self, chunks: &mut dyn DoubleEndedIterator<Item = Reference>) {
        for chunk in chunks.rev() {
            self.expected.push_front(chunk);
        }
        self.expected.truncate(EXPECTED_MAX);
    }

    /// The chunk, if it has arrived.
    pub(in super::super) fn take(&mut self, chunk: &Reference) -> Option<Got> {
        let at = self.arrived.iter().position(|(arrived, _)| arrived == chunk)?;
        self.arrived.remove(at).map(|(_, got)| got)
    }

    /// The answer to wait for, and the chunks that it brings, if `chunk` is under way.
    pub(in super::super) fn wait_for(&mut self, chunk: &Reference) -> Option<(Vec<Reference>, A)> {
        let is_coming = self.under_way.iter().any(|(chunks, _)| chunks.contains(chunk));
        if is_coming { self.under_way.pop_front() } else { None }
    }

    /// Chunks that have arrived.
    pub(in super::super) fn arrive(&mut self, chunks: impl Iterator<Item = (Reference, Got)>) {
        self.arrived.extend(chunks);
        let excess = self.arrived.len().saturating_sub(ARRIVED_MAX);
        drop(self.arrived.drain(..excess));
    }

    /// Chunks to ask for ahead, unless enough are under way.
    pub(in super::super) fn next(&mut self) -> Option<Vec<Reference>> {
        let is_due = self.under_way.len() < UNDER_WAY_MAX && !self.expected.is_empty();
        is_due.then(|| self.expected.drain(..self.expected.len().min(GOT_MAX)).collect())
    }

    /// Chunks to ask for at once: this one, and those that are expected after it. Those before it were not wanted after all.
    pub(in super::super) fn next_with(&mut self, chunk: &Reference) -> Vec<Reference> {
        match self.expected.iter().position(|expected| expected == chunk) {
            Some(at) => {
                drop(self.expected.drain(..at));
                self.expected.drain(..self.expected.len().min(GOT_MAX)).collect()
            }
            None => vec![*chunk],
        }
    }

    /// Notes that chunks are asked for.
    pub(in super::super) fn asked(&mut self, chunks: Vec<Reference>, answer: A) {
        self.under_way.push_back((chunks, answer));
    }
}

#[cfg(test)]
mod tests {
    use crate::vault::access::ahead::*;
    use quietus_vault::{Fingerprint, Ordinal};

    fn chunk(number: u64) -> Reference {
        Reference { fingerprint: Fingerprint([number as u8; 32]), ordinal: Ordinal(number) }
    }

    /// A client whose owner has every chunk but those whose number ends with 13; the requests that it made.
    #[derive(Default)]
    struct Client(Ahead<()>, Vec<Vec<u64>>);

    impl Client {
        fn expect(&mut self, chunks: impl DoubleEndedIterator<Item = u64>) {
            self.0.expect(&mut chunks.map(chunk));
        }

        fn ask(&mut self, chunks: Vec<Reference>) {
            self.1.push(chunks.iter().map(|it| it.ordinal.0).collect());
            self.0.asked(chunks, ());
        }

        fn get(&mut self, number: u64) {
            let owner = |chunk: Reference| match chunk.ordinal.0 {
                damaged if damaged % 100 == 13 => (chunk, Err(Refusal::Other("damaged".into()))),
                number => (chunk, Ok(Bytes(number.to_le_bytes().into()))),
            };
            let got = loop {
                if let Some(got) = self.0.take(&chunk(number)) {
                    break got;
                }
                match self.0.wait_for(&chunk(number)) {
                    Some((chunks, ())) => self.0.arrive(chunks.into_iter().map(owner)),
                    None => {
                        let chunks = self.0.next_with(&chunk(number));
                        self.ask(chunks);
                    }
                }
            };
            while let Some(chunks) = self.0.next() {
                self.ask(chunks);
            }
            match got {
                Ok(bytes) => assert_eq!(bytes.0, number.to_le_bytes()),
                Err(_) => assert_eq!(number % 100, 13),
            }
            assert!(self.0.arrived.len() <= ARRIVED_MAX && self.0.under_way.len() <= UNDER_WAY_MAX + 1);
        }
    }

    #[test]
    fn what_is_expected_is_asked_for_once_and_in_few_requests() {
        let mut client = Client::default();
        client.expect(0..1000);
        (0..1000).for_each(|number| client.get(number));
        let asked: Vec<u64> = client.1.iter().flatten().copied().collect();
        assert_eq!(asked, (0..1000).collect::<Vec<_>>());
        assert_eq!(client.1.len(), 1000_usize.div_ceil(GOT_MAX));
    }

    #[test]
    fn an_answer_is_under_way_while_another_one_is_used() {
        let mut client = Client::default();
        client.expect(0..1000);
        client.get(0);
        assert_eq!(client.1.len(), 1 + UNDER_WAY_MAX);
    }

    #[test]
    fn a_chunk_that_several_have_is_got_for_each() {
        let mut client = Client::default();
        client.expect([1, 2, 1, 1, 2].into_iter());
        [1, 2, 1, 1, 2].into_iter().for_each(|number| client.get(number));
        assert_eq!(client.1, [[1, 2, 1, 1, 2]]);
    }

    #[test]
    fn what_was_not_expected_is_asked_for_and_the_rest_stays_expected() {
        let mut client = Client::default();
        client.get(7);
        client.expect(0..3);
        client.get(9);
        (0..3).for_each(|number| client.get(number));
        assert_eq!(client.1, [vec![7], vec![9], vec![0, 1, 2]]);
    }

    #[test]
    fn what_is_not_wanted_after_all_takes_no_more_than_its_share_of_memory() {
        let mut client = Client::default();
        client.expect(0..EXPECTED_MAX as u64 * 2);
        assert_eq!(client.0.expected.len(), EXPECTED_MAX);
        (0..EXPECTED_MAX as u64 * 2).step_by(50).for_each(|number| client.get(number));
    }

    #[test]
    fn what_is_expected_within_comes_first() {
        let mut client = Client::default();
        client.expect([1, 2, 1000].into_iter());
        (1..3).for_each(|number| client.get(number));
        client.expect(100..500);
        (100..500).for_each(|number| client.get(number));
        client.get(1000);
        client.get(1000);
    }
}
