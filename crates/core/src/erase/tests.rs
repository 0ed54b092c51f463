//! A task driven by hand, and against the dullest possible model: a medium whose cache folds
//! passes, and a list of what each byte has seen.

use super::*;
use crate::base::units::{Extent, Pos};
use crate::erase::policy::Policy;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use std::collections::BTreeMap;

const IDLE: Foreground = Foreground { is_due: true, is_at_work: false };
const MEDIUM: u32 = 1000;
const STAGING: u32 = 2000;
const STAGING_MEDIUM: u32 = 2001;

fn policy(name: &str) -> Policy {
    name.parse().unwrap()
}

fn destroy(residue: &[u32]) -> Destroy<u32> {
    Destroy {
        residue: residue.to_vec(),
        at_once: 1,
        zeros: Zeros::AfterPasses,
        medium: MEDIUM,
        forget: Vec::new(),
        checkpoint: false,
        record: true,
    }
}

fn rewrite(sites: &[u32], contents: Option<Vec<Buf>>) -> Method<u32> {
    let (medium, staging, staging_medium) = (MEDIUM, STAGING, STAGING_MEDIUM);
    Method::Rewrite(Rewrite { sites: sites.to_vec(), contents, medium, staging, staging_medium })
}

/// The steps of a task in words, one part at a time.
fn told(mut task: Task<u32>) -> Vec<String> {
    let mut told = Vec::new();
    while let Some(work) = task.next(IDLE) {
        task.done(vec![told.len() as u8].into());
        told.push(match work {
            Work::Io(StepIo { at, verb: Verb::Fill(pattern) }) => format!("{} {at:?}", in_words(&pattern)),
            Work::Io(StepIo { at, verb }) => format!("{verb:?} {at:?}"),
            Work::Point(point) => format!("{point:?}"),
        });
    }
    assert!(task.is_over(), "nothing begins, and the task is not over: {task:?}");
    told
}

fn in_words(pattern: &Pattern) -> String {
    match pattern {
        Pattern::Bytes(bytes) => bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
        Pattern::Random => "random".into(),
    }
}

fn begun(task: &mut Task<u32>, foreground: Foreground) -> usize {
    std::iter::from_fn(|| task.next(foreground)).count()
}

#[test]
fn a_sync_follows_each_pass_and_the_record_comes_last() {
    let (forget, zeros) = (vec![7], Zeros::Holes(vec![9]));
    let method = Destroy { forget, zeros, checkpoint: true, ..destroy(&[1, 2]) };
    let task = Task::new(Method::Destroy(method), &policy("ff,random"), Priority::Due);
    let passes = ["ff [1]", "ff [2]", "Sync [1000]", "random [1]", "random [2]", "Sync [1000]"];
    let rest = ["Punch [9]", "Sync [1000]", "Forget(7)", "Checkpoint", "Record(Erased)"];
    assert_eq!(told(task), [&passes[..], &rest].concat());
}

#[test]
fn zeros_come_last_only_where_the_policy_leaves_none() {
    let steps = |name, zeros| {
        let method = Method::Destroy(Destroy { zeros, record: false, ..destroy(&[1]) });
        told(Task::new(method, &policy(name), Priority::Due))
    };
    assert_eq!(steps("clear", Zeros::Always), ["00 [1]", "Sync [1000]"]);
    assert_eq!(steps("clear", Zeros::Holes(vec![1])), ["00 [1]", "Sync [1000]"]);
    assert_eq!(steps("ff", Zeros::AfterPasses), ["ff [1]", "Sync [1000]", "00 [1]", "Sync [1000]"]);
    assert_eq!(steps("none", Zeros::Always), ["00 [1]", "Sync [1000]"]);
    assert_eq!(steps("none", Zeros::AfterPasses), Vec::<String>::new());
}

#[test]
fn fresh_keys_are_written_once_all_passes_over_the_old_ones_are_durable() {
    let old = Destroy { zeros: Zeros::Holes(Vec::new()), record: false, ..destroy(&[1, 2]) };
    let method = Method::Renew(old, vec![8, 9].into());
    let steps = ["ff [1]", "ff [2]", "Sync [1000]", "random [1]", "random [2]", "Sync [1000]"];
    let fresh = ["Write([8, 9]) [1, 2]", "Sync [1000]"];
    assert_eq!(told(Task::new(method, &policy("ff,random"), Priority::Due)), [&steps[..], &fresh].concat());
}

#[test]
fn content_is_durable_under_fresh_keys_before_its_old_ones_are_destroyed() {
    let old = || Destroy { zeros: Zeros::Always, record: false, ..destroy(&[4]) };
    let put = |at: &[u32], byte, medium| Put { at: at.into(), bytes: vec![byte; at.len()].into(), medium };
    let passes = ["ff [4]", "Sync [1000]", "00 [4]", "Sync [1000]"];
    let puts = ["Write([8, 8]) [1, 2]", "Sync [2000]", "Write([9]) [3]", "Sync [2001]"];
    let both = Method::Rekey([put(&[1, 2], 8, 2000), put(&[3], 9, 2001)], old());
    assert_eq!(told(Task::new(both, &policy("ff"), Priority::Background)), [puts, passes].concat());
    let none = Method::Rekey([put(&[], 8, 2000), put(&[], 9, 2001)], old());
    assert_eq!(told(Task::new(none, &policy("ff"), Priority::Background)), passes);
}

#[test]
fn what_lies_in_no_site_is_only_recorded() {
    let task =
        Task::new(Method::Destroy(Destroy { checkpoint: true, ..destroy(&[]) }), &policy("4"), Priority::Due);
    assert_eq!(told(task), ["Checkpoint", "Record(Erased)"]);
}

#[test]
fn content_is_saved_before_the_passes_and_its_copy_destroyed_after_them() {
    let task = Task::new(rewrite(&[1, 2], None), &policy("random,ff"), Priority::Urgent);
    let saves = ["Reserve [1, 2]", "Read [1]", "Read [2]", "Save [2000]", "Record(Saved)"];
    let passes = ["random [1]", "random [2]", "Sync [1000]", "ff [1]", "ff [2]", "Sync [1000]"];
    let restores = ["Write([1]) [1]", "Write([2]) [2]", "Sync [1000]", "Record(Restored)"];
    let ends = ["random [2000]", "Sync [2001]", "ff [2000]", "Sync [2001]", "Record(Erased)"];
    assert_eq!(told(task), [&saves[..], &passes, &restores, &ends].concat());
    let given = Task::new(rewrite(&[1], Some(vec![vec![9].into()])), &policy("ff"), Priority::Urgent);
    let steps = told(given);
    assert_eq!((steps[1].as_str(), steps[5].as_str()), ("Save [2000]", "Write([9]) [1]"));
}

#[test]
fn content_is_put_back_at_once_where_a_site_will_not_be_erased() {
    let mut task = Task::new(rewrite(&[1, 2], None), &policy("random,ff"), Priority::Urgent);
    while !matches!(task.next(IDLE), Some(Work::Io(StepIo { verb: Verb::Fill(_), .. }))) {
        assert!(task.puts_back() && task.destroys(0).is_none());
        task.done(vec![7].into());
    }
    assert!(task.next(IDLE).is_some() && task.destroys(task.last_part()) == Some(&[2]));
    task.skip();
    assert_eq!(task.next(IDLE), None, "the other site is under way");
    task.done(Buf::new());
    let rest = told(task);
    assert_eq!(rest[..4], ["Write([7]) [1]", "Write([7]) [2]", "Sync [1000]", "Record(Restored)"]);
    assert_eq!(rest.last().map(String::as_str), Some("Record(Erased)"));
}

#[test]
fn a_step_that_reads_again_keeps_the_content_of_each_site_apart() {
    let mut task = Task::new(rewrite(&[1, 2], None), &policy("ff"), Priority::Urgent);
    assert!(task.next(IDLE).is_some() && task.is_reserving());
    task.done(Buf::new());
    assert!(task.next(IDLE).is_some() && task.is_reading());
    task.done(vec![1].into());
    assert!(task.next(IDLE).is_some() && task.is_reading());
    task.postponed();
    task.retry();
    for byte in [1, 2] {
        assert!(task.next(IDLE).is_some() && task.is_reading());
        task.done(vec![byte].into());
    }
    assert_eq!(task.contents(), [Buf::from(vec![1]), Buf::from(vec![2])]);
}

#[test]
fn live_content_is_durable_at_its_new_site_before_the_map_names_it() {
    let method = CopyLive { from: (0..65).collect(), to: (100..165).collect(), medium: MEDIUM };
    let mut task = Task::new(Method::CopyLive(method), &policy("ff"), Priority::Background);
    let Some(Work::Io(read)) = task.next(IDLE) else { panic!("the content is read first") };
    assert_eq!((read.verb, read.at), (Verb::Read, (0..64).collect::<Vec<_>>()));
    task.done(vec![1; 64].into());
    let rest = told(task);
    assert_eq!(rest[0], "Read [64]");
    assert!(rest[1].starts_with("Write([1, 1, ") && rest[2] == "Write([0]) [164]", "{rest:?}");
    assert_eq!(rest[3..5], ["Sync [1000]", "Rebind { from: 0, to: 100 }"]);
    assert_eq!(rest[68..], ["Rebind { from: 64, to: 164 }", "Checkpoint"]);
}

#[test]
fn simple_tasks_are_one_step() {
    let steps = |method| told(Task::new(method, &policy("ff"), Priority::Background));
    assert_eq!(steps(Method::Punch(vec![1, 2])), ["Punch [1]", "Punch [2]"]);
    assert_eq!(steps(Method::Shrink(1)), ["Shrink [1]"]);
    assert_eq!(steps(Method::Read(vec![1, 2])), ["Read [1, 2]"]);
}

#[test]
fn a_pass_is_under_way_at_several_sites_and_the_sync_waits_for_all_of_them() {
    let mut task = Task::new(Method::Destroy(destroy(&[1, 2, 3, 4, 5])), &policy("ff"), Priority::Due);
    assert_eq!(begun(&mut task, IDLE), FILLS_MAX);
    task.done(Buf::new());
    assert_eq!(begun(&mut task, IDLE), 1);
    for _ in 1..FILLS_MAX {
        task.done(Buf::new());
        assert_eq!(begun(&mut task, IDLE), 0, "the sync began before a pass had ended");
    }
    task.done(Buf::new());
    assert_eq!(task.next(IDLE), Some(Work::Io(StepIo { at: vec![MEDIUM], verb: Verb::Sync })));
    assert_eq!(begun(&mut task, IDLE), 0, "the next step began before the sync had ended");
    assert!(!task.is_at_rest());
}

#[test]
fn what_begins_depends_on_the_foreground_and_on_who_waits() {
    let new = |priority| Task::new(Method::Destroy(destroy(&[1, 2, 3, 4, 5])), &policy("ff"), priority);
    let at_work = |is_due| Foreground { is_due, is_at_work: true };
    let quiet = Foreground { is_due: false, is_at_work: false };
    for (priority, counts) in
        [(Priority::Background, [1, 1, 4]), (Priority::Due, [0, 1, 0]), (Priority::Urgent, [4, 4, 4])]
    {
        let found = [at_work(false), at_work(true), quiet].map(|it| begun(&mut new(priority), it));
        assert_eq!(found, counts, "{priority:?}");
        let shown = [at_work(false), at_work(true), quiet].map(|it| new(priority).next_sites(it).len());
        assert_eq!(shown, counts.map(|count| count.min(1)), "{priority:?}");
    }
    let mut hurried = new(Priority::Due);
    hurried.hurry();
    assert_eq!(begun(&mut hurried, at_work(false)), FILLS_MAX);
}

#[test]
fn a_task_gives_way_unless_a_request_waits_for_it_or_content_would_be_in_doubt() {
    let copy = || Method::CopyLive(CopyLive { from: vec![1], to: vec![2], medium: MEDIUM });
    let gives_way = |method, priority| Task::new(method, &policy("ff"), priority).should_end(true);
    assert!(gives_way(Method::Destroy(destroy(&[1])), Priority::Due));
    assert!(gives_way(Method::Punch(vec![1]), Priority::Background));
    assert!(!gives_way(Method::Destroy(destroy(&[1])), Priority::Urgent));
    assert!(!gives_way(copy(), Priority::Background) && !gives_way(rewrite(&[1], None), Priority::Due));
    assert!(!gives_way(Method::Shrink(1), Priority::Background));
    let mut failing = Task::new(copy(), &policy("ff"), Priority::Background);
    assert!(!failing.should_end(false) && failing.next(IDLE).is_some() && failing.is_reading());
    failing.failed();
    assert!(failing.should_end(false) && failing.is_at_rest() && !failing.is_over());
    assert_eq!(failing.next(IDLE), None);
}

#[test]
fn a_batch_ends_with_the_run_that_fills_it() {
    let limits = Limits { run_bytes_max: 10, batch_bytes_max: 25, one_by_one: false };
    let all = [Extent::<Pos>::new(5, 10), Extent::new(40, 30)];
    let runs = limits.runs(all.into_iter());
    let wanted = [(5, 5), (10, 5), (40, 10), (50, 10)];
    assert_eq!(runs, wanted.map(|(start, len)| Extent::new(start, len)));
    let none = Limits { batch_bytes_max: 0, ..limits };
    assert_eq!(none.runs(all.into_iter()), []);
    assert_eq!(limits.batch(0.., |_| 0).count(), RUNS_MAX);
}

#[test]
fn short_runs_share_a_write_of_a_pass_as_far_as_that_stays_short() {
    let limits = Limits { run_bytes_max: 1 << 20, batch_bytes_max: 1 << 20, one_by_one: false };
    let at_once =
        |limits: Limits, lens: &[u64]| limits.at_once(lens.iter().map(|len| Extent::<Pos>::new(0, *len)));
    assert_eq!(
        [&[512, 4096][..], &[4096, 65536], &[1 << 20], &[]].map(|it| at_once(limits, it)),
        [16, 1, 1, 1]
    );
    assert_eq!(at_once(Limits { run_bytes_max: 8192, ..limits }, &[4096]), 2);
    let one_by_one = Limits { one_by_one: true, ..limits };
    let neighbours = [Extent::<Pos>::new(0, 512), Extent::new(512, 512)];
    assert_eq!((at_once(one_by_one, &[512]), one_by_one.holes(&neighbours)), (1, neighbours.to_vec()));
    assert_eq!(limits.holes(&neighbours), [Extent::new(0, 1024)]);
    let method = Method::Destroy(Destroy { at_once: 2, forget: vec![7, 8], ..destroy(&[1, 2, 3]) });
    let steps = told(Task::new(method, &policy("ff"), Priority::Due));
    let passes = ["ff [1, 2]", "ff [3]", "Sync [1000]", "00 [1, 2]", "00 [3]", "Sync [1000]"];
    assert_eq!(steps[..6], passes);
    assert_eq!(steps[6..8], ["Forget(7)", "Forget(8)"]);
}

#[test]
fn holes_join_neighbours_and_end_at_windows() {
    let window = 2 << 20;
    let found = holes::<Pos>(&[Extent::new(window, 4096), Extent::new(4096, window - 4096)]);
    assert_eq!(found, [Extent::new(4096, window - 4096), Extent::new(window, 4096)]);
}

#[test]
fn no_seed_comes_twice() {
    let mut seeds = Seeds::new([7; 32]);
    let (one, two) = (seeds.draw(), seeds.draw());
    assert!(one != two && one.entropy == [7; 32]);
}

/// One layer at a site: a pass that its medium has seen, or content.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Layer {
    Pass(Pattern),
    Content(Buf),
}

/// A medium with a cache: of what was written since the last sync the last alone reaches it.
#[derive(Default)]
struct Model {
    cache: BTreeMap<u32, Layer>,
    layers: BTreeMap<u32, Vec<Layer>>,
    /// The content of the staging area, durable.
    saved: Option<Vec<Buf>>,
    is_recorded: bool,
    is_erased: bool,
}

impl Model {
    fn sync(&mut self, medium: u32) {
        let is_there = |site: u32| (site >= STAGING) == (medium == STAGING_MEDIUM);
        let (there, elsewhere) =
            std::mem::take(&mut self.cache).into_iter().partition(|(site, _)| is_there(*site));
        self.cache = elsewhere;
        let there: BTreeMap<u32, Layer> = there;
        for (site, layer) in there {
            self.layers.entry(site).or_default().push(layer);
        }
    }

    /// `work` takes place when it ends; returns what it read.
    fn carry_out(&mut self, work: Work<u32>, contents: &[Buf]) -> Buf {
        let io = match work {
            Work::Io(io) => io,
            Work::Point(point) => {
                self.pass(&point);
                return Buf::new();
            }
        };
        match io.verb {
            Verb::Reserve => {}
            Verb::Read => return vec![io.at[0] as u8].into(),
            Verb::Write(data) => self.put(&io.at, &Layer::Content(data)),
            Verb::Fill(pattern) => self.put(&io.at, &Layer::Pass(pattern)),
            Verb::Punch => self.put(&io.at, &Layer::Pass(Pattern::zeros())),
            Verb::Erase(_) => panic!("no medium here erases"),
            Verb::Save => self.saved = Some(contents.to_vec()),
            Verb::Sync => self.sync(io.at[0]),
            Verb::Shrink => panic!("no task here shrinks"),
            Verb::Log(_) => panic!("no task here logs keys"),
        }
        Buf::new()
    }

    fn put(&mut self, at: &[u32], layer: &Layer) {
        self.cache.extend(at.iter().map(|site| (*site, layer.clone())));
    }

    fn pass(&mut self, point: &Point<u32>) {
        match point {
            Point::Record(Record::Saved) => self.is_recorded = true,
            Point::Record(Record::Restored) => self.is_recorded = false,
            Point::Record(Record::Erased) => {
                assert!(self.cache.is_empty(), "erased before the last sync");
                self.is_erased = true;
            }
            _ => {}
        }
    }

    /// The content of `site` would survive a power cut now.
    fn keeps(&self, site: u32, index: usize) -> bool {
        let in_place = self.layers.get(&site).is_none_or(|all| matches!(all.last(), Some(Layer::Content(_))));
        let copy = self.saved.as_ref().filter(|_| self.is_recorded).map(|all| &all[index]);
        (in_place && !self.cache.contains_key(&site)) || copy.is_some_and(|copy| **copy == [site as u8])
    }
}

struct Random(ChaCha8Rng);

impl Random {
    fn below(&mut self, n: u32) -> usize {
        (self.0.next_u32() % n) as usize
    }

    /// 0 to 5 passes.
    fn policy(&mut self) -> Policy {
        let count = self.below(6);
        let passes: Vec<_> = (0..count).map(|_| ["random", "zero", "ff", "924924"][self.below(4)]).collect();
        policy(if passes.is_empty() { "none".into() } else { passes.join(",") }.as_str())
    }

    fn foreground(&mut self) -> Foreground {
        Foreground { is_due: self.below(4) > 0, is_at_work: self.below(2) == 0 }
    }

    /// Drives a task until it is over or, with no `patience` left, may be given up. Works end in any
    /// order. The content of `kept` has to survive a power cut at any time. Returns whether it is over.
    fn drive(&mut self, mut task: Task<u32>, model: &mut Model, patience: usize, kept: &[u32]) -> bool {
        let mut under_way: Vec<Work<u32>> = Vec::new();
        for works in 0.. {
            let foreground = self.foreground();
            while let Some(work) = task.next(foreground) {
                under_way.push(work);
                let max = if under_way.iter().all(is_fill) { fills_max(foreground, kept) } else { 1 };
                assert!(under_way.len() <= max, "{} under way at {foreground:?}", under_way.len());
            }
            if !under_way.is_empty() {
                let work = under_way.swap_remove(self.below(under_way.len() as u32));
                let contents = task.contents().to_vec();
                task.done(model.carry_out(work, &contents));
            }
            for (index, site) in kept.iter().enumerate() {
                assert!(model.keeps(*site, index), "the content of {site} is at risk");
            }
            assert_eq!(task.is_at_rest(), under_way.is_empty());
            if task.is_over() || works >= patience && task.should_end(true) && task.is_at_rest() {
                return task.is_over();
            }
        }
        false
    }
}

fn is_fill(work: &Work<u32>) -> bool {
    matches!(work, Work::Io(StepIo { verb: Verb::Fill(_), .. }))
}

/// A request waits for a task that keeps content.
fn fills_max(foreground: Foreground, kept: &[u32]) -> usize {
    if foreground.is_at_work && kept.is_empty() { FILLS_AT_WORK_MAX } else { FILLS_MAX }
}

fn layers(policy: &Policy) -> Vec<Layer> {
    policy.passes().iter().cloned().map(Layer::Pass).collect()
}

#[test]
fn whatever_the_policy_each_pass_reaches_the_medium_in_order_before_anything_counts_as_erased() {
    for seed in 0..2000 {
        let mut random = Random(ChaCha8Rng::seed_from_u64(seed));
        let (policy, sites) = (random.policy(), (0..random.below(9) as u32 + 1).collect::<Vec<_>>());
        let zeros = [Zeros::AfterPasses, Zeros::Always, Zeros::Holes(sites.clone())][random.below(3)].clone();
        let mut wanted = layers(&policy);
        let is_last = !policy.leaves_zeros() && (zeros != Zeros::AfterPasses || !wanted.is_empty());
        wanted.extend(is_last.then(|| Layer::Pass(Pattern::zeros())));
        let (mut model, mut patience) = (Model::default(), random.below(40));
        loop {
            assert!(!model.is_erased);
            let at_once = random.below(3) + 1;
            let method = Method::Destroy(Destroy { zeros: zeros.clone(), at_once, ..destroy(&sites) });
            let task = Task::new(method, &policy, Priority::Due);
            if random.drive(task, &mut model, patience, &[]) {
                break;
            }
            // Begun again, it begins with the first pass, and in the end goes on until it is over.
            patience = patience * 2 + 1;
        }
        assert!(model.is_erased && model.cache.is_empty(), "seed {seed}");
        for site in sites {
            let seen = model.layers.remove(&site).unwrap_or_default();
            assert!(seen.ends_with(&wanted), "seed {seed}: site {site} has seen {seen:?}, not {wanted:?}");
        }
    }
}

#[test]
fn whatever_the_policy_content_survives_a_power_cut_at_any_time_and_its_copy_does_not_stay() {
    for seed in 0..1000 {
        let mut random = Random(ChaCha8Rng::seed_from_u64(seed));
        let (policy, sites) = (random.policy(), (0..random.below(9) as u32 + 1).collect::<Vec<_>>());
        let contents = sites.clone().into_iter().map(|site| vec![site as u8]);
        let given = Some(contents.clone().map(Buf::from).collect()).filter(|_| random.below(2) == 0);
        let mut model = Model::default();
        let task = Task::new(rewrite(&sites, given), &policy, Priority::Urgent);
        assert!(random.drive(task, &mut model, 0, &sites), "seed {seed}: content was given up");
        assert!(model.is_erased && !model.is_recorded, "seed {seed}");
        let passes = layers(&policy);
        for (site, content) in sites.into_iter().zip(contents) {
            let wanted: Vec<_> = passes.iter().cloned().chain([Layer::Content(content.into())]).collect();
            assert_eq!(model.layers.get(&site), Some(&wanted), "seed {seed}");
        }
        assert_eq!(model.layers.remove(&STAGING).unwrap_or_default(), passes, "seed {seed}");
    }
}
