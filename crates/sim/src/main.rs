//! quick
use quietus_sim::{history::History, verdict::{verdict, silence_panics}, shrink::shrink};
fn main() {
    silence_panics();
    let args: Vec<u64> = std::env::args().skip(1).map(|a| a.parse().unwrap_or(0)).collect();
    let t = std::time::Instant::now();
    let mut by: std::collections::BTreeMap<String,(u64,String,u64)> = Default::default();
    for seed in args[0]..args[1] {
        if let Err(v) = verdict(&History::from_seed(seed)) {
            let key = format!("{:?}", v.oracle);
            let e = by.entry(key).or_insert((seed, v.to_string(), 0)); e.2 += 1;
        }
    }
    for (_, (seed, what, n)) in &by {
        println!("{n} failures; first seed {seed}: {what}");
        let h = History::from_seed(*seed);
        let o = verdict(&h).expect_err("fails").oracle;
        let s = shrink(&h, o);
        println!("{s}\n{}", verdict(&s).expect_err("fails"));
    }
    println!("{:?}", t.elapsed());
}
