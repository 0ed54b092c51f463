//! `quietus`: a disk that forgets what it is told to.

use quietus::base::aligned::Aligned;
use quietus::base::wiping::Wiping;

#[global_allocator]
static MEMORY: Wiping<Aligned> = Wiping(Aligned);

fn main() -> std::process::ExitCode {
    quietus::cli::main()
}
