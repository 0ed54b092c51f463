//! Content that cannot be opened.

use super::leaving::overlay;
use super::*;
use crate::base::units::{Block, Epoch, Slot};
use crate::media::sealing::{Context, Unauthentic};

impl Bench {
    /// The next operation, which is a read, finds content that cannot be opened.
    fn opens_nothing(&mut self) -> Unauthentic {
        let io = self.todo.pop_front().expect("content is to be read");
        assert_eq!(io.op, IoOp::Read);
        let error = Unauthentic(Context { block: Block(2), born: Epoch(7), slot: Slot(5) });
        self.tell(Event::Completed(io.id, Err(error.into())));
        self.settle();
        error
    }
}

#[test]
fn a_read_that_cannot_be_opened_is_refused_alone() {
    let mut bench = Bench::new("clear");
    let id = bench.ask(Op::Read, 8192, 4096);
    let error = bench.opens_nothing();
    assert_eq!(bench.replies.remove(&id), Some(Err(Refusal::Unauthentic(error.to_string()))));
    bench.write(8192, 9, 4096);
    assert_eq!((bench.latched.clone(), bench.reads(8192, 4096)), (None, vec![9; 4096]));
}

#[test]
fn a_write_whose_block_cannot_be_opened_is_refused_alone() {
    let mut bench = overlay();
    bench.write(8192, 7, 4096);
    let id = bench.ask(Op::Write(vec![7; 512].into()), 512, 512);
    let error = bench.opens_nothing();
    assert_eq!(bench.replies.remove(&id), Some(Err(Refusal::Unauthentic(error.to_string()))));
    bench.write(0, 9, 4096);
    assert_eq!((bench.latched.clone(), bench.reads(0, 4096)), (None, vec![9; 4096]));
}
