//! Runs the arms of a group in turns, compares what they compute, and prints how long they took.
//!
//! ```text
//! round 0    skip  plain  nested      not counted: caches and branch predictors warm up
//! round 1    plain nested skip        every round begins with another arm
//! round 2    nested skip  plain       a ratio is taken within each round, from neighbours in time
//! ```
//!
//! An arm times itself, so that what it has to set up or take down does not count, and tells what it found by name
//! (sums, counts). Findings of the same name must be the same in all arms and rounds, or the group fails.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use lycosa::Error;

/// What one run of an arm gives.
pub struct Outcome {
    /// One time for each of the arm's lines.
    pub times: Vec<Duration>,
    /// What was computed, to be compared with the other arms.
    pub found: Vec<(&'static str, u64)>,
}

impl Outcome {
    pub fn new(time: Duration, found: Vec<(&'static str, u64)>) -> Self {
        Self { times: vec![time], found }
    }
}

/// How long `work` takes, and what it gives.
pub fn timed<T>(work: impl FnOnce() -> T) -> (Duration, T) {
    let begun = Instant::now();
    let done = work();
    (begun.elapsed(), done)
}

type Run<'a> = Box<dyn FnMut() -> Result<Outcome, Error> + 'a>;

struct Arm<'a> {
    lines: Vec<String>,
    run: Run<'a>,
}

/// Arms that do the same work in different ways.
pub struct Group<'a> {
    title: String,
    rows: u64,
    bytes: u64,
    arms: Vec<Arm<'a>>,
    ratios: Vec<(String, String)>,
    expected: Vec<(&'static str, u64)>,
}

impl<'a> Group<'a> {
    /// `rows` and `bytes` are the work of one run of each arm; no bytes: their rate says nothing.
    pub fn new(title: impl Into<String>, rows: u64, bytes: u64) -> Self {
        let (arms, ratios) = (Vec::new(), Vec::new());
        Self { title: title.into(), rows, bytes, arms, ratios, expected: Vec::new() }
    }

    pub fn title(&self) -> &str {
        &self.title
    }

    /// What the arms must find, known from elsewhere.
    pub fn expect(&mut self, name: &'static str, value: u64) {
        self.expected.push((name, value));
    }

    /// An arm with one time.
    pub fn arm(&mut self, name: &str, run: impl FnMut() -> Result<Outcome, Error> + 'a) {
        self.arms.push(Arm { lines: vec![name.into()], run: Box::new(run) });
    }

    /// An arm with several times, which are shown as `name: part`.
    pub fn arm_of(&mut self, name: &str, parts: &[&str], run: impl FnMut() -> Result<Outcome, Error> + 'a) {
        let lines = parts.iter().map(|part| format!("{name}: {part}")).collect();
        self.arms.push(Arm { lines, run: Box::new(run) });
    }

    /// Shows how much longer the line `over` takes than the line `under`; nothing if either is not there.
    pub fn ratio(&mut self, over: &str, under: &str) {
        self.ratios.push((over.into(), under.into()));
    }

    /// Runs all arms `rounds` times and writes a table.
    ///
    /// # Errors
    /// An arm failed, or found something else than another one or than expected.
    pub fn run(mut self, rounds: usize, warm_up: bool) -> Result<String, String> {
        let count = self.arms.len();
        let mut times: Vec<Vec<Vec<Duration>>> =
            self.arms.iter().map(|arm| vec![Vec::new(); arm.lines.len()]).collect();
        let mut found: Vec<(&'static str, u64, String)> =
            self.expected.iter().map(|&(name, value)| (name, value, "expected".into())).collect();
        for round in usize::from(!warm_up)..=rounds {
            for turn in 0..count {
                let number = (round + turn) % count;
                let arm = &mut self.arms[number];
                let who = arm.lines[0].clone();
                let outcome =
                    (arm.run)().map_err(|error| format!("{}: {who}, round {round}: {error}", self.title))?;
                for (name, value) in outcome.found {
                    match found.iter().find(|(other, ..)| *other == name) {
                        Some((_, other, _)) if *other == value => {}
                        Some((_, other, whose)) => {
                            let title = &self.title;
                            return Err(format!(
                                "{title}: {who}, round {round}: {name}: expected {other} ({whose}), found {value}"
                            ));
                        }
                        None => found.push((name, value, who.clone())),
                    }
                }
                if round > 0 {
                    for (line, time) in times[number].iter_mut().zip(outcome.times) {
                        line.push(time);
                    }
                }
            }
        }
        Ok(self.table(&times))
    }

    fn table(&self, times: &[Vec<Vec<Duration>>]) -> String {
        let names = self.arms.iter().flat_map(|arm| &arm.lines);
        let lines: Vec<(&String, &Vec<Duration>)> = names.zip(times.iter().flatten()).collect();
        let ratios = self.ratios.iter().filter_map(|(over, under)| {
            let line = |name| lines.iter().find(|(line, _)| *line == name).map(|(_, times)| *times);
            let of_rounds = line(over)?.iter().zip(line(under)?);
            let ratios: Vec<f64> =
                of_rounds.map(|(over, under)| over.as_secs_f64() / under.as_secs_f64()).collect();
            Some((format!("{over} / {under}"), ratios))
        });
        let ratios: Vec<(String, Vec<f64>)> = ratios.collect();
        let widths =
            lines.iter().map(|(name, _)| name.len()).chain(ratios.iter().map(|(name, _)| name.len()));
        let width = widths.max().unwrap_or(0);

        let mut text = format!("{}: {} rows", self.title, self.rows);
        if self.bytes > 0 {
            let _ = write!(text, ", {:.1} MB", self.bytes as f64 / 1e6);
        }
        let [min, median, max] = ["ns/row min", "median", "max"];
        let _ = write!(text, "\n  {:width$} {min:>11} {median:>9} {max:>9} {:>11}", "", "rows/s");
        text += if self.bytes > 0 { "     bytes/s\n" } else { "\n" };
        for (name, times) in lines {
            let ns: Vec<f64> =
                times.iter().map(|time| time.as_nanos() as f64 / self.rows.max(1) as f64).collect();
            let [min, median, max] = spread(ns);
            let _ = write!(text, "  {name:width$} {min:>11.2} {median:>9.2} {max:>9.2}");
            let _ = write!(text, " {:>9.2} M", 1e3 / median);
            if self.bytes > 0 {
                let gigabytes = self.bytes as f64 / (median * self.rows.max(1) as f64);
                let _ = write!(text, " {gigabytes:>8.3} GB");
            }
            text.push('\n');
        }
        for (name, ratios) in ratios {
            let [min, median, max] = spread(ratios);
            let _ = writeln!(text, "  {name:width$} {min:>10.3}x {median:>8.3}x {max:>8.3}x");
        }
        text
    }
}

/// Least, median and greatest.
fn spread(mut values: Vec<f64>) -> [f64; 3] {
    values.sort_by(f64::total_cmp);
    let count = values.len();
    if count == 0 {
        return [f64::NAN; 3];
    }
    [values[0], (values[(count - 1) / 2] + values[count / 2]) / 2.0, values[count - 1]]
}

/// Whether a wrong result would be noticed: an arm that finds another sum than the one before it must fail its group,
/// and so must one that finds something else than expected.
pub fn notices_wrong_results() -> bool {
    let group = |expected: u64, second: u64| {
        let mut group = Group::new("self-test", 1, 0);
        group.expect("count", expected);
        for (name, sum) in [("right", 7), ("second", second)] {
            group.arm(name, move || Ok(Outcome::new(Duration::ZERO, vec![("count", 1), ("sum", sum)])));
        }
        group.run(2, true)
    };
    group(1, 7).is_ok() && group(1, 8).is_err() && group(2, 7).is_err()
}
