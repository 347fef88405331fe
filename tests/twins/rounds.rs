//! Rounds of a random test. A round has a seed of its own, printed when it panics; the first one is printed at once.

#![allow(clippy::print_stdout, reason = "the seed repeats a failure")]

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use fastrand::Rng;

/// The number in a variable of the environment.
fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}: expected a number, found {text}")))
}

/// Runs `round` so many times, or `LYCOSA_ROUNDS` times, from seeds that follow each other; the first is `LYCOSA_SEED`
/// or any.
pub fn for_each_round(usual: u64, mut round: impl FnMut(&mut Rng)) {
    let seed = number("LYCOSA_SEED").unwrap_or_else(|| fastrand::u64(..1 << 48));
    let rounds = number("LYCOSA_ROUNDS").unwrap_or(usual);
    println!("seed {seed}, {rounds} rounds");
    for seed in seed..seed + rounds {
        let outcome = catch_unwind(AssertUnwindSafe(|| round(&mut Rng::with_seed(seed))));
        if let Err(panic) = outcome {
            println!("LYCOSA_SEED={seed} LYCOSA_ROUNDS=1 repeats the failure");
            resume_unwind(panic);
        }
    }
}
