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
fn a_request_whose_content_cannot_be_opened_is_refused_alone() {
    let part = Op::Write(vec![7; 512].into());
    let cases = [("read", Bench::new("clear"), Op::Read, 4096), ("part of a block", overlay(), part, 512)];
    for (name, mut bench, op, len) in cases {
        bench.write(8192, 7, 4096);
        let id = bench.ask(op, 512, len);
        let error = bench.opens_nothing();
        assert_eq!(bench.replies.remove(&id), Some(Err(Refusal::Unauthentic(error.to_string()))), "{name}");
        bench.write(0, 9, 4096);
        assert_eq!((bench.latched.clone(), bench.reads(0, 4096)), (None, vec![9; 4096]), "{name}");
    }
}
