//! What happens at the end of each event, when everything that has ended is dealt with: verdicts, forgets, dead content that leaves
//! its place, and the erase task. Here the owners meet; none of them names what is here.

pub(super) mod by_key;
pub(super) mod choose;
pub(super) mod forgetting;
pub(super) mod inferring;
pub(super) mod leaving;
pub(super) mod tasks;
