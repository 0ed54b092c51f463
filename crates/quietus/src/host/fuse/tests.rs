//! The parts that need no kernel.

use super::{Cache, Inodes, ROOT};

#[test]
fn an_entry_keeps_its_number_until_the_kernel_has_forgotten_all_of_its_lookups() {
    let mut inodes = Inodes::new("", 0);
    let look_up = |inodes: &mut Inodes<_, _>, key| inodes.look_up(key, |number| number + 10);
    let first = look_up(&mut inodes, "a");
    assert_eq!(look_up(&mut inodes, "a"), first);
    assert_eq!(inodes.get(first), Some((&"a", &(first + 10))));
    let other = look_up(&mut inodes, "b");
    assert_ne!(other, first);
    inodes.forget(first, 1);
    assert!(inodes.get(first).is_some());
    inodes.forget(first, 1);
    assert!(inodes.get(first).is_none() && inodes.get(other).is_some());
    assert_ne!(look_up(&mut inodes, "a"), first, "a number has two meanings");
    for number in 0..100 {
        inodes.forget(number, u64::MAX);
    }
    assert_eq!(inodes.len(), (1, 0), "all but the root is forgotten");
    assert_eq!(inodes.get(ROOT), Some((&"", &0)));
}

#[test]
fn a_cache_keeps_what_was_used_last_within_its_weight() {
    let mut cache = Cache::new(10);
    for key in 0..3 {
        cache.keep(key, key * 100, 3);
    }
    assert_eq!(cache.get(&0).as_deref(), Some(&0));
    cache.keep(3, 300, 3);
    let there =
        |cache: &mut Cache<i32, i32>| (0..9).filter(|key| cache.get(key).is_some()).collect::<Vec<_>>();
    assert_eq!(there(&mut cache), [0, 2, 3]);
    cache.keep(7, 700, 50);
    assert_eq!(there(&mut cache), [7], "one that is too heavy is kept alone");
    cache.keep(8, 800, 1);
    assert_eq!(there(&mut cache), [8]);
    cache.keep(8, 801, 10);
    assert_eq!((cache.get(&8).as_deref(), there(&mut cache)), (Some(&801), vec![8]), "one takes its place");
    cache.keep(2, 200, 1);
    cache.remove(&2);
    assert_eq!(there(&mut cache), [0; 0], "the heavy one had to make room");
}
