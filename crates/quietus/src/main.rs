//! `quietus`: a disk that forgets what it is told to.

use quietus::aligned::Aligned;
use quietus::wiping::Wiping;

#[global_allocator]
static MEMORY: Wiping<Aligned> = Wiping(Aligned);

fn main() -> std::process::ExitCode {
    quietus::cli::main()
}
